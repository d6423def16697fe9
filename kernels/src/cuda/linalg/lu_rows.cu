// Exchanges rows of matrices as a panel has exchanged its own, in columns outside of it, a thread each. Before this text
// stands T, the elements' type.

constexpr int NB = 32;

struct FT_SYMBOL_args {
  T *packed;
  const int *moves;
  long long n, start, end, across;
  char *scratch;
  long long *fault;
};

extern "C" __global__ void __launch_bounds__(128) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ int moves[3 * NB];
  const unsigned across = (unsigned)a.across, matrix = blockIdx.x / across;
  const long long n = a.n, column = (long long)(blockIdx.x - matrix * across) * blockDim.x + threadIdx.x;
  if (threadIdx.x < 3 * NB) moves[threadIdx.x] = a.moves[(long long)matrix * 3 * NB + threadIdx.x];
  __syncthreads();
  if (column >= n || (column >= a.start && column < a.end)) return;
  T *x = a.packed + matrix * (n + 2) * n + 2 * n + column, own[NB], other[NB];
  const int height = (int)(a.end - a.start);
  #pragma unroll
  for (int i = 0; i < NB; i++) {
    own[i] = i < height ? x[moves[i] * n] : (T)0;
    other[i] = moves[NB + i] >= 0 ? x[moves[2 * NB + i] * n] : (T)0;
  }
  #pragma unroll
  for (int i = 0; i < NB; i++) {
    if (i < height) x[(a.start + i) * n] = own[i];
    if (moves[NB + i] >= 0) x[moves[NB + i] * n] = other[i];
  }
}
