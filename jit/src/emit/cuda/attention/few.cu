// Attention of at most 16 queries (Flash-Decoding: Dao, Haziza, Massa, Sizov, 2023): 8 warps of a block, and the S blocks of a
// cluster, share the keys. A warp loads N keys at a time from memory into registers. Partial results of warps are combined
// in a fixed order.
//
// The matrix units sum in any order of terms that both operands share. Terms are permuted such that each thread's elements
// are chunks of 16 bytes: the lane with g = lane / 4 and q = lane % 4 holds elements 8 q to 8 q + 7 of every 32 of a query or
// key, keys 4 q to 4 q + 3 of every 16, and columns 16 q to 16 q + 15 of every 64 of the result.

// Partial results of 16 queries, of a warp or of a block: for each query the weighted sum of values, the greatest score,
// which weights are relative to (as a power of 2), and the sum of weights.
template <int E> struct ft_partial {
  static constexpr int line = E + 4;
  float values[16 * line];
  __device__ __forceinline__ float &row_max(int row) { return values[row * line + E]; }
  __device__ __forceinline__ float &sum(int row) { return values[row * line + E + 1]; }
};

// Combines N partial results of four columns of a query. `load(i, false)` gives the columns of the i-th, `load(i, true)` its
// greatest score and its sum of weights.
template <int N, typename Load> FT_INLINE float4 ft_combine_partials(const Load &load, float &row_max, float &sum) {
  row_max = __int_as_float(0xff800000), sum = 0.0f;
  float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  #pragma unroll
  for (int i = 0; i < N; i++) row_max = fmaxf(row_max, load(i, true).x);
  const float about = row_max == __int_as_float(0xff800000) ? 0.0f : row_max;
  #pragma unroll
  for (int i = 0; i < N; i++) {
    const float4 known = load(i, true), y = load(i, false);
    const float factor = ft_exp2(known.x - about);
    sum = __fmaf_rn(known.y, factor, sum);
    x.x = __fmaf_rn(y.x, factor, x.x), x.y = __fmaf_rn(y.y, factor, x.y);
    x.z = __fmaf_rn(y.z, factor, x.z), x.w = __fmaf_rn(y.w, factor, x.w);
  }
  return x;
}

