// The gradients of 64 keys and their values by a block: for block after block of queries, the weights p of all keys (turned),
// p g for the values, and p ∘ (v gᵀ − Σ g∘o) q for the keys.
extern "C" __global__ void __launch_bounds__(128, RESIDENT) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  extern __shared__ __align__(1024) unsigned char ft_tiles[];
  constexpr int k_size = P::template size<R, D>, v_size = P::template size<R, E>;
  constexpr int q_size = P::template size<N, D>, g_size = P::template size<N, E>;
  T *const k = (T *)ft_tiles, *const v = k + k_size;
  T *stage = v + v_size, *other = stage + q_size + g_size;
  __shared__ float2 known[2][N];
  const int rows = (int)a.rows, keys = (int)a.keys, blocks = (keys + R - 1) / R;
  const long long own = blockIdx.x / blocks;
  const int first = (int)(blockIdx.x % blocks) * R, begin = CAUSAL ? first / N * N : 0;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int row = first + warp * 16 + (lane >> 2), column = (lane & 3) * 2;
  const long long shares = ft_shares(a, a.of_keys);
  float dk[1][D / 8][4] = {}, dv[1][E / 8][4] = {};
  #pragma unroll 1
  for (long long turn = 0; turn < shares; turn++) {
    const ft_member member(a, a.of_keys, own, turn);
    const ft_score score(a, member);
    const ft_matrix<T> of_q = member.of(a.q, a.step[0]), of_k = member.of(a.k, a.step[1]), of_v = member.of(a.v, a.step[2]);
    const ft_matrix<T> of_g = member.of(a.g, a.step[4]);
    const ft_loader<P, N, D, T> queries(of_q, rows, (int)a.width);
    const ft_loader<P, N, E, T> gradients(of_g, rows, (int)a.values);
    const ft_loader<P, R, D, T> key_loader(of_k, keys, (int)a.width);
    const ft_loader<P, R, E, T> values(of_v, keys, (int)a.values);
    const float2 *const of_known = a.known + member.number * rows;
    // What is known of the queries of a step; those behind the last have weights of zero.
    const auto know = [&](int to, int at) {
      for (int i = threadIdx.x; i < N; i += 128) known[to][i] = at + i < rows ? of_known[at + i] : make_float2(__int_as_float(0x7f800000), 0.0f);
    };
    __syncthreads();
    if (turn == 0) {
      key_loader.fill(k, first);
      values.fill(v, first);
    }
    if (begin < rows) {
      queries.fill(stage, begin);
      gradients.fill(stage + q_size, begin);
      know(0, begin);
    }
    ft_commit();
    int turned = 0;
    #pragma unroll 1
    for (int at = begin; at < rows; at += N) {
      ft_arrived();
      P::seen();
      __syncthreads();
      if (at + N < rows) {
        queries.fill(other, at + N);
        gradients.fill(other + q_size, at + N);
        know(turned ^ 1, at + N);
      }
      ft_commit();
      float s[1][N / 8][4], p[1][N / 8][4];
      P::template scores<1, N, D>(s, k, stage);
      P::template scores<1, N, E>(p, v, stage + q_size);
      P::template wait<1>(s[0]);
      ft_scores<true>(s[0], score, row, at + column, score.whole(at, first, first + R));
      #pragma unroll
      for (int j = 0; j < N / 8; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++) s[0][j][e] = ft_exp2(s[0][j][e] - known[turned][8 * j + column + e % 2].x);
      ft_add<N, E>(dv, s, stage + q_size);
      P::template wait<1>(p[0]);
      #pragma unroll
      for (int j = 0; j < N / 8; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++) p[0][j][e] = s[0][j][e] * (p[0][j][e] - known[turned][8 * j + column + e % 2].y);
      ft_add<N, D>(dk, p, stage);
      P::template wait<0>(dv[0]);
      P::template wait<0>(dk[0]);
      turned ^= 1;
      T *const next = other;
      other = stage;
      stage = next;
    }
    ft_arrived();
  }
  const long long queries = a.of_queries[0] * a.of_queries[1] * a.of_queries[2] * a.of_queries[3] * rows * a.width;
  const long long before = a.of_keys[0] * a.of_keys[1] * a.of_keys[2] * a.of_keys[3] * keys * a.width;
  ft_put<D>(a.out + queries + own * keys * a.width, first, keys, (int)a.width, dk, (float)__longlong_as_double(a.scale));
  ft_put<E>(a.out + queries + before + own * keys * a.values, first, keys, (int)a.values, dv, 1.0f);
}
