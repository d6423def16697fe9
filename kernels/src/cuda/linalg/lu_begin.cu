// Packed factors before elimination: each row's number twice, and the matrix. Before this text stands T, the elements'
// type.

struct FT_SYMBOL_args {
  const T *x;
  T *out;
  long long n, count;
  char *scratch;
  long long *fault;
};

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < a.count; at += step) {
    const long long row = at / a.n, j = at - row * a.n, matrix = row / (a.n + 2), i = row - matrix * (a.n + 2);
    a.out[at] = i < 2 ? (T)j : a.x[(matrix * a.n + i - 2) * a.n + j];
  }
}
