// Values of a source meet elements. `keys` are their places in order; what meets at one place stands side by side, in the
// order of the source. Before this text stand what meet.cu names; CARRIED, whether the values are in the order of the keys
// too, or `order` says where they are; MANY, whether a place is met by many; FINISH, whether this is the second kernel then.
//
// A block takes a tile. Where a place is met by few, a thread takes all that meet there, one after the other, also in the
// tiles behind that of the first. Otherwise a warp takes those of a tile, and the second kernel what they give: first
// lane by lane, then pairs of lanes, in an order that depends on the places alone.

struct FT_SYMBOL_args {
  T *out;
  const T *src;
  const long long *order;
  const K *keys;
  // Of each tile: what its first elements give where the tile before has the first of their place, and how many they are; what
  // its last ones give where they are the first of a place that goes on, and how many.
  A *aside;
  long long *counts;
  long long rows, include;
  char *scratch;
  long long *fault;
};

#define EACH 8
#define THREADS 256
#define TILE (EACH * THREADS)

static __device__ __forceinline__ T ft_value(const FT_SYMBOL_args &a, long long j) {
#if CARRIED
  return a.src[j];
#else
  return a.src[a.order[j]];
#endif
}

// What is there meets what came, `n` elements.
static __device__ __forceinline__ void ft_give(const FT_SYMBOL_args &a, K key, A value, long long n) {
  T *to = a.out + ft_place(key);
#if MODE == 5
  if (a.include) n++;
#endif
  if (a.include) value = ft_meet((A)*to, value);
#if MODE == 5
  if (n > 1) value = ft_mean(value, n);
#endif
  *to = (T)value;
}

// The values of a warp's lanes, the lowest first.
static __device__ __forceinline__ A ft_all(A value) {
  #pragma unroll
  for (int d = 1; d < 32; d *= 2) value = ft_meet(value, (A)__shfl_down_sync(~0u, value, d));
  return value;
}

#if MODE == 0
// The last one stays.
extern "C" __global__ void __launch_bounds__(THREADS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const long long base = (long long)blockIdx.x * TILE + threadIdx.x;
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const long long j = base + e * THREADS;
    if (j < a.rows && (j + 1 == a.rows || a.keys[j + 1] != a.keys[j])) a.out[ft_place(a.keys[j])] = ft_value(a, j);
  }
}

#elif !FINISH
extern "C" __global__ void __launch_bounds__(THREADS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ T values[TILE];
  __shared__ unsigned short heads[TILE];
  __shared__ unsigned counts[TILE / 32 + 1];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const long long base = (long long)blockIdx.x * TILE;
  const int size = a.rows - base < TILE ? (int)(a.rows - base) : TILE;
  unsigned all[EACH];
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int i = e * THREADS + t;
    bool head = false;
    if (i < size) {
      values[i] = ft_value(a, base + i);
      head = base + i == 0 || a.keys[base + i - 1] != a.keys[base + i];
#if MANY
      head = head || i == 0;
#endif
    }
    all[e] = __ballot_sync(~0u, head);
    if (lane == 0) counts[e * (THREADS / 32) + warp] = __popc(all[e]);
  }
  __syncthreads();
  if (warp == 0) {
    const unsigned x = counts[2 * lane], y = counts[2 * lane + 1];
    unsigned sum = x + y;
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const unsigned other = __shfl_up_sync(~0u, sum, d);
      if (lane >= d) sum += other;
    }
    counts[2 * lane] = sum - y - x;
    counts[2 * lane + 1] = sum - y;
    if (lane == 31) counts[TILE / 32] = sum;
  }
  __syncthreads();
  #pragma unroll
  for (int e = 0; e < EACH; e++)
    if (all[e] >> lane & 1) heads[counts[e * (THREADS / 32) + warp] + __popc(all[e] & ((1u << lane) - 1))] = (unsigned short)(e * THREADS + t);
  __syncthreads();
  const int found = counts[TILE / 32];
#if MANY
  for (int h = warp; h < found; h += THREADS / 32) {
    const int begin = heads[h], end = h + 1 < found ? heads[h + 1] : size;
    const K key = a.keys[base + begin];
    A value = ft_none();
    for (int i = begin + lane; i < end; i += 32) value = ft_meet(value, (A)values[i]);
    value = ft_all(value);
    if (lane > 0) continue;
    const bool open = begin == 0 && base > 0 && a.keys[base - 1] == key;
    const bool goes_on = end == size && base + size < a.rows && a.keys[base + size] == key;
    if (!open && !goes_on) {
      ft_give(a, key, value, end - begin);
      continue;
    }
    const long long to = 2 * (long long)blockIdx.x + (open ? 0 : 1);
    a.aside[to] = value;
    a.counts[to] = end - begin;
  }
#else
  for (int h = t; h < found; h += THREADS) {
    const int begin = heads[h], end = h + 1 < found ? heads[h + 1] : size;
    const K key = a.keys[base + begin];
    T *to = a.out + ft_place(key);
    A value = a.include ? (A)*to : ft_none();
    for (int i = begin; i < end; i++) value = ft_meet(value, (A)values[i]);
    long long n = end - begin;
    if (h + 1 == found) {
      // Several are asked for before the first is waited for.
      bool same = true;
      for (long long j = base + size; same && j < a.rows; j += 8) {
        T next[8];
        bool here[8];
        #pragma unroll
        for (int b = 0; b < 8; b++) {
          here[b] = j + b < a.rows && a.keys[j + b] == key;
          next[b] = here[b] ? ft_value(a, j + b) : (T)0;
        }
        #pragma unroll
        for (int b = 0; b < 8; b++) {
          same = same && here[b];
          if (!same) continue;
          value = ft_meet(value, (A)next[b]);
          n++;
        }
      }
    }
#if MODE == 5
    n += a.include ? 1 : 0;
    if (n > 1) value = ft_mean(value, n);
#endif
    *to = (T)value;
  }
#endif
}

#else
// A warp a tile: where the place of its last elements starts there and goes on, the rest is taken up.
extern "C" __global__ void __launch_bounds__(THREADS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const int lane = threadIdx.x & 31;
  const long long tile = ((long long)blockIdx.x * THREADS + threadIdx.x) / 32, next = (tile + 1) * TILE;
  if (next >= a.rows) return;
  const K key = a.keys[next];
  if (a.keys[next - 1] != key || (tile > 0 && a.keys[tile * TILE] == key && a.keys[tile * TILE - 1] == key)) return;
  A value = lane == 0 ? a.aside[2 * tile + 1] : ft_none();
  long long n = lane == 0 ? a.counts[2 * tile + 1] : 0;
  for (long long at = tile + 1 + lane; at * TILE < a.rows && a.keys[at * TILE] == key; at += 32) {
    value = ft_meet(value, a.aside[2 * at]);
    n += a.counts[2 * at];
  }
  value = ft_all(value);
  #pragma unroll
  for (int d = 1; d < 32; d *= 2) n += __shfl_down_sync(~0u, n, d);
  if (lane == 0) ft_give(a, key, value, n);
}
#endif
