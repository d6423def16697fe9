//! Long rows scanned in a single pass with look-back (Merrill and Garland, 2016): a block takes a tile into registers,
//! leaves its fold for the tiles behind it, waits for the folds before it, and goes on with the elements that it still
//! holds.
//!
//! What a tile begins with is a tree of three levels whatever came first, so that results have the same bits every
//! time: the folds of the tiles before it in its group of 32, those of the groups before that in the next 32, and those
//! of 1,024 tiles. The last tile of a group leaves the group's. Tiles are drawn from a counter, so that those before a
//! running one run too, in whatever order a device starts blocks; a first small kernel clears counter and marks.

use super::kernel::Writer;
use super::reduce::Reduction;
use super::shape::Form;
use std::fmt::Write as _;

/// Bytes from a fold to the next: a line of the cache, for hundreds of blocks wait for few of them.
const LINE: usize = 128;
/// Threads of a block that clears.
const CLEARING: u32 = 256;

/// `ft_draw` gives the block's tile. A fold is in the lower halves of words whose upper ones say that it is there, so
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
    pub(super) fn clear_text(&mut self) -> String {
        let all = 1 + self.folds_of_rows();
        self.shape.threads = CLEARING;
        self.shape.blocks = all.div_ceil(CLEARING as usize);
        let all = self.param(all as i64);
        format!(
            "  const long long i = (long long)ft_block * {CLEARING} + threadIdx.x;\n  \
             if (i < {all}) *(uint4 *)(a.scratch + i * {LINE}) = uint4{{0, 0, 0, 0}};\n"
        )
    }

    /// Puts what the tiles before give before every element of a tile; its own folds are in the carries.
    pub(super) fn look_back(&mut self, out: &mut String, now: &[Reduction], form: Form) {
        let Form::Inner { threads } = form else {
            return;
        };
        let all = self.put_in_slots();
        let step = all.len() * LINE;
        let (held, lanes, pieces) = (self.shape.turns, self.shape.lanes, self.shape.pieces());
        let per_row = pieces + pieces.div_ceil(32) + pieces.div_ceil(1024);
        let per_row = self.param(per_row as i64);
        for r in now {
            let _ = writeln!(out, "  __shared__ {} before{};", r.ty(), r.id);
        }
        let warp = match threads {
            32 => "{",
            _ => "if (threadIdx.x < 32) {",
        };
        let _ = writeln!(
            out,
            "  {warp}\n    char *folds = a.scratch + {LINE} + (long long)row * {per_row} * {step};"
        );
        let place = |r: &Reduction| {
            let at = all.iter().position(|&id| id == r.id).unwrap_or_default();
            format!("folds + {}", at * LINE)
        };
        for r in now {
            let (id, place) = (r.id, place(r));
            let _ = writeln!(
                out,
                "    if (threadIdx.x == 0) ft_post({place} + (long long)piece * {step}, c{id});"
            );
        }
        for r in now {
            let (id, ty, none, place) = (r.id, r.ty(), r.identity(), place(r));
            let _ = writeln!(
                out,
                "    const {ty} x{id} = ft_before<{step}>({place}, piece, pieces, c{id}, {none}, f{id});\n    \
                 if (threadIdx.x == 0) before{id} = x{id};"
            );
        }
        out.push_str("  }\n  __syncthreads();\n");
        for r in now {
            let id = r.id;
            let _ = writeln!(
                out,
                "  {{\n    const {ty} x = before{id};\n    #pragma unroll\n    for (int k = 0; k < {held}; k++)\n      #pragma unroll\n      \
                 for (int l = 0; l < {lanes}; l++) e{id}[k][l] = f{id}(x, e{id}[k][l]);\n  }}",
                ty = r.ty()
            );
        }
    }
}
