// One pass of a radix sort by digits of 8 bits, least first: every element of a tile goes behind the lesser digits of its
// row, the same digit of earlier tiles, and that of earlier elements of its own.
// Tiles are put in order in shared memory first, so that neighbouring threads write neighbouring elements.

struct FT_SYMBOL_args {
  const void *keys;
  const unsigned *from;
  K *sorted;
  unsigned *to;
  long long *out;
  const unsigned *counts, *totals;
  long long n, tiles, shift, first, last, keep, flip;
  char *scratch;
  long long *fault;
};

#define WARPS (THREADS / 32)
#define EACH (TILE / THREADS)

// The sum over the threads before this one; `sums` is the block's, which is ready for it after a barrier.
static __device__ __forceinline__ unsigned ft_before(unsigned own, unsigned *sums) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  unsigned sum = own;
  #pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const unsigned other = __shfl_up_sync(~0u, sum, d);
    if (lane >= d) sum += other;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; w++) sum += sums[w];
  return sum - own;
}

extern "C" __global__ void __launch_bounds__(THREADS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ unsigned found[WARPS][256];
  __shared__ unsigned move[256];
  __shared__ unsigned sums[2][WARPS];
  __shared__ K stage[TILE];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const long long row = blockIdx.x / a.tiles, tile = blockIdx.x % a.tiles, start = row * a.n;
  for (int w = 0; w < WARPS; w++) found[w][t] = 0;
  // Thread t: where digit t of this tile goes in the row.
  const unsigned place = ft_before(a.totals[row * 256 + t], sums[0]) + a.counts[(row * 256 + t) * a.tiles + tile];

  K keys[EACH];
  unsigned ranks[EACH];
  const long long first = tile * TILE, low = first + warp * 32 * EACH + lane;
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const long long i = low + e * 32;
    keys[e] = 0;
    if (i < a.n) keys[e] = a.first ? ft_key(((const E *)a.keys)[start + i], (K)a.flip) : ((const K *)a.keys)[start + i];
  }
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const bool live = low + e * 32 < a.n;
    const unsigned digit = (unsigned)(keys[e] >> a.shift) & 255;
    const unsigned same = ft_same(digit, live);
    const unsigned before = __popc(same & ((1u << lane) - 1));
    const unsigned old = live ? found[warp][digit] : 0;
    __syncwarp();
    if (live && before == 0) found[warp][digit] = old + __popc(same);
    __syncwarp();
    ranks[e] = old + before;
  }
  __syncthreads();
  // Thread t: where digit t goes in the tile, warp by warp.
  unsigned own = 0;
  for (int w = 0; w < WARPS; w++) own += found[w][t];
  unsigned at = ft_before(own, sums[1]);
  move[t] = place - at;
  for (int w = 0; w < WARPS; w++) {
    const unsigned count = found[w][t];
    found[w][t] = at;
    at += count;
  }
  __syncthreads();
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    if (low + e * 32 >= a.n) continue;
    ranks[e] += found[warp][(unsigned)(keys[e] >> a.shift) & 255];
    stage[ranks[e]] = keys[e];
  }
  __syncthreads();
  const int size = (int)(a.n - first < TILE ? a.n - first : TILE);
  unsigned goals[EACH];
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int i = e * THREADS + t;
    goals[e] = 0;
    if (i >= size) continue;
    const K key = stage[i];
    goals[e] = move[(unsigned)(key >> a.shift) & 255] + i;
    if (!a.last || a.keep) a.sorted[start + goals[e]] = key;
  }
  __syncthreads();
  unsigned *positions = (unsigned *)stage;
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const long long i = low + e * 32;
    if (i < a.n) positions[ranks[e]] = a.first ? (unsigned)i : a.from[start + i];
  }
  __syncthreads();
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int i = e * THREADS + t;
    if (i >= size) continue;
    if (a.last) a.out[start + goals[e]] = positions[i];
    else a.to[start + goals[e]] = positions[i];
  }
}
