// Copies between memories by the threads of a block.

// Elements `first`, `first + step`, .. below `count`: EACH are on their way before the first of them is stored.
template <int EACH, typename Load, typename Store>
static __device__ __forceinline__ void ft_move(int first, int count, int step, Load load, Store store) {
  for (; first < count; first += EACH * step) {
    T value[EACH];
    #pragma unroll
    for (int i = 0; i < EACH; i++) value[i] = first + i * step < count ? load(first + i * step) : (T)0;
    #pragma unroll
    for (int i = 0; i < EACH; i++)
      if (first + i * step < count) store(first + i * step, value[i]);
  }
}

