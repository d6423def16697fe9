// Attention with warp specialisation (Hopper; Shah et al., FlashAttention-3, 2024). G groups of four warps compute 64 queries
// each; another group loads their operands by the copy engine into rings of stages. Two overlaps keep the matrix units busy:
// a group starts the products for the scores of the next block of keys before those of this block's weights by its values,
// and computes the next weights meanwhile; and groups issue their products in turns, so that one group computes weights
// while another's products run. Blocks of threads take tiles of queries from a counter in memory.
template <int K> struct ft_heads {
  // The first matrix of each operand, whose rows are contiguous, and the distances of rows in elements.
  const unsigned short *q, *k, *v;
  unsigned short *out;
  long long q_row, k_row, v_row;
  int rows, keys, width, values;
  // Tiles of queries of a head; heads; and how many heads are computed at once, so that the cache holds their keys.
  int blocks, heads, near;
  // Query i sees keys up to i + ahead, or up to its limit; the keys behind have the score `fill`.
  int ahead;
  float fill, scale;
  // For each dimension of the batch its size, and the strides of the operands in elements, 0 where one is broadcast.
  int batch[K + 1];
  long long q_step[K + 1], k_step[K + 1], v_step[K + 1];
};

// A tile of R queries, by its number: its head, its first query, and the number of blocks of N keys that it sees, which are
// computed from the last to the first. Tiles of `near` heads are interleaved, those with most keys first. LANES threads
// construct it together and share the look-ups of limits.
template <int R, int N, bool CAUSAL, bool LIMITED, int LANES, int K> struct ft_query_tile {
  int head, first, blocks;
  template <typename Scores> __device__ __forceinline__ ft_query_tile(const ft_heads<K> &t, int tile, const Scores &scores) {
    const int mixed = tile / (t.near * t.blocks), height = min(t.near, t.heads - mixed * t.near);
    const int rest = tile - mixed * t.near * t.blocks;
    head = mixed * t.near + rest % height;
    first = (t.blocks - 1 - rest / height) * R;
    int end = t.keys;
    if (CAUSAL && t.fill == __int_as_float(0xff800000)) end = max(0, min(end, min(first + R, t.rows) + t.ahead));
    if constexpr (LIMITED) {
      const auto score = scores(head);
      int last = t.fill == __int_as_float(0xff800000) ? -1 : end - 1;
      #pragma unroll 8
      for (int i = LANES == 1 ? 0 : threadIdx.x % LANES; i < R; i += LANES) last = max(last, score.last(min(first + i, t.rows - 1)));
      #pragma unroll
      for (int d = LANES / 2; d > 0; d /= 2) last = max(last, __shfl_xor_sync(~0u, last, d));
      end = min(end, last + 1);
    }
    blocks = max(1, (end + N - 1) / N);
  }
};

// The layout of a block's shared memory, as offsets in bytes: two tiles of queries, S stages of keys and of values, tensor
// maps while they are written, numbers of tiles, barriers.
template <int R, int N, int D, int E, int S> struct ft_shared_layout {
  static constexpr int q_bytes = R * D * 2, k_bytes = N * D * 2, v_bytes = N * E * 2;
  static constexpr int keys = 2 * q_bytes, values = keys + S * k_bytes, maps = values + S * v_bytes, tiles = maps + 384;
  static constexpr int q_full = tiles + 16, q_empty = q_full + 16, k_full = q_empty + 16, k_empty = k_full + 8 * S;
  static constexpr int v_full = k_empty + 8 * S, v_empty = v_full + 8 * S, bytes = v_empty + 8 * S;
};

