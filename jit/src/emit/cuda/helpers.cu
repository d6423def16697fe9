FT_INLINE ft_int ft_least(ft_int a, ft_int b) { return a < b ? a : b; }
FT_INLINE ft_int ft_most(ft_int a, ft_int b) { return a > b ? a : b; }
FT_INLINE ft_int ft_floor_div(ft_int a, ft_int b) { return a / b - (a % b < 0); }
FT_INLINE ft_int ft_floor_mod(ft_int a, ft_int b) { ft_int r = a % b; return r < 0 ? r + b : r; }
FT_INLINE long long ft_index(long long *fault, long long i, long long size, long long site) {
  const long long at = i < 0 ? i + size : i;
  if (at >= 0 && at < size) return at;
  long long *slot = fault + 2 * (site & 31);
  if (atomicCAS((unsigned long long *)slot, 0ULL, (unsigned long long)site) == 0ULL) {
    ((volatile long long *)slot)[1] = i;
    __threadfence_system();
  }
  return 0;
}
FT_INLINE long long ft_within(long long i, long long size, long long) {
  const long long at = i < 0 ? i + size : i;
  return at >= 0 && at < size ? at : 0;
}
FT_INLINE void ft_two_sum(float &s, float &e, float x) {
  const float t = s + x, d = t - s;
  e += (s - (t - d)) + (x - d);
  s = t;
}
FT_INLINE float ft_both_parts(float s, float e) { return s + (e == e ? e : 0.0f); }
FT_INLINE float ft_divide(float a, float b) {
  const float x = fabsf(b), s = x < 0x1p-126f ? 0x1p64f : x > 0x1p126f ? 0x1p-64f : 1.0f;
  return a * __fdiv_rn(1.0f, b * s) * s;
}
FT_INLINE double ft_divide(double a, double b) {
  const double x = fabs(b), s = x < 0x1p-1022 ? 0x1p512 : x > 0x1p1022 ? 0x1p-512 : 1.0;
  return a * __ddiv_rn(1.0, b * s) * s;
}
#if __CUDA_ARCH__ >= 900
#define FT_AFTER asm volatile("{ .reg .pred few; griddepcontrol.wait; setp.le.u32 few, %0, 2048; @few griddepcontrol.launch_dependents; }" :: "r"(gridDim.x) : "memory")
#else
#define FT_AFTER
#endif
template <int N> struct ft_word;
template <> struct ft_word<1> { typedef unsigned char type; };
template <> struct ft_word<2> { typedef unsigned short type; };
template <> struct ft_word<4> { typedef unsigned type; };
template <> struct ft_word<8> { typedef uint2 type; };
template <> struct ft_word<16> { typedef uint4 type; };
#if __CUDA_ARCH__ >= 800
FT_INLINE float ft_greatest(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
FT_INLINE float ft_smallest(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
#else
FT_INLINE float ft_greatest(float a, float b) { return a > b || a != a ? a : b; }
FT_INLINE float ft_smallest(float a, float b) { return a < b || a != a ? a : b; }
#endif
FT_INLINE unsigned ft_pack_f16(float a, float b) {
  unsigned r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a)); return r;
}
#if __CUDA_ARCH__ >= 800
FT_INLINE unsigned ft_pack_bf16(float a, float b) {
  unsigned r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a)); return r;
}
#else
FT_INLINE unsigned ft_bf16_bits(float a) {
  const unsigned b = __float_as_uint(a);
  return a != a ? (b | 0x400000u) >> 16 : (b + (b >> 16 & 1u) + 0x7fffu) >> 16;
}
FT_INLINE unsigned ft_pack_bf16(float a, float b) { return ft_bf16_bits(a) | ft_bf16_bits(b) << 16; }
#endif
template <int V> FT_INLINE float ft_bf16_at(const unsigned short (&g)[V], int l) {
  if (V % 2) return __uint_as_float((unsigned)g[l] << 16);
  const unsigned w = ((const unsigned *)g)[l >> 1];
  return __uint_as_float(l & 1 ? w & 0xffff0000u : w << 16);
}
template <bool L = false, typename T, int V> FT_INLINE void ft_load(T (&g)[V], const T *p, int m, int h = 0) {
  constexpr int bytes = sizeof(T) * V < 16 ? sizeof(T) * V : 16;
  typedef typename ft_word<bytes>::type W;
  if (__builtin_expect(m == V && h == 0 && ((unsigned long long)p & (bytes - 1)) == 0, 1)) {
    #pragma unroll
    for (int k = 0; k < (int)(sizeof(T) * V / bytes); k++) ((W *)g)[k] = L ? __ldcs((const W *)p + k) : ((const W *)p)[k];
  } else {
    __syncwarp(__activemask());
    #pragma unroll
    for (int l = 0; l < V; l++) g[l] = l >= h && l < m ? p[l] : T();
  }
}
template <bool L = false, typename T, int V> FT_INLINE void ft_store(T *p, const T (&g)[V], int m, int h = 0) {
  constexpr int bytes = sizeof(T) * V < 16 ? sizeof(T) * V : 16;
  typedef typename ft_word<bytes>::type W;
  if (__builtin_expect(m == V && h == 0 && ((unsigned long long)p & (bytes - 1)) == 0, 1)) {
    #pragma unroll
    for (int k = 0; k < (int)(sizeof(T) * V / bytes); k++) {
      if (L) __stcs((W *)p + k, ((const W *)g)[k]);
      else ((W *)p)[k] = ((const W *)g)[k];
    }
  } else {
    __syncwarp(__activemask());
    #pragma unroll
    for (int l = 0; l < V; l++) if (l >= h && l < m) p[l] = g[l];
  }
}
template <typename T, int V> FT_INLINE void ft_load_last(T (&g)[V], const T *p, int m, int h = 0) { ft_load<true>(g, p, m, h); }
template <typename T, int V> FT_INLINE void ft_store_last(T *p, const T (&g)[V], int m, int h = 0) { ft_store<true>(p, g, m, h); }
