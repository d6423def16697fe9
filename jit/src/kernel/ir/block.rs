//! Statements one after another.

use super::expr::Expr;
use super::name::Name;
use super::stmt::Stmt;

/// Statements in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Block(pub Vec<Stmt>);

impl Block {
    /// No statement.
    pub fn new() -> Block {
        Block(Vec::new())
    }

    /// Adds a statement.
    pub fn push(&mut self, stmt: Stmt) {
        self.0.push(stmt);
    }

    /// Adds those of another.
    pub fn append(&mut self, other: Block) {
        self.0.extend(other.0);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Shows every name that its statements mention, but for those of declarations.
    pub fn visit_names(&self, see: &mut impl FnMut(Name)) {
        self.iter().for_each(|stmt| stmt.visit_names(see));
    }

    /// Changes every expression of its statements, and of those within them, in order, the parts of each first.
    pub fn rewrite(&mut self, change: &mut impl FnMut(&mut Expr)) {
        self.0.iter_mut().for_each(|stmt| stmt.rewrite(change));
    }

    /// The statements.
    pub fn iter(&self) -> std::slice::Iter<'_, Stmt> {
        self.0.iter()
    }
}

impl From<Stmt> for Block {
    fn from(stmt: Stmt) -> Block {
        Block(vec![stmt])
    }
}

impl<const N: usize> From<[Stmt; N]> for Block {
    fn from(stmts: [Stmt; N]) -> Block {
        Block(stmts.into())
    }
}

impl FromIterator<Stmt> for Block {
    fn from_iter<I: IntoIterator<Item = Stmt>>(stmts: I) -> Block {
        Block(stmts.into_iter().collect())
    }
}

impl Extend<Stmt> for Block {
    fn extend<I: IntoIterator<Item = Stmt>>(&mut self, stmts: I) {
        self.0.extend(stmts);
    }
}

impl IntoIterator for Block {
    type Item = Stmt;
    type IntoIter = std::vec::IntoIter<Stmt>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Block {
    type Item = &'a Stmt;
    type IntoIter = std::slice::Iter<'a, Stmt>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
