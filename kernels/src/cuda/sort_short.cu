// Rows of at most 64 elements, a block each: Batcher's bitonic network over pairs of key and position (Batcher, Sorting
// Networks and Their Applications, 1968). Positions make all pairs distinct, so that the network is stable.

struct FT_SYMBOL_args {
  const E *x;
  long long *out;
  // Where they are kept: the elements, integers, and their positions.
  K *sorted;
  K *at;
  long long n, most, keep, padded, flip;
  char *scratch;
  long long *fault;
};

extern "C" __global__ void __launch_bounds__(32) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ K keys[64];
  __shared__ unsigned at[64];
  const int n = (int)a.n, t = threadIdx.x, threads = blockDim.x;
  const long long row = (long long)blockIdx.x * a.n;
  for (int i = t; i < (int)a.padded; i += threads) {
    keys[i] = i < n ? ft_key(a.x[row + i], (K)a.flip) : ~(K)0;
    at[i] = i;
  }
  __syncthreads();
  ft_network(keys, at, (int)a.padded);
  for (int i = t; i < n; i += threads) {
    if (a.keep) {
      a.sorted[row + i] = ft_element(keys[i]);
      a.at[row + i] = at[i];
    } else if (i < (int)a.most) a.out[blockIdx.x * a.most + i] = at[i];
  }
}
