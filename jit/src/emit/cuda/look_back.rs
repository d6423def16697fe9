//! Long rows scanned in a single pass with look-back (Merrill and Garland, 2016): a block takes a tile into registers,
//! leaves its fold for the tiles behind it, waits for the folds before it, and goes on with the elements that it still
//! holds.
//!
//! What a tile begins with is a tree of three levels whatever came first, so that results have the same bits every
//! time: the folds of the tiles before it in its group of 32, those of the groups before that in the next 32, and those
//! of 1,024 tiles. The last tile of a group leaves the group's. Tiles are drawn from a counter, so that those before a
//! running one run too, in whatever order a device starts blocks; a first small kernel clears counter and marks.

use super::chunk::over_held;
use super::kernel::Writer;
use super::name::Param;
use super::reduce::Reduction;
use super::scan::{fold, held_element};
use super::shape::Form;
use crate::kernel::ir::{
    Block, Expr, Extent, Function, Local, Meeting, OnDevice, Part, Stmt, Type, ValueType,
};

/// Bytes from a fold to the next: a line of the cache, for hundreds of blocks wait for few of them.
const LINE: usize = 128;
/// Threads of a block that clears.
const CLEARING: u32 = 256;

/// A fold is in the lower halves of words whose upper ones say that it is there, so
/// that nothing has to be ordered. `ft_before` joins, in a warp, the folds of a row before tile `at` of `n`; S bytes are
/// between two of them, and `mine` is the tile's own.
pub(super) const HELPERS: &str = include_str!("look_back.cu");

impl Writer<'_> {
    /// Folds of all rows: of tiles, of groups of 32, of 1,024.
    fn folds_of_rows(&self) -> usize {
        let pieces = self.shape.pieces();
        let per_row = pieces + pieces.div_ceil(32) + pieces.div_ceil(1024);
        self.node.rows() * per_row * self.put_in_slots().len()
    }

    /// Bytes of the folds and the counter before them.
    pub(super) fn look_back_bytes(&self) -> usize {
        (1 + self.folds_of_rows()) * LINE
    }

    /// The kernel that clears them; its blocks are the shape's from here on.
    pub(super) fn clear_block(&mut self) -> Block {
        let all = 1 + self.folds_of_rows();
        self.shape.threads = CLEARING;
        self.shape.blocks = all.div_ceil(CLEARING as usize);
        let all = self.param(all as i64);
        let first = Expr::from(Local::Block).cast(Type::LONG) * i64::from(CLEARING);
        let place = Expr::from(Local::Scratch) + Expr::from(Local::Place) * LINE as i64;
        let words = place.cast(Type::write(ValueType::Words));
        Block::from([
            Stmt::constant(Local::Place, Type::LONG, first + Local::Thread),
            Stmt::when(
                Expr::from(Local::Place).less(all),
                Stmt::assign(words.dereference(), Expr::call(Function::NoWords, [])),
            ),
        ])
    }

    /// Puts what the tiles before give before every element of a tile; its own folds are in the carries.
    pub(super) fn look_back(&mut self, out: &mut Block, now: &[Reduction], form: Form) {
        let Form::Inner { threads } = form else {
            return;
        };
        let pieces = self.shape.pieces();
        let per_row = pieces + pieces.div_ceil(32) + pieces.div_ceil(1024);
        let per_row = self.param(per_row as i64);
        for r in now {
            out.push(Stmt::shared(r.part(Part::Before), r.ty(), Extent::One));
        }
        let warp = self.wait_for_folds(now, per_row);
        out.push(match threads {
            32 => Stmt::Scope(warp),
            _ => {
                let first = Expr::from(Local::Thread).less(32);
                Stmt::when(first, warp)
            }
        });
        out.push(Stmt::Barrier(Meeting::Block));
        for r in now {
            let element = || held_element(r, Local::Held.into(), Local::Lane.into());
            let each = Stmt::assign(element(), fold(r, Local::Element.into(), element()));
            out.push(Stmt::Scope(Block::from([
                Stmt::constant(Local::Element, r.ty(), r.part(Part::Before)),
                over_held(self.shape.turns, self.each_element(1, each)),
            ])));
        }
    }

    /// One warp's part: it leaves the folds of the tile, and joins those of the tiles before.
    fn wait_for_folds(&self, now: &[Reduction], per_row: Param) -> Block {
        let all = self.put_in_slots();
        let step = all.len() * LINE;
        let row = Expr::from(Local::RowNumber).cast(Type::LONG) * per_row * step as i64;
        let folds = Expr::from(Local::Scratch) + LINE as i64 + row;
        let bytes = Type::write(ValueType::Byte);
        let mut out = Block::from(Stmt::constant(OnDevice::Folds, bytes, folds));
        let place = |r: &Reduction| {
            let at = all.iter().position(|&id| id == r.id).unwrap_or_default();
            Expr::from(OnDevice::Folds) + (at * LINE) as i64
        };
        let first = || Expr::from(Local::Thread).equals(0);
        for r in now {
            let tile = Expr::from(Local::Piece).cast(Type::LONG) * step as i64;
            let own = Expr::from(r.part(Part::Carry));
            let post = Expr::call(Function::Post, [place(r) + tile, own]);
            out.push(Stmt::when(first(), Stmt::Call(post)));
        }
        for r in now {
            let arguments = [
                place(r),
                Local::Piece.into(),
                OnDevice::Pieces.into(),
                r.part(Part::Carry).into(),
                r.identity(),
                r.part(Part::Fold).into(),
            ];
            let before = Expr::call(Function::Before(step as u32, r.dtype), arguments);
            out.push(Stmt::constant(r.part(Part::Prefix), r.ty(), before));
            let leave = Stmt::assign(r.part(Part::Before), r.part(Part::Prefix));
            out.push(Stmt::when(first(), leave));
        }
        out
    }
}
