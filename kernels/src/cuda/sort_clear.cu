// Sets words to zero.

struct FT_SYMBOL_args {
  unsigned *words;
  long long n;
  char *scratch;
  long long *fault;
};

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const long long i = (long long)blockIdx.x * 1024 + threadIdx.x;
  #pragma unroll
  for (int e = 0; e < 4; e++) if (i + e * 256 < a.n) a.words[i + e * 256] = 0;
}
