// Loads the first m of V elements at p; the others are 0. W says that all are read and that p is a multiple of the bytes of V
// elements.
template <bool W, typename T, int V> FT_INLINE void ft_load_as(T (&g)[V], const T *p, int m) {
  constexpr int bytes = sizeof(T) * V < 16 ? sizeof(T) * V : 16;
  typedef typename ft_word<bytes>::type word;
  if (W) {
    #pragma unroll
    for (int k = 0; k < (int)(sizeof(T) * V / bytes); k++) ((word *)g)[k] = ((const word *)p)[k];
  } else if (sizeof(T) < 4) {
    // Stores words, as above, so that all accesses to the array have one type.
    constexpr int each = 4 / (sizeof(T) < 4 ? (int)sizeof(T) : 4);
    #pragma unroll
    for (int k = 0; k < V / each; k++) {
      unsigned x = 0;
      #pragma unroll
      for (int e = 0; e < each; e++)
        if (k * each + e < m) x |= (unsigned)((const typename ft_word<sizeof(T)>::type *)p)[k * each + e] << 8 * sizeof(T) * e;
      ((unsigned *)g)[k] = x;
    }
  } else {
    #pragma unroll
    for (int l = 0; l < V; l++) g[l] = l < m ? p[l] : T();
  }
}