// Loads the operands of all tiles of a block of threads by the copy engine. One thread does so; if LIMITED, a warp, which
// looks limits up and whose first lane starts the loads. Keys are loaded a block ahead of values, also from one tile to the
// next. The number of the next tile is taken from the counter as late as its first loads allow, for balance; the counter is
// 0 again when all tiles are taken.
template <int R, int N, int D, int E, int S, bool CAUSAL, bool LIMITED, int K, typename Scores>
FT_INLINE void ft_load_heads(const ft_heads<K> &t, unsigned *counter, const char *maps, unsigned base, const Scores &scores) {
  typedef ft_shared_layout<R, N, D, E, S> room;
  constexpr int lanes = LIMITED ? 32 : 1;
  const int count = t.blocks * t.heads;
  const bool copies = lanes == 1 || threadIdx.x % 32 == 0;
  ft_ring<2> q;
  ft_ring<S> k, v;
  int tile = blockIdx.x, row = -1, i[K + 1], j[K + 1], l[K + 1];
  // Loads the values of the block of keys that was loaded before.
  const auto values = [&] {
    ft_barrier_wait(base + room::v_empty + 8 * v.stage, v.phase ^ 1);
    const unsigned full = base + room::v_full + 8 * v.stage;
    if (copies) ft_barrier_expect(full, room::v_bytes);
    #pragma unroll
    for (int p = 0; p < E / 64; p++)
      if (copies) ft_load_box<K>(base + room::values + v.stage * room::v_bytes + p * N * 128, maps + 256, full, 64 * p, row, l);
    v.next();
  };
  #pragma unroll 1
  while (true) {
    ft_barrier_wait(base + room::q_empty + 8 * q.stage, q.phase ^ 1);
    const unsigned full = base + room::q_full + 8 * q.stage;
    if (copies) asm volatile("st.shared.b32 [%0], %1;" :: "r"(base + room::tiles + 4 * q.stage), "r"(tile) : "memory");
    if (tile >= count) {
      if (copies) ft_barrier_arrive(full);
      break;
    }
    const ft_query_tile<R, N, CAUSAL, LIMITED, lanes, K> span(t, tile, scores);
    int rest = span.head;
    #pragma unroll
    for (int d = K - 1; d >= 0; d--) {
      const int x = rest % t.batch[d];
      rest /= t.batch[d];
      i[d] = t.q_step[d] ? x : 0;
      j[d] = t.k_step[d] ? x : 0;
    }
    if (copies) ft_barrier_expect(full, room::q_bytes);
    #pragma unroll
    for (int p = 0; p < D / 64; p++)
      if (copies) ft_load_box<K>(base + q.stage * room::q_bytes + p * R * 128, maps, full, 64 * p, span.first, i);
    q.next();
    const int early = min(span.blocks - 1, 1);
    #pragma unroll 1
    for (int n = span.blocks - 1; n >= 0; n--) {
      if (n == early && copies) tile = gridDim.x + atomicInc(counter, count - 1);
      if (lanes > 1 && n == early) tile = __shfl_sync(~0u, tile, 0);
      ft_barrier_wait(base + room::k_empty + 8 * k.stage, k.phase ^ 1);
      const unsigned full = base + room::k_full + 8 * k.stage;
      if (copies) ft_barrier_expect(full, room::k_bytes);
      #pragma unroll
      for (int p = 0; p < D / 64; p++)
        if (copies) ft_load_box<K>(base + room::keys + k.stage * room::k_bytes + p * N * 128, maps + 128, full, 64 * p, n * N, j);
      k.next();
      if (row >= 0) values();
      row = n * N;
      rest = span.head;
      #pragma unroll
      for (int d = K - 1; d >= 0; d--) {
        l[d] = t.v_step[d] ? rest % t.batch[d] : 0;
        rest /= t.batch[d];
      }
    }
  }
  values();
}

// Copies P panels of R rows into shared memory element by element, by 128 threads, and arrives at the barrier `full`.
template <bool B, int R, int P>
FT_INLINE void ft_copy_panels(unsigned char *to, const unsigned short *data, long long line, int first, int lines, int length, unsigned full) {
  ft_fill_by_elements<R, P, 128>((unsigned short *)to, data, line, first, lines, 0, length, threadIdx.x & 127);
  ft_group<B>::seen();
  asm volatile("bar.sync 8, 128;" ::: "memory");
  if ((threadIdx.x & 127) == 0) ft_barrier_arrive(full);
}