// Computes the queries over the keys from t.begin to t.end, which the blocks of the cluster share; this one has the rank
// `rank`. W: all chunks are multiples of 16 bytes. D and E are the widths of keys (a multiple of 32) and of values (of 64).
// CAUSAL, LIMITED, CHANGED, ZEROS and SPLIT are the flags of `ft_attend`.
template <bool W, bool B, int N, int D, int E, int S, bool CAUSAL, bool LIMITED, bool CHANGED, bool ZEROS, bool SPLIT, typename Score>
FT_INLINE void ft_attend_chunks(const ft_attention<unsigned short> &t, int rank, const Score &score) {
  typedef ft_half<B> P;
  extern __shared__ __align__(1024) unsigned char ft_tiles[];
  ft_partial<E> *const all = (ft_partial<E> *)ft_tiles, &own = all[8];
  const float lowest = __int_as_float(0xff800000);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, q = lane & 3;
  uint4 k[N / 8][D / 32], v[N / 4][E / 64];
  const auto load = [&](int at) {
    #pragma unroll
    for (int j = 0; j < N / 8; j++) {
      const int key = at + j / 2 * 16 + g / 2 * 4 + j % 2 * 2 + g % 2;
      #pragma unroll
      for (int d = 0; d < D / 32; d++) k[j][d] = ft_chunk_of<W>(t.k.data + min(key, t.keys - 1) * t.k.row + 32 * d + 8 * q, 8);
    }
    #pragma unroll
    for (int j = 0; j < N / 4; j++) {
      const int key = at + j / 4 * 16 + 4 * q + j % 4;
      #pragma unroll
      for (int e = 0; e < E / 64; e++) v[j][e] = ft_chunk_of<W>(t.v.data + min(key, t.keys - 1) * t.v.row + 64 * e + 8 * g, 8);
    }
  };
  int at = t.begin + (rank * 8 + warp) * N;
  load(at);
  uint4 x[2][D / 32];
  #pragma unroll
  for (int h = 0; h < 2; h++)
    #pragma unroll
    for (int d = 0; d < D / 32; d++) x[h][d] = ft_chunk_of<W>(t.q.data + min(g + 8 * h, t.rows - 1) * t.q.row + 32 * d + 8 * q, 8);
  int end = t.end, seen[2];
  if (CAUSAL && t.fill == lowest) end = min(end, t.rows + t.ahead);
  if constexpr (LIMITED) {
    const int last = score.last(min(lane & 15, t.rows - 1));
    #pragma unroll
    for (int h = 0; h < 2; h++) seen[h] = __shfl_sync(~0u, last, g + 8 * h);
    if (t.fill == lowest) end = min(end, __reduce_max_sync(~0u, last) + 1);
  }
  const float sign = CHANGED || t.scale > 0.0f ? 1.0f : t.scale < 0.0f ? -1.0f : t.scale * 0.0f;
  const float scale = CHANGED || t.scale > 0.0f ? t.scale : t.scale < 0.0f ? -t.scale : 1.0f;
  const float fill = (CAUSAL || LIMITED) && !CHANGED ? __fdiv_rn(t.fill, scale) : t.fill, c = scale * 1.4426950408889634f;
  float o[E / 8][4] = {}, row_max[2] = {lowest, lowest}, sum[2] = {};
  #pragma unroll 1
  while (at < end) {
    if (at + N > t.keys) {
      // Keys behind the last one have no weight; their values are 0, since 0 times a NaN would be NaN.
      #pragma unroll
      for (int j = 0; j < N / 4; j++)
        #pragma unroll
        for (int e = 0; e < E / 64; e++)
          if (at + j / 4 * 16 + 4 * q + j % 4 >= t.keys) v[j][e] = make_uint4(0, 0, 0, 0);
    }
    float s[N / 8][4] = {};
    #pragma unroll
    for (int j = 0; j < N / 8; j++)
      #pragma unroll
      for (int d = 0; d < D / 32; d++) {
        const unsigned low[4] = {x[0][d].x, x[1][d].x, x[0][d].y, x[1][d].y}, high[4] = {x[0][d].z, x[1][d].z, x[0][d].w, x[1][d].w};
        P::multiply(s[j], low, k[j][d].x, k[j][d].y);
        P::multiply(s[j], high, k[j][d].z, k[j][d].w);
      }
    #pragma unroll
    for (int j = 0; j < N / 8; j++)
      #pragma unroll
      for (int e = 0; e < 4; e++) {
        const int row = g + e / 2 * 8, key = at + j / 2 * 16 + 4 * q + j % 2 * 2 + e % 2;
        float &y = s[j][e];
        if (CHANGED) y = score(min(row, t.rows - 1), min(key, t.keys - 1), y);
        else y *= sign;
        if (CAUSAL && key > row + t.ahead) y = fill;
        if constexpr (LIMITED)
          if (key > seen[e / 2]) y = fill;
        if (key >= t.end) y = lowest;
      }
    float factor[2];
    #pragma unroll
    for (int h = 0; h < 2; h++) {
      // fmaxf ignores NaN; the sum of weights becomes NaN.
      float y = row_max[h];
      #pragma unroll
      for (int j = 0; j < N / 8; j++) y = fmaxf(y, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
      y = fmaxf(y, __shfl_xor_sync(~0u, y, 1));
      y = fmaxf(y, __shfl_xor_sync(~0u, y, 2));
      // While all scores are −∞, any finite number gives weights of 0.
      const float about = y == lowest ? 0.0f : y * c;
      factor[h] = ft_exp2(row_max[h] * c - about);
      row_max[h] = y;
      float total = 0.0f;
      #pragma unroll
      for (int j = 0; j < N / 8; j++)
        #pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; e++) {
          s[j][e] = ft_exp2(__fmaf_rn(s[j][e], c, -about));
          total += s[j][e];
        }
      sum[h] = __fmaf_rn(sum[h], factor[h], total);
    }
    #pragma unroll
    for (int j = 0; j < E / 8; j++)
      #pragma unroll
      for (int e = 0; e < 4; e++) o[j][e] *= factor[e / 2];
    #pragma unroll
    for (int n = 0; n < N / 16; n++) {
      const float (&a)[4] = s[2 * n], (&b)[4] = s[2 * n + 1];
      const unsigned p[4] = {P::pair(a[0], a[1]), P::pair(a[2], a[3]), P::pair(b[0], b[1]), P::pair(b[2], b[3])};
      #pragma unroll
      for (int e = 0; e < E / 64; e++) {
        const uint4 (&r)[N / 4][E / 64] = v;
        const auto word = [&](int i, int w) { const uint4 &y = r[4 * n + i][e]; return w == 0 ? y.x : w == 1 ? y.y : w == 2 ? y.z : y.w; };
        #pragma unroll
        for (int j = 0; j < 8; j++) {
          const unsigned halves = j % 2 ? 0x7632 : 0x5410;
          P::multiply(o[8 * e + j], p, __byte_perm(word(0, j / 2), word(1, j / 2), halves), __byte_perm(word(2, j / 2), word(3, j / 2), halves));
        }
      }
    }
    at += 8 * S * N;
    if (at < end) load(at);
  }
  #pragma unroll
  for (int h = 0; h < 2; h++) {
    float total = sum[h];
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    const int row = g + 8 * h;
    if (row >= t.rows) continue;
    float *const to = all[warp].values + row * ft_partial<E>::line + 16 * q;
    #pragma unroll
    for (int e = 0; e < E / 64; e++)
      #pragma unroll
      for (int j = 0; j < 16; j += 4) {
        const float (&from)[E / 8][4] = o;
        const int tile = 8 * e + j % 8, side = 2 * h + j / 8;
        *(float4 *)(to + 64 * e + j) = make_float4(from[tile][side], from[tile + 1][side], from[tile + 2][side], from[tile + 3][side]);
      }
    if (q == 0) all[warp].row_max(row) = row_max[h] == lowest ? lowest : row_max[h] * c, all[warp].sum(row) = total;
  }
  __syncthreads();
  const auto store = [&](int row, int column, float4 x, float greatest, float total) {
    if (SPLIT) {
      float *const to = t.part + row * t.part_row;
      to[column] = x.x, to[column + 1] = x.y, to[column + 2] = x.z, to[column + 3] = x.w;
      if (column == 0) to[E] = greatest, to[E + 1] = total;
    } else {
      const float inverse = ZEROS && total == 0.0f ? 0.0f : __fdiv_rn(1.0f, total);
      *(uint2 *)(t.out + row * t.out_row + column) = make_uint2(P::pair(x.x * inverse, x.y * inverse), P::pair(x.z * inverse, x.w * inverse));
    }
  };
  #pragma unroll 1
  for (int i = threadIdx.x; i < t.rows * (E / 4); i += 256) {
    const int row = i / (E / 4), column = i % (E / 4) * 4;
    float greatest, total;
    const auto load = [&](int w, bool known) { return *(const float4 *)(all[w].values + row * ft_partial<E>::line + (known ? E : column)); };
    const float4 x = ft_combine_partials<8>(load, greatest, total);
    if constexpr (S == 1) {
      store(row, column, x, greatest, total);
    } else {
      *(float4 *)(own.values + row * ft_partial<E>::line + column) = x;
      if (column == 0) own.row_max(row) = greatest, own.sum(row) = total;
    }
  }
  if constexpr (S > 1) {
    ft_cluster_barrier();
    #pragma unroll 1
    for (int i = threadIdx.x * S + rank; i < t.rows * (E / 4); i += 256 * S) {
      const int row = i / (E / 4), column = i % (E / 4) * 4;
      float greatest, total;
      const auto load = [&](int b, bool known) { return ft_load_distributed(own.values + row * ft_partial<E>::line + (known ? E : column), b); };
      const float4 x = ft_combine_partials<S>(load, greatest, total);
      store(row, column, x, greatest, total);
    }
    // A block ends only when the others have read its shared memory.
    ft_cluster_barrier();
  }
}

template <bool B, int N, int D, int E, int S, bool CAUSAL, bool LIMITED, bool CHANGED, bool ZEROS, bool SPLIT, typename Score>
FT_INLINE void ft_attend_few(const ft_attention<unsigned short> &t, int rank, const Score &score) {
  if (t.q.whole(D) && t.k.whole(D) && t.v.whole(E)) ft_attend_chunks<true, B, N, D, E, S, CAUSAL, LIMITED, CHANGED, ZEROS, SPLIT>(t, rank, score);
  else ft_attend_chunks<false, B, N, D, E, S, CAUSAL, LIMITED, CHANGED, ZEROS, SPLIT>(t, rank, score);
}
