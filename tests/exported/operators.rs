//! The operators that programs may hold, against PyTorch's list of its core operators.

use ferrotrace::io::ExportedProgram;
use std::collections::BTreeSet;

/// Every core operator of PyTorch (those with `torch.Tag.core`) is known.
#[test]
fn core_operators_are_known() {
    let known: BTreeSet<&str> = ExportedProgram::known_operators().into_iter().collect();
    let copies = |name: &str| known.contains(&*name.replace("_copy.", "."));
    let core = include_str!("core_operators.txt").lines();
    let unknown: Vec<&str> = core
        .filter(|name| !known.contains(name) && !copies(name))
        .collect();
    assert_eq!(unknown, Vec::<&str>::new());
}