// Copies the operands of all tiles of a block of threads element by element, from matrices that the copy engine does not
// take; a group of warps does so, in place of `ft_load_heads`.
template <bool B, int R, int N, int D, int E, int S, bool CAUSAL, bool LIMITED, int K, typename Scores>
FT_INLINE void ft_copy_heads(const ft_heads<K> &t, unsigned *counter, unsigned char *tiles, const Scores &scores) {
  typedef ft_shared_layout<R, N, D, E, S> room;
  const unsigned base = ft_shared(tiles);
  const int count = t.blocks * t.heads;
  ft_ring<2> q;
  ft_ring<S> k, v;
  int tile = blockIdx.x;
  #pragma unroll 1
  while (true) {
    ft_barrier_wait(base + room::q_empty + 8 * q.stage, q.phase ^ 1);
    int *const shared = (int *)(tiles + room::tiles) + q.stage;
    if ((threadIdx.x & 127) == 0) *shared = tile;
    asm volatile("bar.sync 8, 128;" ::: "memory");
    tile = *shared;
    if (tile >= count) {
      if ((threadIdx.x & 127) == 0) ft_barrier_arrive(base + room::q_full + 8 * q.stage);
      return;
    }
    const ft_query_tile<R, N, CAUSAL, LIMITED, 32, K> span(t, tile, scores);
    int rest = span.head;
    const unsigned short *queries = t.q, *keys = t.k, *values = t.v;
    #pragma unroll
    for (int d = K - 1; d >= 0; d--) {
      const int x = rest % t.batch[d];
      rest /= t.batch[d];
      queries += x * t.q_step[d];
      keys += x * t.k_step[d];
      values += x * t.v_step[d];
    }
    ft_copy_panels<B, R, D / 64>(tiles + q.stage * room::q_bytes, queries, t.q_row, span.first, t.rows, t.width, base + room::q_full + 8 * q.stage);
    q.next();
    #pragma unroll 1
    for (int n = span.blocks - 1; n >= 0; n--) {
      ft_barrier_wait(base + room::k_empty + 8 * k.stage, k.phase ^ 1);
      ft_copy_panels<B, N, D / 64>(tiles + room::keys + k.stage * room::k_bytes, keys, t.k_row, n * N, t.keys, t.width, base + room::k_full + 8 * k.stage);
      k.next();
      ft_barrier_wait(base + room::v_empty + 8 * v.stage, v.phase ^ 1);
      ft_copy_panels<B, N, E / 64>(tiles + room::values + v.stage * room::v_bytes, values, t.v_row, n * N, t.keys, t.values, base + room::v_full + 8 * v.stage);
      v.next();
    }
    if ((threadIdx.x & 127) == 0) tile = gridDim.x + atomicInc(counter, count - 1);
  }
}

