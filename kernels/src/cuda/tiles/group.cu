// Products of 16-bit floats by groups of four warps (Hopper): operands from shared memory in panels of 128 bytes a row,
// whose chunks are exchanged within 8 rows, or, on the left, from registers; results as those of `ft_half`.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define FT_SUMS(c, j) "+f"(c[j + 0][0]), "+f"(c[j + 0][1]), "+f"(c[j + 0][2]), "+f"(c[j + 0][3]), "+f"(c[j + 1][0]), "+f"(c[j + 1][1]), "+f"(c[j + 1][2]), "+f"(c[j + 1][3]), "+f"(c[j + 2][0]), "+f"(c[j + 2][1]), "+f"(c[j + 2][2]), "+f"(c[j + 2][3]), "+f"(c[j + 3][0]), "+f"(c[j + 3][1]), "+f"(c[j + 3][2]), "+f"(c[j + 3][3]), "+f"(c[j + 4][0]), "+f"(c[j + 4][1]), "+f"(c[j + 4][2]), "+f"(c[j + 4][3]), "+f"(c[j + 5][0]), "+f"(c[j + 5][1]), "+f"(c[j + 5][2]), "+f"(c[j + 5][3]), "+f"(c[j + 6][0]), "+f"(c[j + 6][1]), "+f"(c[j + 6][2]), "+f"(c[j + 6][3]), "+f"(c[j + 7][0]), "+f"(c[j + 7][1]), "+f"(c[j + 7][2]), "+f"(c[j + 7][3])
#define FT_SUMS_2(c) FT_SUMS(c, 0), FT_SUMS(c, 8)
#define FT_SUMS_4(c) FT_SUMS_2(c), FT_SUMS(c, 16), FT_SUMS(c, 24)
#define FT_NAMES_2 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define FT_NAMES_4 FT_NAMES_2 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
template <bool B> struct ft_group {
  typedef unsigned short type;
  static constexpr bool apart = true;
  FT_INLINE float widen(type x) { return ft_half<B>::widen(x); }
  FT_INLINE type narrow(float x) { return ft_half<B>::narrow(x); }
  template <int R, int D> static constexpr int size = R * D;
  template <int R, int D> static constexpr int down = 64;
  template <int R, int D> FT_INLINE int place(int r, int chunk) {
    return chunk / 8 * R * 64 + r * 64 + (chunk % 8 ^ r % 8) * 8;
  }
  // What the copies of this thread wrote is seen by the matrix units after a barrier.
  FT_INLINE void seen() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
  FT_INLINE void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
  FT_INLINE void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
  // Until at most W groups of products are under way; what was computed is in `c`.
  template <int W, int K> FT_INLINE void wait(float (&c)[K][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(W) : "memory");
    #pragma unroll
    for (int j = 0; j < K; j++)
      #pragma unroll
      for (int e = 0; e < 4; e++) asm volatile("" : "+f"(c[j][e]) :: "memory");
  }
  // A panel: its address and the distance of the next in 16 bytes, 1024 bytes from 8 rows to the next, chunks exchanged in
  // 128 bytes.
  template <int NEXT = 64> FT_INLINE unsigned long long panel(const type *p) {
    return (unsigned long long)(ft_shared(p) >> 4 & 0x3fff) | (unsigned long long)NEXT << 16 | 64ull << 32 | 1ull << 62;
  }
  // Columns 8 j to 8 j + 63 of c = (or, where `adds`, +=) a b.
  template <int K> FT_INLINE void multiply(float (&c)[K][4], int j, unsigned long long a, unsigned long long b, int adds) {
    if (B) asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0; }" : FT_SUMS(c, j) : "l"(a), "l"(b), "r"(adds));
    else asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0; }" : FT_SUMS(c, j) : "l"(a), "l"(b), "r"(adds));
  }
  template <int K> FT_INLINE void multiply(float (&c)[K][4], int j, const unsigned (&a)[4], unsigned long long b) {
    if (B) asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, p, 1, 1, 1; }" : FT_SUMS(c, j) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
    else asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, p, 1, 1, 1; }" : FT_SUMS(c, j) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
  }
  // Columns 8 j to 8 j + 127, whose second panel follows `b` after the distance that is stated there.
  template <int K> FT_INLINE void multiply_wide(float (&c)[K][4], int j, const unsigned (&a)[4], unsigned long long b) {
    if (B) asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, p, 1, 1, 1; }" : FT_SUMS(c, j), FT_SUMS(c, j + 8) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
    else asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, p, 1, 1, 1; }" : FT_SUMS(c, j), FT_SUMS(c, j + 8) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
  }
  template <int M, int N, int D> FT_INLINE void scores(float (&s)[M][N / 8][4], const type *q, const type *k) {
    fence();
    #pragma unroll
    for (int i = 0; i < M; i++) {
      #pragma unroll
      for (int j = 0; j < N / 64; j++)
        #pragma unroll
        for (int d = 0; d < D / 16; d++)
          multiply(s[i], 8 * j, panel(q + (d / 4 * M + i) * 4096) + d % 4 * 2, panel(k + d / 4 * N * 64 + j * 4096) + d % 4 * 2, d);
      commit();
    }
  }
  template <int N, int E> FT_INLINE void values_of(float (&o)[E / 8][4], const float (&p)[N / 8][4], const type *v) {
    unsigned a[N / 16][4];
    #pragma unroll
    for (int n = 0; n < N / 16; n++) {
      const float (&x)[4] = p[2 * n], (&y)[4] = p[2 * n + 1];
      a[n][0] = ft_half<B>::pair(x[0], x[1]), a[n][1] = ft_half<B>::pair(x[2], x[3]);
      a[n][2] = ft_half<B>::pair(y[0], y[1]), a[n][3] = ft_half<B>::pair(y[2], y[3]);
    }
    fence();
    #pragma unroll
    for (int n = 0; n < N / 16; n++)
      #pragma unroll
      for (int j = 0; j < E / 64; j += 2) {
        const unsigned long long b = panel<8 * N>(v + j * N * 64 + n * 1024);
        if constexpr (E % 128 == 0) multiply_wide(o, 8 * j, a[n], b);
        else multiply(o, 8 * j, a[n], b);
      }
    commit();
  }
};
#else
template <bool B> struct ft_group : ft_half<B> {};
#endif
