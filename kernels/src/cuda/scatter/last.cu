// Rows of a source are stored at places; of those of one place the last one stays. Before this text stand what meet.cu says and
// V, the elements that a thread takes: 1, or 16 bytes of a row.

struct FT_SYMBOL_args {
  T *out;
  const T *src;
  const P *keys;
  const P *order;
  long long rows, width;
  char *scratch;
  long long *fault;
};

struct alignas(sizeof(T) * V) ft_some { T at[V]; };

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const long long g = (long long)blockIdx.x * 256 + threadIdx.x, chunks = a.width / V, j = g / chunks;
  if (j >= a.rows) return;
  const long long c = (g - j * chunks) * V;
  const P key = a.keys[j];
  if (ft_holds(a.keys, a.rows, j + 1, key)) return;
  *(ft_some *)(a.out + key * a.width + c) = *(const ft_some *)(a.src + a.order[j] * a.width + c);
}
