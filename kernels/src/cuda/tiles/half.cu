// Products of tiles of 16-bit floats (B: bfloat16, else binary16), summed in binary32. A thread's accumulators c[i][j] are
// those of rows 16 i + g and + 8, columns 8 j + 2 t and + 1, with g and t a lane's number divided by 4 and its rest.
template <bool B> struct ft_half : ft_padded<unsigned short> {
  typedef unsigned short type;
  // Whether products run beside what follows, those of each 64 queries by themselves.
  static constexpr bool apart = false;
  FT_INLINE void seen() {}
  template <int W, int K> FT_INLINE void wait(float (&)[K][4]) {}
  FT_INLINE float widen(type x) { return B ? ft_from_bf16(x) : ft_from_f16(x); }
  FT_INLINE type narrow(float x) { return B ? ft_to_bf16(x) : ft_to_f16(x); }
  FT_INLINE unsigned pair(float a, float b) {
    unsigned r;
    if (B) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
  }
  FT_INLINE void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if (B)
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  // s = q kᵀ for a warp's 16 M queries (every 64 of the block's) and N keys, D wide.
  template <int M, int N, int D> FT_INLINE void scores(float (&s)[M][N / 8][4], const type *q, const type *k) {
    #pragma unroll
    for (int i = 0; i < M; i++)
      #pragma unroll
      for (int j = 0; j < N / 8; j++) s[i][j][0] = s[i][j][1] = s[i][j][2] = s[i][j][3] = 0.0f;
    constexpr int pitch = ft_pitch<type, D>::value;
    const int l = threadIdx.x & 31;
    const unsigned qs = ft_shared(q + (threadIdx.x / 32 * 16 + (l & 15)) * pitch + (l >> 4) * 8);
    const unsigned ks = ft_shared(k + ((l & 7) + (l >> 4) * 8) * pitch + (l >> 3 & 1) * 8);
    #pragma unroll
    for (int d = 0; d < D; d += 16) {
      unsigned a[M][4];
      #pragma unroll
      for (int i = 0; i < M; i++) ft_matrices(a[i], qs + 2 * (64 * i * pitch + d));
      #pragma unroll
      for (int j = 0; j < N / 8; j += 2) {
        unsigned b[4];
        ft_matrices(b, ks + 2 * (8 * j * pitch + d));
        #pragma unroll
        for (int i = 0; i < M; i++) {
          multiply(s[i][j], a[i], b[0], b[1]);
          multiply(s[i][j + 1], a[i], b[2], b[3]);
        }
      }
    }
  }
  // o += p v for a warp's weights of N keys and values D wide.
  template <int M, int N, int D> FT_INLINE void values(float (&o)[M][D / 8][4], const float (&p)[M][N / 8][4], const type *v) {
    constexpr int pitch = ft_pitch<type, D>::value;
    const int l = threadIdx.x & 31;
    const unsigned vs = ft_shared(v + (l & 15) * pitch + (l >> 4) * 8);
    #pragma unroll
    for (int n = 0; n < N; n += 16) {
      unsigned a[M][4];
      #pragma unroll
      for (int i = 0; i < M; i++) {
        const float (&x)[4] = p[i][n / 8], (&y)[4] = p[i][n / 8 + 1];
        a[i][0] = pair(x[0], x[1]), a[i][1] = pair(x[2], x[3]), a[i][2] = pair(y[0], y[1]), a[i][3] = pair(y[2], y[3]);
      }
      #pragma unroll
      for (int j = 0; j < D / 8; j += 2) {
        unsigned b[4];
        ft_matrices_turned(b, vs + 2 * (n * pitch + 8 * j));
        #pragma unroll
        for (int i = 0; i < M; i++) {
          multiply(o[i][j], a[i], b[0], b[1]);
          multiply(o[i][j + 1], a[i], b[2], b[3]);
        }
      }
    }
  }
};
