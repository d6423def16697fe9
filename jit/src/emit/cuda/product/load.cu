template <bool W, typename T, int V> FT_INLINE void ft_load_as(T (&g)[V], const T *p, int m) {
  constexpr int bytes = sizeof(T) * V < 16 ? sizeof(T) * V : 16;
  typedef typename ft_word<bytes>::type word;
  if (W) {
    #pragma unroll
    for (int k = 0; k < (int)(sizeof(T) * V / bytes); k++) ((word *)g)[k] = ((const word *)p)[k];
  } else if (sizeof(T) < 4) {
    // In words, as the other way.
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