// The lower half of a matrix descriptor of the matrix units, to which distances in units of 16 bytes are added, and the
// whole descriptor.
template <int NEXT> FT_INLINE unsigned ft_low(unsigned at) { return at >> 4 | NEXT << 16; }
FT_INLINE unsigned long long ft_panel(unsigned low) { return (unsigned long long)0x40000040 << 32 | low; }
// s = q kᵀ, or s += q kᵀ if `adds`, of 64 queries, 128 keys and 16 terms.
template <bool B> FT_INLINE void ft_score(float (&s)[16][4], unsigned long long q, unsigned long long k, int adds) {
  if (B) asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" FT_NAMES_2 "}, %64, %65, p, 1, 1, 0, 0; }" : FT_SUMS_2(s) : "l"(q), "l"(k), "r"(adds));
  else asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" FT_NAMES_2 "}, %64, %65, p, 1, 1, 0, 0; }" : FT_SUMS_2(s) : "l"(q), "l"(k), "r"(adds));
}
template <bool B, int R, int N, int D> FT_INLINE void ft_scores(float (&s)[N / 8][4], unsigned q, unsigned k) {
  #pragma unroll
  for (int d = 0; d < D / 16; d++) ft_score<B>(s, ft_panel(q + d / 4 * (R * 8) + d % 4 * 2), ft_panel(k + d / 4 * (N * 8) + d % 4 * 2), d);
  ft_group<B>::commit();
}
// o += p v, with the weights p in registers.
template <bool B, int N, int E> FT_INLINE void ft_values(float (&o)[E / 8][4], const unsigned (&p)[N / 16][4], unsigned v) {
  #pragma unroll
  for (int n = 0; n < N / 16; n++)
    if constexpr (E == 128) ft_group<B>::multiply_wide(o, 0, p[n], ft_panel(v + n * 128));
    else ft_group<B>::multiply(o, 0, p[n], ft_panel(v + n * 128));
  ft_group<B>::commit();
}

// The state of the online softmax of a thread's two queries: the score that weights are relative to, and the sum of weights.
// That score may be less than the greatest one by up to `slack`, so that sums are rarely scaled.
struct ft_online_softmax {
  float row_max[2], sum[2];
  // The greatest of scores from group I to before group J. fmaxf ignores NaN; the sum of weights becomes NaN.
  template <int I, int J, int M> FT_INLINE void greatest(float (&x)[2], const float (&s)[M][4]) {
    #pragma unroll
    for (int h = 0; h < 2; h++) {
      float y[4];
      #pragma unroll
      for (int e = 0; e < 4; e++) y[e] = s[I + e / 2][2 * h + e % 2];
      #pragma unroll
      for (int j = I + 2; j < J; j++)
        #pragma unroll
        for (int e = 0; e < 2; e++) y[2 * (j % 2) + e] = fmaxf(y[2 * (j % 2) + e], s[j][2 * h + e]);
      x[h] = fmaxf(fmaxf(y[0], y[1]), fmaxf(y[2], y[3]));
    }
  }
  // Raises `row_max` to the greatest scores if one of a warp's exceeds it by more than `slack`, and returns whether it did. The
  // caller then scales earlier sums by `factor`.
  __device__ __forceinline__ bool grow(const float (&greatest)[2], float (&factor)[2], float slack, float c) {
    const bool grown = __any_sync(~0u, greatest[0] > row_max[0] + slack || greatest[1] > row_max[1] + slack);
    if (grown) {
      #pragma unroll
      for (int h = 0; h < 2; h++) {
        float x = fmaxf(greatest[h], row_max[h]);
        x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
        x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
        const float y = x == row_max[h] ? 1.0f : ft_exp2((row_max[h] - x) * c);
        row_max[h] = x;
        sum[h] *= y;
        factor[h] *= y;
      }
    }
    return grown;
  }
  // Turns the scores from group I to before group J into weights, and adds them up.
  template <int I, int J, int M> __device__ __forceinline__ void weigh(float (&s)[M][4], float c) {
    #pragma unroll
    for (int h = 0; h < 2; h++) {
      // While all scores are −∞, any finite number gives weights of 0.
      const float about = row_max[h] == __int_as_float(0xff800000) ? 0.0f : row_max[h] * c;
      float total[2] = {};
      #pragma unroll
      for (int j = I; j < J; j++)
        #pragma unroll
        for (int e = 0; e < 2; e++) {
          float &y = s[j][2 * h + e];
          y = ft_exp2(__fmaf_rn(y, c, -about));
          total[e] += y;
        }
      sum[h] += total[0] + total[1];
    }
    // Keeps the compiler from moving the additions away from the exponentials.
    asm volatile("" : "+f"(sum[0]), "+f"(sum[1]));
  }
  // Turns the scores of a block of keys into weights, in two halves: the search for the second half's greatest score overlaps
  // with the exponentials of the first.
  template <int J> __device__ __forceinline__ bool all(float (&s)[J][4], float (&factor)[2], float slack, float c) {
    float x[2];
    factor[0] = factor[1] = 1.0f;
    greatest<0, J / 2>(x, s);
    bool grown = grow(x, factor, slack, c);
    weigh<0, J / 2>(s, c);
    greatest<J / 2, J>(x, s);
    float again[2] = {1.0f, 1.0f};
    if (grow(x, again, slack, c)) {
      grown = true;
      #pragma unroll
      for (int h = 0; h < 2; h++) {
        factor[h] *= again[h];
        #pragma unroll
        for (int j = 0; j < J / 2; j++)
          #pragma unroll
          for (int e = 0; e < 2; e++) s[j][2 * h + e] *= again[h];
      }
    }
    weigh<J / 2, J>(s, c);
    return grown;
  }
};

