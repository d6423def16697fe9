template <int K, int V, typename T, typename F> FT_INLINE void ft_prefix(T (&e)[K][V], T (&s)[K], F f) {
  const int lane = threadIdx.x & 31;
  #pragma unroll
  for (int k = 0; k < K; k++) {
    #pragma unroll
    for (int l = 1; l < V; l++) e[k][l] = f(e[k][l - 1], e[k][l]);
    s[k] = e[k][V - 1];
  }
  #pragma unroll
  for (int o = 1; o < 32; o <<= 1) {
    #pragma unroll
    for (int k = 0; k < K; k++) {
      const T x = (T)__shfl_up_sync(~0u, s[k], o);
      if (lane >= o) s[k] = f(x, s[k]);
    }
  }
}
template <int W, int K, int V, typename C, typename T, typename F, typename G>
FT_INLINE void ft_behind(T (&e)[K][V], const T (&s)[K], C &carry, const T *z, T none, F f, G g) {
  const int lane = threadIdx.x & 31;
  T before[K];
  if (W == 1) {
    #pragma unroll
    for (int k = 0; k < K; k++) {
      before[k] = (T)carry;
      carry = g(carry, (T)__shfl_sync(~0u, s[k], 31));
    }
  } else {
    constexpr int N = K * W, M = (N + 31) / 32;
    T p[M];
    #pragma unroll
    for (int m = 0; m < M; m++) {
      p[m] = lane * M + m < N ? z[lane * M + m] : none;
      if (m > 0) p[m] = f(p[m - 1], p[m]);
    }
    T all = p[M - 1];
    #pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
      const T x = (T)__shfl_up_sync(~0u, all, o);
      if (lane >= o) all = f(x, all);
    }
    const T up = (T)__shfl_up_sync(~0u, all, 1), first = lane > 0 ? f((T)carry, up) : (T)carry;
    #pragma unroll
    for (int k = 0; k < K; k++) {
      const int i = k * W + (threadIdx.x >> 5);
      T b = (T)__shfl_sync(~0u, first, i / M);
      #pragma unroll
      for (int m = 0; m + 1 < M; m++) {
        const T q = (T)__shfl_sync(~0u, p[m], i / M);
        if (i % M == m + 1) b = f(b, q);
      }
      before[k] = b;
    }
    carry = g(carry, (T)__shfl_sync(~0u, all, 31));
  }
  #pragma unroll
  for (int k = 0; k < K; k++) {
    const T up = (T)__shfl_up_sync(~0u, s[k], 1), x = lane > 0 ? f(before[k], up) : before[k];
    #pragma unroll
    for (int l = 0; l < V; l++) e[k][l] = f(x, e[k][l]);
  }
}
