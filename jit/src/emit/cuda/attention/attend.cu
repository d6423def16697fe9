// Attention of a block of 64 M queries, in blocks of N keys, with an online softmax: weights are relative to the greatest
// score so far, and sums are scaled down when a later block of keys has a greater one (Milakov and Gimelshein, 2018; Dao,
// FlashAttention-2, 2023).
template <typename T> struct ft_attention {
  ft_matrix<T> q, k, v;
  T *out;
  long long out_row;
  // Partial results, if the keys are split over blocks: for each query a row of values, the greatest score, the sum.
  float *part;
  long long part_row;
  int rows, keys, width, values;
  // The first query of the block, and the range of its keys.
  int first, begin, end;
  // Query i sees keys up to i + ahead, or up to its limit; the keys behind have the score `fill`.
  int ahead;
  float fill;
  // The factor of scores.
  float scale;
};

// The last key that any of R queries sees; the four warps of a block find it together.
template <int R, typename Score> FT_INLINE int ft_last_seen(const Score &score, int first, int rows) {
  __shared__ int seen[4];
  int last = -1;
  for (int i = threadIdx.x; i < min(R, rows - first); i += 128) last = max(last, score.last(first + i));
  #pragma unroll
  for (int d = 16; d > 0; d /= 2) last = max(last, __shfl_xor_sync(~0u, last, d));
  if ((threadIdx.x & 31) == 0) seen[threadIdx.x >> 5] = last;
  __syncthreads();
  return max(max(seen[0], seen[1]), max(seen[2], seen[3]));
}

