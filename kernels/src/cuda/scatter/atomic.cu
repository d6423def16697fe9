// Rows of a source meet those of a matrix at places in any order, which gives the same for integers. Before this text stand
// what meet.cu names and CLEAR, whether this is the first kernel, which clears what is met.

struct FT_SYMBOL_args {
  T *out;
  const T *src;
  const P *places;
  long long rows, width;
  char *scratch;
  long long *fault;
};

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const long long g = (long long)blockIdx.x * 256 + threadIdx.x;
  if (g >= a.rows * a.width) return;
  const long long row = a.width == 1 ? g : g / a.width, c = g - row * a.width;
  T *to = a.out + a.places[row] * a.width + c;
#if CLEAR
  *to = ft_none();
#elif MODE == 1 && FLOAT
  atomicAdd(to, a.src[g]);
#elif MODE == 1
  atomicAdd((U *)to, (U)a.src[g]);
#elif MODE == 3
  atomicMax(to, a.src[g]);
#else
  atomicMin(to, a.src[g]);
#endif
}
