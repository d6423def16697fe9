//! What hand-written kernels take, and how they cut it: facts that passes before emission decide by.

pub(crate) mod attention;
