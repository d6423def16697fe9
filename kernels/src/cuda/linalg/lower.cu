// Copies the lower triangles of matrices, with zeros above them. Before this text stand T, the elements' type, and I, an
// unsigned integer that holds their number.

struct FT_SYMBOL_args {
  const T *x;
  T *out;
  long long n, count;
  char *scratch;
  long long *fault;
};

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const I n = (I)a.n, count = (I)a.count, step = (I)gridDim.x * blockDim.x;
  for (long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x; first < a.count; first += step) {
    const I at = (I)first, row = at / n;
    a.out[at] = at - row * n <= row % n ? a.x[at] : (T)0;
  }
}
