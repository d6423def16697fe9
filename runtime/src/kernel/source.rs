//! Generated sources, and files made of them.

use crate::store::FORMAT;
use crate::store::digest;
use std::borrow::Cow;
use std::sync::Arc;

/// A piece of support text that kernels share. Equal pieces appear once in a file, the lower `order` first; of one
/// order, in the order in which kernels name them. A piece that uses another has the higher order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// Parts of a lower order come first in a file.
    pub order: u32,
    /// C text.
    pub text: Cow<'static, str>,
}

impl Part {
    /// The order of a base: a file has at most one, which all its kernels share.
    pub const BASE: u32 = u32::MAX - 1;
    /// The order of parts that use a base ([`BASE`](Part::BASE)).
    pub const LAST: u32 = u32::MAX;
}

/// One generated kernel before compilation.
///
/// The body defines `void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local)`, which runs the
/// chunks from `begin` to before `end`, and with `finish` also `void FT_SYMBOL_finish(const ft_args *a, char *local)`,
/// which runs after all chunks, on one thread. `FT_SYMBOL` is replaced by the kernel's [symbol](KernelSource::symbol), so further
/// names of the body start with it or are the same for the same meaning. A fault is stored by
/// `__atomic` operations in `a->fault`: for a site, not 0, `2 * (site %
/// `[`FAULT_SLOTS`](crate::FAULT_SLOTS)`)` is where the site goes, after the index in the word that follows.
///
/// For a CUDA device the body defines `__global__` functions of these names that take one structure: the pointers, the
/// integers and the numbers of a [`Launch`](crate::Launch), the scratch memory's address and the fault's, 8 bytes each.
/// Where all of them wait for the kernel before, by `griddepcontrol.wait`, before they touch memory,
/// [`Grid::waits`](crate::Grid::waits) says so.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KernelSource {
    /// The support text that the body uses.
    pub parts: Vec<Part>,
    /// The body. Plans that share the kernel share its memory.
    pub body: Arc<str>,
    /// Whether the body defines `FT_SYMBOL_finish`.
    pub finish: bool,
    /// What profilers and debuggers show: letters, digits and underscores, as what the kernel computes says, so that equal
    /// bodies have equal names. It may be empty.
    pub name: Arc<str>,
}

/// The beginning of every C file. In CUDA C++ each kernel has an argument structure of its own instead.
const HEADER: &str = "\
typedef struct {
  void *const *ptr;
  const long long *param;
  const unsigned long long *scalar;
  char *scratch;
  long long *fault;
} ft_args;
";

const SYMBOL: &str = "FT_SYMBOL";

impl KernelSource {
    /// The whole source of this kernel alone, with `FT_SYMBOL` for its name.
    pub fn text(&self) -> String {
        let mut text = support(std::slice::from_ref(&self));
        text.push_str(&self.body);
        text
    }

    /// The symbol of the kernel at a position of its file.
    pub fn symbol(&self, position: usize) -> String {
        match &*self.name {
            "" => format!("ft_{position}"),
            name => format!("ft_{position}_{name}"),
        }
    }

    /// What kernels must have in common to share a file; kernels of a CUDA device without it share none.
    pub(super) fn base(&self) -> Option<&str> {
        let mut parts = self.parts.iter();
        parts
            .find(|part| part.order == Part::BASE)
            .map(|part| &*part.text)
    }

    /// The key of the kernel that the compiler of this identity (path, arguments, version, flags, and what for) makes of it.
    pub(super) fn key(&self, compiler: &str) -> u128 {
        let mut fields = digest::Fields::default();
        fields.add(&FORMAT.to_le_bytes());
        fields.add(compiler.as_bytes());
        fields.add(&[self.finish as u8]);
        fields.add(self.name.as_bytes());
        let mut text = pieces(&[self]);
        text.push(&self.body);
        fields.add_joined(&text);
        fields.finish()
    }
}

/// The header and the parts of several kernels, each part once.
fn support(sources: &[&KernelSource]) -> String {
    pieces(sources).concat()
}

/// The pieces of text that [`support`] joins.
fn pieces<'a>(sources: &[&'a KernelSource]) -> Vec<&'a str> {
    let mut parts: Vec<&Part> = Vec::new();
    for part in sources.iter().flat_map(|s| &s.parts) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.sort_by_key(|part| part.order);
    let is_cuda = sources.iter().any(|s| s.body.contains("__global__"));
    let mut pieces = vec![if is_cuda { "" } else { HEADER }];
    for part in parts {
        pieces.push(&part.text);
        if !part.text.ends_with('\n') {
            pieces.push("\n");
        }
    }
    pieces
}

/// One file of several kernels, each under its symbol.
pub(super) fn file(sources: &[&KernelSource]) -> String {
    let mut text = support(sources);
    for (position, source) in sources.iter().enumerate() {
        text.push_str(&source.body.replace(SYMBOL, &source.symbol(position)));
        if !source.body.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(order: u32, text: &'static str) -> Part {
        Part {
            order,
            text: text.into(),
        }
    }

    #[test]
    fn parts_appear_once_in_order() {
        let a = KernelSource {
            parts: vec![part(2, "B"), part(1, "A")],
            body: "void FT_SYMBOL() {}\nvoid FT_SYMBOL_finish() {}".into(),
            finish: true,
            name: "".into(),
        };
        let b = KernelSource {
            parts: vec![part(1, "A"), part(3, "C"), part(2, "B2")],
            body: "void FT_SYMBOL() {}".into(),
            finish: false,
            name: "".into(),
        };
        let text = file(&[&a, &b]);
        let rest = text.strip_prefix(HEADER).expect("the header");
        let wanted = "A\nB\nB2\nC\nvoid ft_0() {}\nvoid ft_0_finish() {}\nvoid ft_1() {}\n";
        assert_eq!(rest, wanted);
        assert!(a.text().ends_with(&*a.body));
    }

    #[test]
    fn keys_tell_sources_and_compilers_apart() {
        let a = KernelSource {
            parts: vec![part(1, "A")],
            body: "x".into(),
            finish: false,
            name: "".into(),
        };
        let mut b = a.clone();
        b.body = "x ".into();
        assert_eq!(a.key("gcc"), a.clone().key("gcc"));
        assert_ne!(a.key("gcc"), b.key("gcc"));
        assert_ne!(a.key("gcc"), a.key("clang"));
    }
}
