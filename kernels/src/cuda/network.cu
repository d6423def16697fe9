// Sorts pairs in shared memory, a power of two of them, by the whole block.
static __device__ __forceinline__ void ft_network(K *keys, unsigned *at, int padded) {
  for (int size = 2; size <= padded; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      for (int p = threadIdx.x; p < padded / 2; p += blockDim.x) {
        const int i = 2 * p - (p & (step - 1)), j = i + step;
        const K x = keys[i], y = keys[j];
        const unsigned u = at[i], v = at[j];
        const bool swapped = y < x || (y == x && v < u);
        if (swapped == ((i & size) == 0)) {
          keys[i] = y;
          keys[j] = x;
          at[i] = v;
          at[j] = u;
        }
      }
      __syncthreads();
    }
  }
}
