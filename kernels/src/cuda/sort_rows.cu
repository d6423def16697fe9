// Rows of at most 2048 elements, a block each: Batcher's bitonic network over pairs of key and position (Batcher, Sorting
// Networks and Their Applications, 1968). Positions make all pairs distinct, so that the network is stable.

struct FT_SYMBOL_args {
  const E *x;
  long long *out;
  K *sorted;
  long long n, padded, flip, keep;
  char *scratch;
  long long *fault;
};

extern "C" __global__ void __launch_bounds__(512) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ K keys[2048];
  __shared__ unsigned short at[2048];
  const int n = (int)a.n, padded = (int)a.padded, t = threadIdx.x, threads = blockDim.x;
  const long long row = (long long)blockIdx.x * a.n;
  for (int i = t; i < padded; i += threads) {
    keys[i] = i < n ? ft_key(a.x[row + i], (K)a.flip) : ~(K)0;
    at[i] = (unsigned short)i;
  }
  __syncthreads();
  for (int size = 2; size <= padded; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      for (int p = t; p < padded / 2; p += threads) {
        const int i = 2 * p - (p & (step - 1)), j = i + step;
        const K x = keys[i], y = keys[j];
        const unsigned short u = at[i], v = at[j];
        const bool swapped = y < x || (y == x && v < u);
        if (swapped == ((i & size) == 0)) {
          keys[i] = y;
          keys[j] = x;
          at[i] = v;
          at[j] = u;
        }
      }
      __syncthreads();
    }
  }
  for (int i = t; i < n; i += threads) {
    a.out[row + i] = at[i];
    if (a.keep) a.sorted[row + i] = keys[i];
  }
}
