// The gradient of 64 queries by a block: first what their scores sum to, then, for block after block of keys, the weights p
// again, and p ∘ (g vᵀ − Σ g∘o) k. Both numbers of each query are kept for the gradients of keys and values.
extern "C" __global__ void __launch_bounds__(128, RESIDENT) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  extern __shared__ __align__(1024) unsigned char ft_tiles[];
  constexpr int q_size = P::template size<R, D>, g_size = P::template size<R, E>;
  constexpr int k_size = P::template size<N, D>, v_size = P::template size<N, E>;
  T *const q = (T *)ft_tiles, *const g = q + q_size;
  T *stage = g + g_size, *other = stage + k_size + v_size;
  const float lowest = __int_as_float(0xff800000);
  const int rows = (int)a.rows, keys = (int)a.keys, blocks = (rows + R - 1) / R;
  const long long own = blockIdx.x / blocks;
  const int first = (blocks - 1 - (int)(blockIdx.x % blocks)) * R, end = CAUSAL ? min(keys, first + R) : keys;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int row = first + warp * 16 + (lane >> 2), column = (lane & 3) * 2;
  const long long shares = ft_shares(a, a.of_queries);
  float dq[1][D / 8][4] = {};
  #pragma unroll 1
  for (long long turn = 0; turn < shares; turn++) {
    const ft_member member(a, a.of_queries, own, turn);
    const ft_score score(a, member);
    const ft_matrix<T> of_q = member.of(a.q, a.step[0]), of_k = member.of(a.k, a.step[1]), of_v = member.of(a.v, a.step[2]);
    const ft_matrix<T> of_o = member.of(a.o, a.step[3]), of_g = member.of(a.g, a.step[4]);
    const ft_loader<P, R, D, T> queries(of_q, rows, (int)a.width);
    const ft_loader<P, R, E, T> gradients(of_g, rows, (int)a.values);
    const ft_loader<P, N, D, T> key_loader(of_k, keys, (int)a.width);
    const ft_loader<P, N, E, T> values(of_v, keys, (int)a.values);
    __syncthreads();
    queries.fill(q, first);
    gradients.fill(g, first);
    key_loader.fill(stage, 0);
    ft_commit();
    float most[2] = {lowest, lowest}, sum[2] = {}, dot[2] = {};
    #pragma unroll 1
    for (int at = 0; at < end; at += N) {
      ft_arrived();
      P::seen();
      __syncthreads();
      // Behind the last keys come the first ones of the second pass.
      if (at + N < end) {
        key_loader.fill(other, at + N);
      } else {
        key_loader.fill(other, 0);
        values.fill(other + k_size, 0);
      }
      ft_commit();
      float s[1][N / 8][4];
      P::template scores<1, N, D>(s, q, stage);
      P::template wait<0>(s[0]);
      ft_scores<false>(s[0], score, row, at + column, score.whole(first, at, at + N));
      #pragma unroll
      for (int h = 0; h < 2; h++) {
        float x = most[h];
        #pragma unroll
        for (int j = 0; j < N / 8; j++) x = fmaxf(x, fmaxf(s[0][j][2 * h], s[0][j][2 * h + 1]));
        // Where nothing is seen yet, any number serves. A NaN shows in the sum.
        const float about = x == lowest ? 0.0f : x;
        float total = sum[h] * ft_exp2(most[h] - about);
        #pragma unroll
        for (int j = 0; j < N / 8; j++) total += ft_exp2(s[0][j][2 * h] - about) + ft_exp2(s[0][j][2 * h + 1] - about);
        most[h] = x;
        sum[h] = total;
      }
      T *const next = other;
      other = stage;
      stage = next;
    }
    // Σ g∘o of a query by two threads, chunks by turns.
    constexpr int n = 16 / sizeof(T);
    const int own_row = threadIdx.x >> 1;
    float product = 0.0f;
    if (first + own_row < rows) {
      const T *const o = of_o.data + (first + own_row) * of_o.row;
      const bool whole = of_o.whole((int)a.values);
      #pragma unroll
      for (int chunk = 0; chunk < E / n; chunk += 2) {
        const int at = chunk + lane % 2, count = min(n, (int)a.values - at * n);
        __align__(16) T x[n], y[n];
        if (count <= 0) continue;
        *(uint4 *)x = *(const uint4 *)(g + P::template place<R, E>(own_row, at));
        if (whole) {
          *(uint4 *)y = *(const uint4 *)(o + at * n);
        } else {
          #pragma unroll
          for (int l = 0; l < n; l++) y[l] = l < count ? o[(at * n + l) * of_o.column] : (T)0;
        }
        #pragma unroll
        for (int l = 0; l < n; l++) product = __fmaf_rn(P::widen(x[l]), P::widen(y[l]), product);
      }
    }
    product += __shfl_xor_sync(~0u, product, 1);
    #pragma unroll
    for (int h = 0; h < 2; h++) dot[h] = __shfl_sync(~0u, product, 2 * (lane >> 2) + 16 * h);
    float about[2];
    #pragma unroll
    for (int h = 0; h < 2; h++) {
      float x = fmaxf(most[h], __shfl_xor_sync(~0u, most[h], 1));
      x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
      float total = x == lowest ? sum[h] : sum[h] * ft_exp2(most[h] - x);
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      float log;
      asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log) : "f"(total));
      // A query that a mask lets see nothing has weights of zero.
      about[h] = total == 0.0f ? __int_as_float(MASK ? 0x7f800000 : 0x7fc00000) : x + log;
      if (column == 0 && row + 8 * h < rows) a.known[member.number * rows + row + 8 * h] = make_float2(about[h], dot[h]);
    }
    #pragma unroll 1
    for (int at = 0; at < end; at += N) {
      ft_arrived();
      P::seen();
      __syncthreads();
      if (at + N < end) {
        key_loader.fill(other, at + N);
        values.fill(other + k_size, at + N);
      }
      ft_commit();
      float s[1][N / 8][4], p[1][N / 8][4];
      P::template scores<1, N, D>(s, q, stage);
      P::template scores<1, N, E>(p, g, stage + k_size);
      P::template wait<1>(s[0]);
      ft_scores<false>(s[0], score, row, at + column, score.whole(first, at, at + N));
      #pragma unroll
      for (int j = 0; j < N / 8; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++) s[0][j][e] = ft_exp2(s[0][j][e] - about[e / 2]);
      P::template wait<0>(p[0]);
      #pragma unroll
      for (int j = 0; j < N / 8; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++) s[0][j][e] *= p[0][j][e] - dot[e / 2];
      ft_add<N, D>(dq, s, stage);
      P::template wait<0>(dq[0]);
      T *const next = other;
      other = stage;
      stage = next;
    }
    ft_arrived();
  }
  ft_put<D>(a.out + own * rows * a.width, first, rows, (int)a.width, dq, (float)__longlong_as_double(a.scale));
}
