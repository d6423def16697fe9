// What pieces of an order put aside meets, place by place. Before this text stands what meet.cu says.
//
// A block looks for places that start in its pieces and are cut, of so many columns. A few parts are one warp's, more the
// block's: the groups of its threads, each a thread a column, take parts in turns, and what they find meets in their order.

struct FT_SYMBOL_args {
  T *out;
  const P *keys;
  const A *aside;
  // `span` pieces and `columns` columns, a power of two of at most 32, are a block's.
  long long rows, width, include, piece, reach, span, columns;
  char *scratch;
  long long *fault;
};

#define WARPS 8
// Parts of a place that a warp takes.
#define FEW 32
#define BATCH 8

// What every so many of the parts behind piece `p` give, from that of `group` on.
static __device__ __forceinline__ A ft_parts(const FT_SYMBOL_args &a, long long p, P key, long long c, int group, int groups) {
  A value = ft_none();
  bool on = true;
  for (long long at = p + 1 + group; on; at += BATCH * groups) {
    bool here[BATCH];
    A next[BATCH];
    #pragma unroll
    for (int b = 0; b < BATCH; b++) {
      const long long i = at + b * groups;
      const bool is = i * a.piece < a.rows;
      here[b] = is && a.keys[i * a.piece] == key;
      next[b] = is && c < a.width ? a.aside[2 * i * a.width + c] : ft_none();
    }
    #pragma unroll
    for (int b = 0; b < BATCH; b++) {
      on = on && here[b];
      if (on) value = ft_meet(value, next[b]);
    }
  }
  return value;
}

// Values of the groups of a warp, the first first.
static __device__ __forceinline__ A ft_groups(A value, int columns) {
  for (int d = columns; d < 32; d *= 2) value = ft_meet(value, (A)__shfl_down_sync(~0u, value, d));
  return value;
}

#if MODE == 5
// The first element whose place is not less than `key`, or is greater.
static __device__ long long ft_bound(const FT_SYMBOL_args &a, P key, bool greater) {
  long long low = 0, high = a.rows;
  while (low < high) {
    const long long middle = (low + high) / 2;
    if (a.keys[middle] < key || (greater && a.keys[middle] == key)) low = middle + 1;
    else high = middle;
  }
  return low;
}
#endif

static __device__ __forceinline__ void ft_give(const FT_SYMBOL_args &a, long long p, P key, long long c, A value) {
  if (c >= a.width) return;
  value = ft_meet(a.aside[(2 * p + 1) * a.width + c], value);
#if MODE == 5
  const long long n = ft_bound(a, key, true) - ft_bound(a, key, false) + (a.include ? 1 : 0);
  if (n > 1) value = ft_mean(value, n);
#endif
  a.out[key * a.width + c] = (T)value;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ int few[32 * WARPS], many[32 * WARPS], found[2];
  __shared__ A sums[32 * WARPS];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5, columns = (int)a.columns;
  const long long tiles = (a.width + columns - 1) / columns, spans = blockIdx.x / tiles;
  const long long first = spans * a.span, c = (blockIdx.x - spans * tiles) * columns + (t & (columns - 1));
  if (t < 2) found[t] = 0;
  __syncthreads();
  const long long p = first + t, limit = (p + 1 + a.reach) * a.piece;
  if (t < a.span && limit < a.rows) {
    const P key = a.keys[limit];
    const bool starts = a.keys[(p + 1) * a.piece - 1] == key && !(p > 0 && a.keys[p * a.piece - 1] == key);
    if (starts && ft_holds(a.keys, a.rows, limit + FEW * a.piece, key)) many[atomicAdd(&found[1], 1)] = t;
    else if (starts) few[atomicAdd(&found[0], 1)] = t;
  }
  __syncthreads();
  for (int s = warp; s < found[0]; s += WARPS) {
    const long long at = first + few[s];
    const P key = a.keys[(at + 1) * a.piece];
    const A value = ft_groups(ft_parts(a, at, key, c, lane / columns, 32 / columns), columns);
    if (lane < columns) ft_give(a, at, key, c, value);
  }
  for (int s = 0; s < found[1]; s++) {
    const long long at = first + many[s];
    const P key = a.keys[(at + 1) * a.piece];
    sums[t] = ft_groups(ft_parts(a, at, key, c, t / columns, 32 * WARPS / columns), columns);
    __syncthreads();
    if (t < columns) {
      A value = sums[t];
      for (int w = 1; w < WARPS; w++) value = ft_meet(value, sums[32 * w + t]);
      ft_give(a, at, key, c, value);
    }
    __syncthreads();
  }
}
