// How often each digit occurs in each tile of each row: [rows][256][tiles].

struct FT_SYMBOL_args {
  const void *keys;
  unsigned *counts;
  long long n, tiles, shift, first, flip;
  char *scratch;
  long long *fault;
};

extern "C" __global__ void __launch_bounds__(THREADS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ unsigned found[256];
  const long long row = blockIdx.x / a.tiles, tile = blockIdx.x % a.tiles;
  found[threadIdx.x] = 0;
  __syncthreads();
  const long long low = tile * TILE, high = low + TILE < a.n ? low + TILE : a.n;
  for (long long i = low + threadIdx.x; i < high; i += THREADS) {
    const long long p = row * a.n + i;
    const K key = a.first ? ft_key(((const E *)a.keys)[p], (K)a.flip) : ((const K *)a.keys)[p];
    atomicAdd(&found[(unsigned)(key >> a.shift) & 255], 1u);
  }
  __syncthreads();
  a.counts[(row * 256 + threadIdx.x) * a.tiles + tile] = found[threadIdx.x];
}
