// Values of a source meet elements. Before this text stand what meet.cu says and CARRIED, whether the values are in the order of
// the keys, or `order` says where they are.
//
// A piece is a block's tile, and `reach` is 0: what a tile holds of a place that other tiles hold too is put aside. A thread
// takes neighbouring elements one after the other; a place's elements in several threads of a tile meet by a scan.

struct FT_SYMBOL_args {
  T *out;
  const T *src;
  const P *keys;
  const P *order;
  A *aside;
  long long rows, include;
  char *scratch;
  long long *fault;
};

#define EACH 8
#define THREADS 256
#define WARPS (THREADS / 32)
#define TILE (EACH * THREADS)
// Where an element lies in shared memory: threads that read every eighth one find it in different banks.
#define AT(i) ((i) + ((i) >> 3))

// What elements give from the last one on that is the first of its place, or from their beginning.
struct ft_part {
  A value;
  int count;
  // Whether a place starts among them.
  bool headed;
};

static __device__ __forceinline__ ft_part ft_join(const ft_part &before, const ft_part &own) {
  if (own.headed) return own;
  return {ft_meet(before.value, own.value), before.count + own.count, before.headed};
}

static __device__ __forceinline__ ft_part ft_up(const ft_part &part, int d) {
  return {(A)__shfl_up_sync(~0u, part.value, d), __shfl_up_sync(~0u, part.count, d),
          (bool)__shfl_up_sync(~0u, (int)part.headed, d)};
}

// What is there meets what came, `n` elements.
static __device__ __forceinline__ void ft_give(const FT_SYMBOL_args &a, P key, A value, long long n) {
  T *to = a.out + key;
#if MODE == 5
  if (a.include) n++;
#endif
  if (a.include) value = ft_meet((A)*to, value);
#if MODE == 5
  if (n > 1) value = ft_mean(value, n);
#endif
  *to = (T)value;
}

extern "C" __global__ void __launch_bounds__(THREADS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ P keys[AT(TILE)];
  __shared__ T values[AT(TILE)];
  __shared__ ft_part warps[WARPS];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const long long tile = blockIdx.x, base = tile * TILE;
  const int size = a.rows - base < TILE ? (int)(a.rows - base) : TILE;
  // All are asked for before the first is waited for.
  P taken[EACH];
  long long from[EACH];
  T gathered[EACH];
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int i = e * THREADS + t;
    taken[e] = i < size ? a.keys[base + i] : (P)0;
#if CARRIED
    from[e] = base + i;
#else
    from[e] = i < size ? a.order[base + i] : (P)0;
#endif
  }
  #pragma unroll
  for (int e = 0; e < EACH; e++) gathered[e] = e * THREADS + t < size ? a.src[from[e]] : (T)0;
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int i = e * THREADS + t;
    keys[AT(i)] = taken[e];
    values[AT(i)] = gathered[e];
  }
  __syncthreads();

  const int low = t * EACH, count = size - low < EACH ? size - low : EACH;
  P key = 0;
  bool known = true;
  if (low > 0 && count > 0) key = keys[AT(low - 1)];
  else if (base > 0) key = a.keys[base - 1];
  else known = false;
  const P before = key;
  ft_part part = {ft_none(), 0, false}, lead = part;
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    if (e >= count) continue;
    const P own = keys[AT(low + e)];
    if (!known || own != key) {
      if (part.headed) ft_give(a, key, part.value, part.count);
      else lead = part;
      part = {ft_none(), 0, true};
      key = own;
      known = true;
    }
    part.value = ft_meet(part.value, (A)values[AT(low + e)]);
    part.count++;
  }
  // What the threads up to this one hold, and those before it.
  ft_part all = part;
  #pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const ft_part other = ft_up(all, d);
    if (lane >= d) all = ft_join(other, all);
  }
  if (lane == 31) warps[warp] = all;
  ft_part earlier = ft_up(all, 1);
  if (lane == 0) earlier = {ft_none(), 0, false};
  __syncthreads();
  ft_part outer = {ft_none(), 0, false};
  for (int w = 0; w < warp; w++) outer = ft_join(outer, warps[w]);
  earlier = ft_join(outer, earlier);
  all = ft_join(outer, all);
  // The place that the elements before belong to ends where another starts.
  if (part.headed) {
    const ft_part ended = ft_join(earlier, lead);
    if (ended.headed) ft_give(a, before, ended.value, ended.count);
    else if (ended.count > 0) a.aside[2 * tile] = ended.value;
  }
  if (low + count != size || count <= 0) return;
  // The thread of the tile's last element.
  const bool goes_on = ft_holds(a.keys, a.rows, base + size, key);
  if (all.headed && !goes_on) ft_give(a, key, all.value, all.count);
  else if (!all.headed) a.aside[2 * tile] = all.value;
  else a.aside[2 * tile + 1] = a.include ? ft_meet((A)a.out[key], all.value) : all.value;
}
