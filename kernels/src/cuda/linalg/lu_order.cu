// Rows of matrices in the order of packed factors, or, BACK, those in that order put back. Before this text stand T, the
// elements' type, and BACK.

struct FT_SYMBOL_args {
  const T *packed, *x;
  T *out;
  long long n, columns, packed_step, count;
  char *scratch;
  long long *fault;
};

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < a.count; at += step) {
    const long long row = at / a.columns, column = at - row * a.columns, matrix = row / a.n, i = row - matrix * a.n;
    const long long other = (matrix * a.n + (long long)a.packed[matrix * a.packed_step + i]) * a.columns + column;
    if (BACK) a.out[other] = a.x[at];
    else a.out[at] = a.x[other];
  }
}
