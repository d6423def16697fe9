// One pass of a radix sort by digits of 8 bits, least first: every element of a tile goes behind the lesser digits of its
// row, the same digit of earlier tiles, and that of earlier elements of its own.

struct FT_SYMBOL_args {
  const void *keys;
  const unsigned *from;
  K *sorted;
  unsigned *to;
  long long *out;
  const unsigned *counts, *totals;
  long long n, tiles, shift, first, last, flip;
  char *scratch;
  long long *fault;
};

#define WARPS (THREADS / 32)
#define EACH (TILE / THREADS)

extern "C" __global__ void __launch_bounds__(THREADS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ unsigned found[WARPS][256];
  __shared__ unsigned sums[WARPS];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const long long row = blockIdx.x / a.tiles, tile = blockIdx.x % a.tiles, start = row * a.n;
  for (int w = 0; w < WARPS; w++) found[w][t] = 0;
  // Thread t: where digit t of this tile goes.
  const unsigned total = a.totals[row * 256 + t];
  unsigned place = total;
  #pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const unsigned other = __shfl_up_sync(~0u, place, d);
    if (lane >= d) place += other;
  }
  if (lane == 31) sums[warp] = place;
  __syncthreads();
  for (int w = 0; w < warp; w++) place += sums[w];
  place += a.counts[(row * 256 + t) * a.tiles + tile] - total;

  K keys[EACH];
  unsigned ranks[EACH];
  const long long low = tile * TILE + warp * 32 * EACH + lane;
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const long long i = low + e * 32;
    const bool live = i < a.n;
    K key = 0;
    if (live) key = a.first ? ft_key(((const E *)a.keys)[start + i], (K)a.flip) : ((const K *)a.keys)[start + i];
    keys[e] = key;
    const unsigned digit = live ? (unsigned)(key >> a.shift) & 255 : 256;
    const unsigned same = __match_any_sync(~0u, digit);
    const unsigned before = __popc(same & ((1u << lane) - 1));
    const unsigned old = live ? found[warp][digit] : 0;
    __syncwarp();
    if (live && before == 0) found[warp][digit] = old + __popc(same);
    __syncwarp();
    ranks[e] = old + before;
  }
  __syncthreads();
  for (int w = 0; w < WARPS; w++) {
    const unsigned own = found[w][t];
    found[w][t] = place;
    place += own;
  }
  __syncthreads();
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const long long i = low + e * 32;
    if (i >= a.n) continue;
    const long long p = start + found[warp][(unsigned)(keys[e] >> a.shift) & 255] + ranks[e];
    const unsigned from = a.first ? (unsigned)i : a.from[start + i];
    if (a.last) {
      a.out[p] = from;
    } else {
      a.sorted[p] = keys[e];
      a.to[p] = from;
    }
  }
}
