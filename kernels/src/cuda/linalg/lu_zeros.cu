// The first pivot of packed factors that is 0, counted from 1; 0 where none is. A warp a matrix. Before this text stands T,
// the elements' type.

struct FT_SYMBOL_args {
  const T *packed;
  int *faults;
  long long n;
  char *scratch;
  long long *fault;
};

extern "C" __global__ void __launch_bounds__(32) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const long long n = a.n;
  const T *x = a.packed + blockIdx.x * (n + 2) * n + 2 * n;
  int first = 0x7fffffff;
  for (long long i = threadIdx.x; i < n; i += 32)
    if (x[i * (n + 1)] == (T)0 && i < first) first = (int)i + 1;
  #pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    const int other = __shfl_xor_sync(~0u, first, d);
    if (other < first) first = other;
  }
  if (threadIdx.x == 0) a.faults[blockIdx.x] = first == 0x7fffffff ? 0 : first;
}
