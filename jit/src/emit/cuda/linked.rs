//! Long rows scanned in one pass (codegen A3.15): a block takes a tile into registers, leaves its fold for the tiles
//! behind it, waits for the folds before it, and goes on with the elements that it still holds.
//!
//! What a tile begins with is a tree of three levels whatever came first, so that results have the same bits every
//! time: the folds of the tiles before it in its group of 32, those of the groups before that in the next 32, and those
//! of 1,024 tiles. The last tile of a group leaves the group's. Tiles are drawn from a counter, so that those before a
//! running one run too, in whatever order a device starts blocks; a first small kernel clears counter and marks.

use super::kernel::{Form, Writer};
use super::reduce::Reduction;
use std::fmt::Write as _;

/// Bytes from a fold to the next: a line of the cache, for hundreds of blocks wait for few of them.
const LINE: usize = 128;
/// Threads of a block that clears.
const CLEARING: u32 = 256;

/// `ft_draw` gives the block's tile. A fold is in the lower halves of words whose upper ones say that it is there, so
/// that nothing has to be ordered. `ft_before` joins, in a warp, the folds of a row before tile `at` of `n`; S bytes are
/// between two of them, and `mine` is the tile's own.
pub(super) const HELPERS: &str = "\
FT_INLINE unsigned ft_draw(char *counter) {
  __shared__ unsigned mine;
  if (threadIdx.x == 0) mine = atomicAdd((unsigned *)counter, 1u);
  __syncthreads();
  return mine;
}
template <typename T> struct ft_posted {
  static constexpr int N = sizeof(T) > 4 ? 2 : 1;
  union both { unsigned u[N]; T v; };
  unsigned long long w[N];
};
template <typename T> FT_INLINE void ft_post(char *p, T v) {
  typename ft_posted<T>::both b;
  for (int n = 0; n < ft_posted<T>::N; n++) b.u[n] = 0;
  b.v = v;
  #pragma unroll
  for (int n = 0; n < ft_posted<T>::N; n++)
    asm volatile(\"st.relaxed.gpu.u64 [%0], %1;\" :: \"l\"(p + 8 * n), \"l\"(1ULL << 32 | b.u[n]) : \"memory\");
}
template <typename T> FT_INLINE void ft_peek(ft_posted<T> &x, const char *p) {
  #pragma unroll
  for (int n = 0; n < ft_posted<T>::N; n++)
    asm volatile(\"ld.relaxed.gpu.u64 %0, [%1];\" : \"=l\"(x.w[n]) : \"l\"(p + 8 * n) : \"memory\");
}
template <typename T, typename F> FT_INLINE T ft_joined(ft_posted<T> &x, const char *p, bool some, T none, F f) {
  T v = none;
  if (some) {
    while (!(x.w[0] >> 32) || !(x.w[ft_posted<T>::N - 1] >> 32)) ft_peek(x, p);
    typename ft_posted<T>::both b;
    #pragma unroll
    for (int n = 0; n < ft_posted<T>::N; n++) b.u[n] = (unsigned)x.w[n];
    v = b.v;
  }
  __syncwarp();
  #pragma unroll
  for (int o = 1; o < 32; o <<= 1) v = f(v, (T)__shfl_down_sync(~0u, v, o));
  return (T)__shfl_sync(~0u, v, 0);
}
template <int S, typename T, typename F> FT_INLINE T ft_before(char *folds, ft_int at, ft_int n, T mine, T none, F f) {
  const int lane = threadIdx.x & 31, i = (int)at & 31, j = (int)(at >> 5) & 31;
  const ft_int h = at >> 10;
  char *groups = folds + (long long)n * S, *most = groups + (long long)((n + 31) >> 5) * S;
  const char *p = folds + (long long)(at - i + lane) * S, *q = groups + (long long)(h * 32 + lane) * S;
  const char *r = most + (long long)lane * S;
  ft_posted<T> x, y, z;
  if (lane < i) ft_peek(x, p);
  if (lane < j) ft_peek(y, q);
  if (lane < h) ft_peek(z, r);
  const T a = ft_joined(x, p, lane < i, none, f), group = f(a, mine);
  if (i == 31 && lane == 0) ft_post(groups + (long long)(at >> 5) * S, group);
  const T b = ft_joined(y, q, lane < j, none, f);
  if (i == 31 && j == 31 && lane == 0) ft_post(most + (long long)h * S, f(b, group));
  T c = none;
  for (ft_int first = 0; first < h; first += 32) {
    if (first > 0 && first + lane < h) ft_peek(z, r + (long long)first * S);
    c = f(c, ft_joined(z, r + (long long)first * S, first + lane < h, none, f));
  }
  return f(c, f(b, a));
}
";

impl Writer<'_> {
    /// Folds of all rows: of tiles, of groups of 32, of 1,024.
    fn folds_of_rows(&self) -> usize {
        let pieces = self.shape.pieces();
        let per_row = pieces + pieces.div_ceil(32) + pieces.div_ceil(1024);
        self.node.rows() * per_row * self.put_in_slots().len()
    }

    /// Bytes of the folds and the counter before them.
    pub(super) fn linked_bytes(&self) -> usize {
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
    pub(super) fn link(&mut self, out: &mut String, now: &[Reduction], form: Form) {
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