// Computes a block's queries. P is the type of products; D and E are the padded widths of keys and values. CAUSAL: `ahead`
// hides keys. LIMITED: `score.last` gives the last key that a query sees. CHANGED: `score` changes scores. ZEROS: queries
// that see no key give zeros instead of NaN. SPLIT: results are partial, and `ft_combine` combines them.
template <typename P, int M, int N, int D, int E, bool CAUSAL, bool LIMITED, bool CHANGED, bool ZEROS, bool SPLIT, typename Score>
FT_INLINE void ft_attend(const ft_attention<typename P::type> &t, const Score &score) {
  typedef typename P::type T;
  extern __shared__ __align__(1024) unsigned char ft_tiles[];
  constexpr int R = 64 * M;
  const float lowest = __int_as_float(0xff800000);
  // Shared memory holds the queries and two stages of keys and values.
  constexpr int keys_size = P::template size<N, D>, stage_size = keys_size + P::template size<N, E>;
  T *const q = (T *)ft_tiles;
  T *stage = q + P::template size<R, D>, *other = stage + stage_size;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const ft_loader<P, R, D, T> queries(t.q, t.rows, t.width);
  const ft_loader<P, N, D, T> keys(t.k, t.keys, t.width);
  const ft_loader<P, N, E, T> values(t.v, t.keys, t.values);
  // The query of a thread's first accumulator, and the first key of its pair.
  const int row = t.first + warp * 16 + (lane >> 2), column = (lane & 3) * 2;
  float scale = t.scale, fill = t.fill;
  int end = t.end;
  if (CAUSAL && fill == lowest) end = max(min(end, min(t.first + R, t.rows) + t.ahead), t.begin);
  if constexpr (LIMITED)
    if (fill == lowest) end = max(min(end, ft_last_seen<R>(score, t.first, t.rows) + 1), t.begin);
  queries.edge(q, t.first);
  if (t.begin < end) {
    keys.fill(stage, t.begin);
    values.fill(stage + keys_size, t.begin);
  }
  ft_commit();
  if (!CHANGED && !(scale > 0.0f)) {
    // The greatest product has the greatest score only if the scale is positive: queries take the sign of another scale.
    const float factor = scale < 0.0f ? -1.0f : scale * 0.0f;
    ft_arrived();
    __syncthreads();
    for (int i = threadIdx.x; i < R * D; i += 128) {
      constexpr int n = 16 / sizeof(T);
      T &x = q[P::template place<R, D>(i / D, i % D / n) + i % n];
      x = P::narrow(P::widen(x) * factor);
    }
    scale = scale < 0.0f ? -scale : 1.0f;
  }
  if ((CAUSAL || LIMITED) && !CHANGED) fill = __fdiv_rn(fill, scale);
  // The last key that each query of a thread sees.
  int seen[M][2], least = t.keys;
  if constexpr (LIMITED) {
    #pragma unroll
    for (int i = 0; i < M; i++)
      #pragma unroll
      for (int h = 0; h < 2; h++) {
        seen[i][h] = score.last(min(row + 64 * i + 8 * h, t.rows - 1));
        least = min(least, seen[i][h] + 1);
      }
  }
  const float c = scale * 1.4426950408889634f;
  float o[M][E / 8][4] = {}, row_max[M][2], sum[M][2] = {};
  #pragma unroll
  for (int i = 0; i < M; i++) row_max[i][0] = row_max[i][1] = lowest;
  for (int at = t.begin; at < end; at += N) {
    ft_arrived();
    P::seen();
    __syncthreads();
    if (at + N < end) {
      keys.fill(other, at + N);
      values.fill(other + keys_size, at + N);
    }
    ft_commit();
    float s[M][N / 8][4];
    P::template scores<M, N, D>(s, q, stage);
    #pragma unroll
    for (int i = 0; i < M; i++) {
      P::template wait<M - 1>(s[i]);
      if (CHANGED) {
        #pragma unroll
        for (int j = 0; j < N / 8; j++)
          #pragma unroll
          for (int e = 0; e < 4; e++)
            s[i][j][e] = score(min(row + 64 * i + e / 2 * 8, t.rows - 1), min(at + 8 * j + column + e % 2, t.keys - 1), s[i][j][e]);
      }
      const int full = CAUSAL ? min(t.keys, t.first + 64 * i + warp * 16 + t.ahead + 1) : least;
      if (at + N > full) {
        #pragma unroll
        for (int j = 0; j < N / 8; j++)
          #pragma unroll
          for (int e = 0; e < 4; e++) {
            const int key = at + 8 * j + column + e % 2;
            if (CAUSAL && key > row + 64 * i + e / 2 * 8 + t.ahead) s[i][j][e] = fill;
            if constexpr (LIMITED)
              if (key > seen[i][e / 2]) s[i][j][e] = fill;
            if (key >= t.keys) s[i][j][e] = lowest;
          }
      }
      float factor[2];
      #pragma unroll
      for (int h = 0; h < 2; h++) {
        // fmaxf ignores NaN; the sum of weights becomes NaN.
        float x = row_max[i][h];
        #pragma unroll
        for (int j = 0; j < N / 8; j++) x = fmaxf(x, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
        x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
        x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
        // While all scores are −∞, any finite number gives weights of 0.
        const float about = x == lowest ? 0.0f : x * c;
        factor[h] = ft_exp2(row_max[i][h] * c - about);
        row_max[i][h] = x;
        float total = 0.0f;
        #pragma unroll
        for (int j = 0; j < N / 8; j++)
          #pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; e++) {
            s[i][j][e] = ft_exp2(__fmaf_rn(s[i][j][e], c, -about));
            total += s[i][j][e];
          }
        sum[i][h] = __fmaf_rn(sum[i][h], factor[h], total);
      }
      if (__any_sync(~0u, factor[0] != 1.0f || factor[1] != 1.0f)) {
        #pragma unroll
        for (int j = 0; j < E / 8; j++)
          #pragma unroll
          for (int e = 0; e < 4; e++) o[i][j][e] *= factor[e / 2];
      }
      if constexpr (P::apart) P::template values_of<N, E>(o[i], s[i], stage + keys_size);
    }
    if constexpr (!P::apart) P::template values<M, N, E>(o, s, stage + keys_size);
    #pragma unroll
    for (int i = 0; i < M; i++) P::template wait<0>(o[i]);
    T *const next = other;
    other = stage;
    stage = next;
  }
  ft_arrived();
  #pragma unroll
  for (int i = 0; i < M; i++)
    #pragma unroll
    for (int h = 0; h < 2; h++) {
      float total = sum[i][h];
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      const int at = row + 64 * i + 8 * h;
      if (at >= t.rows) continue;
      if (SPLIT) {
        float *const to = t.part + at * t.part_row;
        #pragma unroll
        for (int j = 0; j < E / 8; j++)
          #pragma unroll
          for (int e = 0; e < 2; e++)
            if (8 * j + column + e < t.values) to[8 * j + column + e] = o[i][j][2 * h + e];
        if (column == 0) to[t.values] = row_max[i][h] * c, to[t.values + 1] = total;
      } else {
        T *const to = t.out + at * t.out_row;
        const float inverse = ZEROS && total == 0.0f ? 0.0f : __fdiv_rn(1.0f, total);
        const bool pairs = sizeof(T) == 2 && t.out_row % 2 == 0 && t.values % 2 == 0;
        #pragma unroll
        for (int j = 0; j < E / 8; j++) {
          const int d = 8 * j + column;
          const T x = P::narrow(o[i][j][2 * h] * inverse), y = P::narrow(o[i][j][2 * h + 1] * inverse);
          if (pairs) {
            if (d < t.values) *(unsigned *)(to + d) = (unsigned)x | (unsigned)y << 16;
          } else {
            if (d < t.values) to[d] = x;
            if (d + 1 < t.values) to[d + 1] = y;
          }
        }
      }
    }
}

// Combines the partial results of a query, one for each of `pieces` pieces of the keys; a block does so.
template <typename P, bool ZEROS>
FT_INLINE void ft_combine(const float *part, int pieces, int values, typename P::type *out) {
  const int row = values + 2;
  float row_max = __int_as_float(0xff800000), sum = 0.0f;
  for (int i = 0; i < pieces; i++) row_max = fmaxf(row_max, part[i * row + values]);
  const float about = row_max == __int_as_float(0xff800000) ? 0.0f : row_max;
  for (int i = 0; i < pieces; i++) sum = __fmaf_rn(ft_exp2(part[i * row + values] - about), part[i * row + values + 1], sum);
  const float inverse = ZEROS && sum == 0.0f ? 0.0f : __fdiv_rn(1.0f, sum);
  for (int d = threadIdx.x; d < values; d += blockDim.x) {
    float x = 0.0f;
    for (int i = 0; i < pieces; i++) x = __fmaf_rn(ft_exp2(part[i * row + values] - about), part[i * row + d], x);
    out[d] = P::narrow(x * inverse);
  }
}
