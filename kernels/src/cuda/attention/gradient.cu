// What the gradients of attention know of a batch of matrices. Before this text stand P, which multiplies tiles, the padded
// widths D and E of keys and values, the keys (or queries) N of a step, CAUSAL, and MASK: 0 none, 1 truth values, 2 binary32.
typedef P::type T;
struct FT_SYMBOL_args {
  const T *q, *k, *v, *o, *g;
  const void *mask;
  T *out;
  // For each query of each matrix of the batch log2 Σ exp2 of its scores, and Σ g∘o.
  float2 *known;
  // Of queries, keys, values, results, their gradients and the mask: distances of rows and columns, then of matrices along the
  // dimensions of the batch, 0 where they share one.
  long long step[6][6];
  // The batch, and how many matrices of queries and of keys there are along its dimensions.
  long long batch[4], of_queries[4], of_keys[4];
  long long rows, keys, width, values;
  // The bits of a binary64.
  long long scale;
  char *scratch;
  long long *fault;
};
constexpr int R = 64;

// The place of a matrix in the batch: the `turn`-th of those that share the `own`-th of so many.
struct ft_member {
  long long at[4], number;
  __device__ __forceinline__ ft_member(const FT_SYMBOL_args &a, const long long (&sizes)[4], long long own, long long turn) {
    #pragma unroll
    for (int d = 3; d >= 0; d--) {
      const long long n = a.batch[d];
      long long &from = sizes[d] == n ? own : turn;
      at[d] = from % n;
      from /= n;
    }
    number = ((at[0] * a.batch[1] + at[1]) * a.batch[2] + at[2]) * a.batch[3] + at[3];
  }
  __device__ __forceinline__ long long offset(const long long (&step)[6]) const {
    return at[0] * step[2] + at[1] * step[3] + at[2] * step[4] + at[3] * step[5];
  }
  __device__ __forceinline__ ft_matrix<T> of(const T *data, const long long (&step)[6]) const {
    return {data + offset(step), step[0], step[1]};
  }
};
FT_INLINE long long ft_shares(const FT_SYMBOL_args &a, const long long (&sizes)[4]) {
  long long n = 1;
  for (int d = 0; d < 4; d++) n *= a.batch[d] / sizes[d];
  return n;
}

// A score times log2 e, −∞ where the key is not seen.
struct ft_score {
  const void *mask;
  long long row, column;
  int rows, keys;
  float c;
  __device__ __forceinline__ ft_score(const FT_SYMBOL_args &a, const ft_member &member)
      : row(a.step[5][0]), column(a.step[5][1]), rows((int)a.rows), keys((int)a.keys),
        c((float)__longlong_as_double(a.scale) * 1.4426950408889634f) {
    const long long at = member.offset(a.step[5]);
    mask = MASK == 1 ? (const void *)((const unsigned char *)a.mask + at) : (const void *)((const float *)a.mask + at);
  }
  // Whether every query of a tile sees every key of another.
  __device__ __forceinline__ bool whole(int query, int key, int key_end) const {
    return MASK == 0 && key_end <= keys && (!CAUSAL || key_end <= query + 1);
  }
  __device__ __forceinline__ float operator()(int i, int j, float s) const {
    const float lowest = __int_as_float(0xff800000);
    s *= c;
    if (j >= keys || (CAUSAL && j > i)) return lowest;
    if (MASK != 0) {
      const long long at = min(i, rows - 1) * row + j * column;
      if (MASK == 1) return ((const unsigned char *)mask)[at] ? s : lowest;
      return __fmaf_rn(((const float *)mask)[at], 1.4426950408889634f, s);
    }
    return s;
  }
};

// Turns products into scores times log2 e: all of a thread's, or (TURNED) those of keys as rows, of queries as columns.
template <bool TURNED, int K> FT_INLINE void ft_scores(float (&s)[K][4], const ft_score &score, int row, int column, bool whole) {
  // A branch of the block, so that whole tiles compute no masks.
  if (whole) {
    #pragma unroll
    for (int j = 0; j < K; j++)
      #pragma unroll
      for (int e = 0; e < 4; e++) s[j][e] *= score.c;
  } else {
    #pragma unroll
    for (int j = 0; j < K; j++)
      #pragma unroll
      for (int e = 0; e < 4; e++) {
        const int i = row + e / 2 * 8, at = column + 8 * j + e % 2;
        s[j][e] = TURNED ? score(at, i, s[j][e]) : score(i, at, s[j][e]);
      }
  }
}

// o += p v.
template <int K, int W, typename Q = P> FT_INLINE void ft_add(float (&o)[1][W / 8][4], const float (&p)[1][K / 8][4], const T *v) {
  if constexpr (Q::apart) Q::template values_of<K, W>(o[0], p[0], v);
  else Q::template values<1, K, W>(o, p, v);
}

// Stores a thread's part of a tile of 64 rows, multiplied.
template <int W> FT_INLINE void ft_put(T *out, int first, int rows, int columns, const float (&x)[1][W / 8][4], float scale) {
  const int lane = threadIdx.x & 31, row = first + (threadIdx.x >> 5) * 16 + (lane >> 2), column = (lane & 3) * 2;
  const bool pairs = sizeof(T) == 2 && columns % 2 == 0 && ((unsigned long long)out & 3) == 0;
  #pragma unroll
  for (int h = 0; h < 2; h++) {
    if (row + 8 * h >= rows) continue;
    T *const to = out + (long long)(row + 8 * h) * columns;
    #pragma unroll
    for (int j = 0; j < W / 8; j++) {
      const int d = 8 * j + column;
      const T y = P::narrow(x[0][j][2 * h] * scale), z = P::narrow(x[0][j][2 * h + 1] * scale);
      if (pairs) {
        if (d < columns) *(unsigned *)(to + d) = (unsigned)y | (unsigned)z << 16;
      } else {
        if (d < columns) to[d] = y;
        if (d + 1 < columns) to[d + 1] = z;
      }
    }
  }
}
