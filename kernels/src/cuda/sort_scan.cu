// Of each row and digit: how often it occurs in the tiles before each, in place, and in all of them.

struct FT_SYMBOL_args {
  unsigned *counts;
  unsigned *totals;
  long long tiles;
  char *scratch;
  long long *fault;
};

#define EACH 8

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ unsigned warps[8];
  unsigned *counts = a.counts + blockIdx.x * a.tiles;
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  unsigned before = 0;
  for (long long base = 0; base < a.tiles; base += 256 * EACH) {
    unsigned own[EACH], part = 0;
    const long long first = base + t * EACH;
    #pragma unroll
    for (int e = 0; e < EACH; e++) own[e] = first + e < a.tiles ? counts[first + e] : 0;
    #pragma unroll
    for (int e = 0; e < EACH; e++) part += own[e];
    unsigned sum = part;
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const unsigned other = __shfl_up_sync(~0u, sum, d);
      if (lane >= d) sum += other;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    unsigned all = 0;
    for (int w = 0; w < 8; w++) {
      if (w < warp) sum += warps[w];
      all += warps[w];
    }
    unsigned at = before + sum - part;
    #pragma unroll
    for (int e = 0; e < EACH; e++) {
      if (first + e < a.tiles) counts[first + e] = at;
      at += own[e];
    }
    before += all;
    __syncthreads();
  }
  if (t == 0) a.totals[blockIdx.x] = before;
}
