// Products of tiles of binary32 by three products of TF32: each number is the sum of one of 11 bits and a rest, and the
// product of the rests is left out. Where a number of queries or keys is infinite or none, the scores are computed one by
// one; an infinite value may give NaN.
struct ft_single : ft_padded<float> {
  typedef float type;
  static constexpr bool apart = false;
  FT_INLINE void seen() {}
  template <int W, int K> FT_INLINE void wait(float (&)[K][4]) {}
  FT_INLINE float widen(float x) { return x; }
  FT_INLINE float narrow(float x) { return x; }
  struct parts { unsigned great, less; };
  FT_INLINE parts split(float x) {
    const unsigned great = __float_as_uint(x) & 0xffffe000u;
    return {great, __float_as_uint(x - __uint_as_float(great))};
  }
  FT_INLINE void multiply_once(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
  // The units cut sums off; additions of steps are rounded.
  FT_INLINE void multiply(float (&c)[4], const parts (&a)[4], const parts &x, const parts &y) {
    float s[4] = {};
    multiply_once(s, a[0].less, a[1].less, a[2].less, a[3].less, x.great, y.great);
    multiply_once(s, a[0].great, a[1].great, a[2].great, a[3].great, x.less, y.less);
    multiply_once(s, a[0].great, a[1].great, a[2].great, a[3].great, x.great, y.great);
    #pragma unroll
    for (int e = 0; e < 4; e++) c[e] += s[e];
  }
  // Whether all numbers of a tile are finite, for all threads of a block.
  template <int R, int D> FT_INLINE bool finite(const float *x) {
    bool none = false;
    #pragma unroll 4
    for (int i = threadIdx.x; i < R * D / 4; i += 128) {
      const float4 y = *(const float4 *)(x + place<R, D>(i / (D / 4), i % (D / 4)));
      const float z = y.x * 0.0f + y.y * 0.0f + y.z * 0.0f + y.w * 0.0f;
      none |= z != 0.0f;
    }
    return !__syncthreads_or(none);
  }
  template <int M, int N, int D> FT_INLINE void scores_one_by_one(float (&s)[M][N / 8][4], const type *q, const type *k) {
    constexpr int pitch = ft_pitch<type, D>::value;
    const int l = threadIdx.x & 31;
    const float *qs = q + (threadIdx.x / 32 * 16 + (l >> 2)) * pitch, *ks = k + (l & 3) * 2 * pitch;
    #pragma unroll 1
    for (int d = 0; d < D; d++)
      #pragma unroll
      for (int i = 0; i < M; i++)
        #pragma unroll
        for (int j = 0; j < N / 8; j++)
          #pragma unroll
          for (int e = 0; e < 4; e++)
            s[i][j][e] = __fmaf_rn(qs[(64 * i + e / 2 * 8) * pitch + d], ks[(8 * j + e % 2) * pitch + d], s[i][j][e]);
  }
  template <int M, int N, int D> FT_INLINE void scores(float (&s)[M][N / 8][4], const type *q, const type *k) {
    #pragma unroll
    for (int i = 0; i < M; i++)
      #pragma unroll
      for (int j = 0; j < N / 8; j++) s[i][j][0] = s[i][j][1] = s[i][j][2] = s[i][j][3] = 0.0f;
    if (!finite<64 * M, D>(q) || !finite<N, D>(k)) return scores_one_by_one<M, N, D>(s, q, k);
    constexpr int pitch = ft_pitch<type, D>::value;
    const int l = threadIdx.x & 31;
    const unsigned qs = ft_shared(q + (threadIdx.x / 32 * 16 + (l & 15)) * pitch + (l >> 4) * 4);
    const unsigned ks = ft_shared(k + ((l & 7) + (l >> 4) * 8) * pitch + (l >> 3 & 1) * 4);
    #pragma unroll 4
    for (int d = 0; d < D; d += 8) {
      parts a[M][4];
      #pragma unroll
      for (int i = 0; i < M; i++) {
        unsigned r[4];
        ft_matrices(r, qs + 4 * (64 * i * pitch + d));
        #pragma unroll
        for (int e = 0; e < 4; e++) a[i][e] = split(__uint_as_float(r[e]));
      }
      #pragma unroll
      for (int j = 0; j < N / 8; j += 2) {
        unsigned r[4];
        ft_matrices(r, ks + 4 * (8 * j * pitch + d));
        parts b[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) b[e] = split(__uint_as_float(r[e]));
        #pragma unroll
        for (int i = 0; i < M; i++) {
          multiply(s[i][j], a[i], b[0], b[1]);
          multiply(s[i][j + 1], a[i], b[2], b[3]);
        }
      }
    }
  }
  // The keys of a step in the order in which a thread holds their weights.
  template <int M, int N, int D> FT_INLINE void values(float (&o)[M][D / 8][4], const float (&p)[M][N / 8][4], const type *v) {
    constexpr int pitch = ft_pitch<type, D>::value;
    const int l = threadIdx.x & 31;
    const float *vs = v + (l & 3) * 2 * pitch + (l >> 2);
    #pragma unroll
    for (int n = 0; n < N; n += 8) {
      parts a[M][4];
      #pragma unroll
      for (int i = 0; i < M; i++) {
        const float (&x)[4] = p[i][n / 8];
        a[i][0] = split(x[0]), a[i][1] = split(x[2]), a[i][2] = split(x[1]), a[i][3] = split(x[3]);
      }
      #pragma unroll
      for (int j = 0; j < D / 8; j++) {
        const parts x = split(vs[n * pitch + 8 * j]), y = split(vs[(n + 1) * pitch + 8 * j]);
        #pragma unroll
        for (int i = 0; i < M; i++) multiply(o[i][j], a[i], x, y);
      }
    }
  }
};