// Stores a thread's results of two queries. Two neighbouring threads exchange columns, so that each stores four neighbouring
// columns of one group of 8 at once.
template <bool B, int E, bool ZEROS, int K>
FT_INLINE void ft_store_heads(const ft_heads<K> &t, int head, int row, const float (&o)[E / 8][4], const float (&sum)[2]) {
  const int odd = threadIdx.x & 1, column = odd * 8 + (threadIdx.x & 2) * 2;
  unsigned short *const to = t.out + ((long long)head * t.rows + row) * t.values + column;
  #pragma unroll
  for (int h = 0; h < 2; h++) {
    float total = sum[h];
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    const float inverse = ZEROS && total == 0.0f ? 0.0f : __fdividef(1.0f, total);
    const int end = row + 8 * h < t.rows ? t.values - column : 0;
    #pragma unroll
    for (int j = 0; j < E / 8; j += 2) {
      const unsigned x = ft_half<B>::pair(o[j][2 * h] * inverse, o[j][2 * h + 1] * inverse);
      const unsigned y = ft_half<B>::pair(o[j + 1][2 * h] * inverse, o[j + 1][2 * h + 1] * inverse);
      const unsigned z = __shfl_xor_sync(~0u, odd ? x : y, 1);
      if (8 * j < end) *(uint2 *)(to + 8 * h * t.values + 8 * j) = odd ? make_uint2(z, y) : make_uint2(x, z);
    }
  }
}

