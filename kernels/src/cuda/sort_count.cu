// How often each digit of each pass occurs in each row: [rows][passes][256], from zeros. A block counts a span of a row;
// the lanes of a warp count in four copies, so that fewer of them meet.

struct FT_SYMBOL_args {
  const E *keys;
  unsigned *counts;
  long long n, span, spans, passes, bits, flip;
  char *scratch;
  long long *fault;
};

#define COPIES 4

extern "C" __global__ void __launch_bounds__(512) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ unsigned found[BITS / 8 * 256 * COPIES];
  const int t = threadIdx.x, copy = t & (COPIES - 1), passes = (int)a.passes, bits = (int)a.bits;
  const unsigned mask = (1u << bits) - 1;
  const long long row = blockIdx.x / a.spans, low = (blockIdx.x - row * a.spans) * a.span;
  const int size = (int)(a.n - low < a.span ? a.n - low : a.span);
  const E *keys = a.keys + row * a.n + low;
  for (int i = t; i < passes * 256 * COPIES; i += 512) found[i] = 0;
  __syncthreads();
  #pragma unroll 1
  for (int base = t; base < size; base += 512 * 8) {
    E own[8];
    #pragma unroll
    for (int e = 0; e < 8; e++) if (base + e * 512 < size) own[e] = keys[base + e * 512];
    #pragma unroll
    for (int e = 0; e < 8; e++) {
      if (base + e * 512 >= size) continue;
      K key = ft_key(own[e], (K)a.flip);
      for (int p = 0; p < passes; p++, key >>= bits) atomicAdd(&found[(p * 256 + ((unsigned)key & mask)) * COPIES + copy], 1u);
    }
  }
  __syncthreads();
  for (int i = t; i < passes * 256; i += 512) {
    unsigned all = 0;
    for (int c = 0; c < COPIES; c++) all += found[i * COPIES + c];
    if (all) atomicAdd(&a.counts[row * passes * 256 + i], all);
  }
}
