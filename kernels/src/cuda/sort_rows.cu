// Rows that a block's registers hold, a block each: a radix sort by digits of 8 bits, least first, of pairs of key and
// position. The elements change threads through shared memory. Before this text stand THREADS, EACH, the elements of a
// thread, and BLOCKS, those of a multiprocessor at once.

struct FT_SYMBOL_args {
  const E *x;
  long long *out;
  // Where they are kept: the elements, integers, and their positions.
  K *sorted;
  K *at;
  // The first `most` positions of a row are kept.
  long long n, most, keep, width, flip;
  char *scratch;
  long long *fault;
};

#define WARPS (THREADS / 32)
#define DIGITS (THREADS >= 256 ? 1 : 256 / THREADS)

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ unsigned short found[WARPS][256];
  __shared__ unsigned sums[WARPS];
  __shared__ K stage[THREADS * EACH];
  __shared__ unsigned short places[THREADS * EACH];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5, n = (int)a.n, low = warp * 32 * EACH + lane;
  const long long row = (long long)blockIdx.x * a.n;
  K keys[EACH];
  unsigned at[EACH], ranks[EACH];
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    at[e] = low + e * 32;
    // What is past the row's end comes last.
    keys[e] = ~(K)0;
    if (low + e * 32 < n) keys[e] = ft_key(a.x[row + low + e * 32], (K)a.flip);
  }
  #pragma unroll 1
  for (int shift = 0; shift < (int)a.width; shift += 8) {
    #pragma unroll
    for (int d = 0; d < 256; d += 64) ((unsigned *)found[warp])[(d >> 1) + lane] = 0;
    __syncwarp();
    ft_rank<EACH>(keys, ranks, found[warp], shift, 255u);
    __syncthreads();
    // Thread t: its digits, and whether all elements have the same.
    unsigned own = 0;
    bool same = false;
    if (t * DIGITS < 256) {
      #pragma unroll
      for (int d = 0; d < DIGITS; d++) {
        unsigned all = 0;
        #pragma unroll
        for (int w = 0; w < WARPS; w++) all += found[w][t * DIGITS + d];
        own += all;
        if (t * DIGITS + d == 255) all -= THREADS * EACH - n;
        same = same || all == (unsigned)n;
      }
    }
    unsigned before = ft_up_to(own);
    if (lane == 31) sums[warp] = before;
    if (__syncthreads_or(same)) continue;
    if (t * DIGITS < 256) {
      for (int w = 0; w < warp; w++) before += sums[w];
      before -= own;
      #pragma unroll
      for (int d = 0; d < DIGITS; d++) {
        #pragma unroll
        for (int w = 0; w < WARPS; w++) {
          const unsigned count = found[w][t * DIGITS + d];
          found[w][t * DIGITS + d] = (unsigned short)before;
          before += count;
        }
      }
    }
    __syncthreads();
    #pragma unroll
    for (int e = 0; e < EACH; e++) {
      const unsigned goal = ranks[e] + found[warp][(unsigned)(keys[e] >> shift) & 255];
      stage[goal] = keys[e];
      places[goal] = (unsigned short)at[e];
    }
    __syncthreads();
    #pragma unroll
    for (int e = 0; e < EACH; e++) {
      keys[e] = stage[low + e * 32];
      at[e] = places[low + e * 32];
    }
  }
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int i = low + e * 32;
    if (a.keep && i < n) {
      a.sorted[row + i] = ft_element(keys[e]);
      a.at[row + i] = at[e];
    } else if (i < (int)a.most) a.out[blockIdx.x * a.most + i] = at[e];
  }
}