// Computes all queries of all heads. `maps` has room for three tensor maps a block. `scores(head)` gives the function that
// changes the scores of a head and, if LIMITED, has a member `last`, the last key that a query sees.
template <bool B, int G, int N, int D, int E, int S, bool CAUSAL, bool LIMITED, bool CHANGED, bool ZEROS, int K, typename Scores>
FT_INLINE void ft_attend_specialized(const ft_heads<K> &t, unsigned *counter, char *maps, const Scores &scores) {
  typedef ft_group<B> P;
  extern __shared__ __align__(1024) unsigned char ft_tiles[];
  constexpr int R = 64 * G;
  typedef ft_shared_layout<R, N, D, E, S> room;
  typedef ft_query_tile<R, N, CAUSAL, LIMITED, 32, K> span_of;
  const float lowest = __int_as_float(0xff800000);
  const unsigned base = ft_shared(ft_tiles);
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0), lane = threadIdx.x & 31;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; i++) {
      ft_barrier_init(base + room::q_full + 8 * i, 1);
      ft_barrier_init(base + room::q_empty + 8 * i, 4 * G);
    }
    for (int i = 0; i < S; i++) {
      ft_barrier_init(base + room::k_full + 8 * i, 1);
      ft_barrier_init(base + room::k_empty + 8 * i, 4 * G);
      ft_barrier_init(base + room::v_full + 8 * i, 1);
      ft_barrier_init(base + room::v_empty + 8 * i, 4 * G);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (group == G) {
    if constexpr (G == 2) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    else asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    if ((((unsigned long long)t.q | (unsigned long long)t.k | (unsigned long long)t.v) & 15) != 0) {
      ft_copy_heads<B, R, N, D, E, S, CAUSAL, LIMITED, K>(t, counter, ft_tiles, scores);
    } else if ((threadIdx.x & 127) < 32) {
      maps += blockIdx.x * 384ll;
      ft_write_tensor_map<B, R, K>(maps, base + room::maps, t.q, t.width, t.rows, t.q_row, t.batch, t.q_step);
      ft_write_tensor_map<B, N, K>(maps + 128, base + room::maps + 128, t.k, t.width, t.keys, t.k_row, t.batch, t.k_step);
      ft_write_tensor_map<B, N, K>(maps + 256, base + room::maps + 256, t.v, t.values, t.keys, t.v_row, t.batch, t.v_step);
      if (LIMITED || lane == 0) ft_load_heads<R, N, D, E, S, CAUSAL, LIMITED, K>(t, counter, maps, base, scores);
    }
    return;
  }
  if constexpr (G == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  else asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
  const int turn = 1 + group, other = 1 + (group + 1) % G;
  if (group == G - 1) asm volatile("bar.arrive 1, 256;" ::: "memory");
  // The first query of a warp in a tile, and the query and the key of a thread's first accumulator.
  const int first = group * 64 + ((threadIdx.x >> 5) & 3) * 16, own = first + (lane >> 2), column = (lane & 3) * 2;
  const int count = t.blocks * t.heads;
  const float sign = CHANGED || t.scale > 0.0f ? 1.0f : t.scale < 0.0f ? -1.0f : t.scale * 0.0f;
  const float scale = CHANGED || t.scale > 0.0f ? t.scale : t.scale < 0.0f ? -t.scale : 1.0f;
  const float fill = (CAUSAL || LIMITED) && !CHANGED ? __fdiv_rn(t.fill, scale) : t.fill, c = scale * 1.4426950408889634f;
  const float slack = __fdividef(8.0f, c);
  ft_ring<2> queries;
  ft_ring<S> keys, values;
  const auto take = [&] {
    int tile;
    ft_barrier_wait(base + room::q_full + 8 * queries.stage, queries.phase);
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(tile) : "r"(base + room::tiles + 4 * queries.stage) : "memory");
    return tile;
  };
  float o[E / 8][4] = {}, s[N / 8][4], factor[2] = {1.0f, 1.0f};
  unsigned p[N / 16][4];
  ft_online_softmax about = {{lowest, lowest}, {}};
  int head, row, at;
  // The last key that each query of a thread sees.
  int seen[2], least = t.keys;
  // Sets the variables of a new tile.
  const auto begin = [&](int tile) {
    const span_of span(t, tile, scores);
    head = span.head;
    row = span.first + own;
    at = (span.blocks - 1) * N;
    if constexpr (LIMITED) {
      const auto score = scores(head);
      #pragma unroll
      for (int h = 0; h < 2; h++) seen[h] = score.last(min(row + 8 * h, t.rows - 1));
      least = min(t.keys, __reduce_min_sync(~0u, min(seen[0], seen[1])) + 1);
    }
  };
  const auto see = [&] {
    if (CHANGED) {
      const auto score = scores(head);
      #pragma unroll
      for (int j = 0; j < N / 8; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
          s[j][e] = score(min(row + e / 2 * 8, t.rows - 1), min(at + 8 * j + column + e % 2, t.keys - 1), s[j][e]);
    }
    const int full = CAUSAL ? min(t.keys, row - (lane >> 2) + t.ahead + 1) : least;
    if (at + N > full || (!CHANGED && sign != 1.0f)) {
      #pragma unroll
      for (int j = 0; j < N / 8; j++)
        #pragma unroll
        for (int e = 0; e < 4; e++) {
          const int key = at + 8 * j + column + e % 2;
          if (!CHANGED) s[j][e] *= sign;
          if (CAUSAL && key > row + e / 2 * 8 + t.ahead) s[j][e] = fill;
          if constexpr (LIMITED)
            if (key > seen[e / 2]) s[j][e] = fill;
          if (key >= t.keys) s[j][e] = lowest;
        }
    }
  };
  const auto multiply = [&] {
    ft_scores<B, R, N, D>(s, ft_low<0>(base + queries.stage * room::q_bytes + group * 8192), ft_low<0>(base + room::keys + keys.stage * room::k_bytes));
  };
  const auto sum = [&] { ft_values<B, N, E>(o, p, ft_low<8 * N>(base + room::values + values.stage * room::v_bytes)); };
  const auto narrow = [&] {
    #pragma unroll
    for (int n = 0; n < N / 16; n++)
      #pragma unroll
      for (int h = 0; h < 4; h++) p[n][h] = ft_half<B>::pair(s[2 * n + h / 2][h % 2 * 2], s[2 * n + h / 2][h % 2 * 2 + 1]);
  };
  const auto free = [&](unsigned barrier) {
    if (lane == 0) ft_barrier_arrive(base + barrier);
  };
  begin(take());
  ft_barrier_wait(base + room::k_full, 0);
  P::fence();
  multiply();
  P::template wait<0>(s);
  free(room::k_empty);
  keys.next();
  see();
  about.all(s, factor, slack, c);
  narrow();
  while (true) {
    // The queries of the sums that are complete once these weights are multiplied, if they are the last of a tile.
    const int done_head = head, done_row = row;
    const bool last = at == 0;
    if (last) {
      // All lanes have read the number of the tile before its memory is given back.
      __syncwarp();
      free(room::q_empty + 8 * queries.stage);
      queries.next();
      const int tile = take();
      if (tile >= count) break;
      begin(tile);
    } else {
      at -= N;
    }
    ft_barrier_wait(base + room::k_full + 8 * keys.stage, keys.phase);
    asm volatile("bar.sync %0, 256;" :: "r"(turn) : "memory");
    P::fence();
    multiply();
    ft_barrier_wait(base + room::v_full + 8 * values.stage, values.phase);
    sum();
    asm volatile("bar.arrive %0, 256;" :: "r"(other) : "memory");
    P::template wait<1>(s);
    free(room::k_empty + 8 * keys.stage);
    keys.next();
    see();
    const float summed[2] = {about.sum[0], about.sum[1]};
    if (last) about = {{lowest, lowest}, {}};
    const bool grown = about.all(s, factor, slack, c);
    // The condition always holds. The branch keeps the compiler from moving the wait before the weights.
    if (t.keys > 0) {
      P::template wait<0>(o);
      if (last) {
        ft_store_heads<B, E, ZEROS>(t, done_head, done_row, o, summed);
        #pragma unroll
        for (int j = 0; j < E / 8; j++)
          #pragma unroll
          for (int e = 0; e < 4; e++) o[j][e] = 0.0f;
      } else if (grown) {
        #pragma unroll
        for (int j = 0; j < E / 8; j++)
          #pragma unroll
          for (int e = 0; e < 4; e++) o[j][e] *= factor[e / 2];
      }
    }
    P::template wait<0>(o);
    free(room::v_empty + 8 * values.stage);
    values.next();
    narrow();
  }
  ft_barrier_wait(base + room::v_full + 8 * values.stage, values.phase);
  P::fence();
  sum();
  P::template wait<0>(o);
  ft_store_heads<B, E, ZEROS>(t, head, row, o, about.sum);
  if (group == 0) asm volatile("bar.sync 1, 256;" ::: "memory");
}
