// How often each digit occurs in each tile of each row: [rows][256][tiles].

struct FT_SYMBOL_args {
  const void *keys;
  unsigned *counts;
  long long n, tiles, shift, first, flip;
  char *scratch;
  long long *fault;
};

#define WARPS (THREADS / 32)

extern "C" __global__ void __launch_bounds__(THREADS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ unsigned found[WARPS][256];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const long long row = blockIdx.x / a.tiles, tile = blockIdx.x % a.tiles;
  for (int w = 0; w < WARPS; w++) found[w][t] = 0;
  __syncthreads();
  const long long low = tile * TILE;
  #pragma unroll 4
  for (int e = 0; e < TILE / THREADS; e++) {
    const long long i = low + e * THREADS + t, p = row * a.n + i;
    unsigned digit = 0;
    const bool live = i < a.n;
    if (live) {
      const K key = a.first ? ft_key(((const E *)a.keys)[p], (K)a.flip) : ((const K *)a.keys)[p];
      digit = (unsigned)(key >> a.shift) & 255;
    }
    // One of the threads with equal digits counts for all.
    const unsigned same = ft_same(digit, live);
    if (live && (same & ((1u << lane) - 1)) == 0) found[warp][digit] += __popc(same);
    __syncwarp();
  }
  __syncthreads();
  unsigned all = 0;
  for (int w = 0; w < WARPS; w++) all += found[w][t];
  a.counts[(row * 256 + t) * a.tiles + tile] = all;
}
