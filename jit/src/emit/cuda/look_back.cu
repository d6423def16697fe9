template <typename T> struct ft_posted {
  static constexpr int N = sizeof(T) > 4 ? 2 : 1;
  union both { unsigned u[N]; T v; };
  unsigned long long w[N];
};
template <typename T> FT_INLINE void ft_post(char *p, T v) {
  typename ft_posted<T>::both b;
  for (int n = 0; n < ft_posted<T>::N; n++) b.u[n] = 0;
  b.v = v;
  #pragma unroll
  for (int n = 0; n < ft_posted<T>::N; n++)
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" :: "l"(p + 8 * n), "l"(1ULL << 32 | b.u[n]) : "memory");
}
template <typename T> FT_INLINE void ft_peek(ft_posted<T> &x, const char *p) {
  #pragma unroll
  for (int n = 0; n < ft_posted<T>::N; n++)
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(x.w[n]) : "l"(p + 8 * n) : "memory");
}
template <typename T, typename F> FT_INLINE T ft_joined(ft_posted<T> &x, const char *p, bool some, T none, F f) {
  T v = none;
  if (some) {
    while (!(x.w[0] >> 32) || !(x.w[ft_posted<T>::N - 1] >> 32)) ft_peek(x, p);
    typename ft_posted<T>::both b;
    #pragma unroll
    for (int n = 0; n < ft_posted<T>::N; n++) b.u[n] = (unsigned)x.w[n];
    v = b.v;
  }
  __syncwarp();
  #pragma unroll
  for (int o = 1; o < 32; o <<= 1) v = f(v, (T)__shfl_down_sync(~0u, v, o));
  return (T)__shfl_sync(~0u, v, 0);
}
template <int S, typename T, typename F> FT_INLINE T ft_before(char *folds, ft_int at, ft_int n, T mine, T none, F f) {
  const int lane = threadIdx.x & 31, i = (int)at & 31, j = (int)(at >> 5) & 31;
  const ft_int h = at >> 10;
  char *groups = folds + (long long)n * S, *most = groups + (long long)((n + 31) >> 5) * S;
  const char *p = folds + (long long)(at - i + lane) * S, *q = groups + (long long)(h * 32 + lane) * S;
  const char *r = most + (long long)lane * S;
  ft_posted<T> x, y, z;
  if (lane < i) ft_peek(x, p);
  if (lane < j) ft_peek(y, q);
  if (lane < h) ft_peek(z, r);
  const T a = ft_joined(x, p, lane < i, none, f), group = f(a, mine);
  if (i == 31 && lane == 0) ft_post(groups + (long long)(at >> 5) * S, group);
  const T b = ft_joined(y, q, lane < j, none, f);
  if (i == 31 && j == 31 && lane == 0) ft_post(most + (long long)h * S, f(b, group));
  T c = none;
  for (ft_int first = 0; first < h; first += 32) {
    if (first > 0 && first + lane < h) ft_peek(z, r + (long long)first * S);
    c = f(c, ft_joined(z, r + (long long)first * S, first + lane < h, none, f));
  }
  return f(c, f(b, a));
}
