// Products of few rows by a matrix whose columns are contiguous. The time to read that matrix bounds them, so both operands
// go from memory straight into registers, and no element of the right one is read twice. A block has 8 M rows and 16 C
// columns. Its 8 warps share the terms; their sums are added in a fixed order.
//
// The matrix units multiply 16 columns by 8 rows, with the roles of the operands exchanged. They sum in any order of terms
// that both operands share: the thread with q = lane % 4 has terms 8 q to 8 q + 7 of every 32, a chunk of 16 bytes.

// The operands of U steps of 32 terms in a warp's registers. Loads of lines or chunks behind the last one read the last
// one again; `multiply` sets left factors of terms behind the last one to 0.
template <bool W, int M, int C, int U> struct ft_steps {
  uint4 x[M][U], y[C][2][U];
  FT_INLINE int chunk(const ft_product<0> &t, int step) { return min(step * 4 + (int)(threadIdx.x & 3), (t.k - 1) / 8); }
  FT_INLINE const unsigned short *line(const ft_product<0> &t, int column, int i, int h) {
    return t.b + min(column + 16 * i + 8 * h + (int)(threadIdx.x >> 2 & 7), t.n - 1) * t.b_line;
  }
  __device__ __forceinline__ void load_left(const ft_product<0> &t, int row, int step) {
    #pragma unroll
    for (int i = 0; i < M; i++) {
      const unsigned short *const from = t.a + min(row + 8 * i + (int)(threadIdx.x >> 2 & 7), t.m - 1) * t.a_line;
      #pragma unroll
      for (int u = 0; u < U; u++) x[i][u] = ft_chunk_of<W>(from + chunk(t, step + u) * 8, t.k - chunk(t, step + u) * 8);
    }
  }
  __device__ __forceinline__ void load_right(const ft_product<0> &t, int column, int step) {
    #pragma unroll
    for (int i = 0; i < C; i++)
      #pragma unroll
      for (int h = 0; h < 2; h++) {
        const unsigned short *const from = line(t, column, i, h);
        #pragma unroll
        for (int u = 0; u < U; u++) y[i][h][u] = ft_chunk_of<W>(from + chunk(t, step + u) * 8, t.k - chunk(t, step + u) * 8);
      }
  }
  template <bool B> __device__ __forceinline__ void multiply(float (&c)[C][M][4], const ft_product<0> &t, int step) {
    if ((step + U) * 32 > t.k) {
      #pragma unroll
      for (int u = 0; u < U; u++)
        if (((step + u) * 4 + (int)(threadIdx.x & 3)) * 8 >= t.k) {
          #pragma unroll
          for (int i = 0; i < M; i++) x[i][u] = make_uint4(0, 0, 0, 0);
        }
    }
    #pragma unroll
    for (int u = 0; u < U; u++)
      #pragma unroll
      for (int i = 0; i < C; i++) {
        const uint4 &p = y[i][0][u], &q = y[i][1][u];
        const unsigned low[4] = {p.x, q.x, p.y, q.y}, high[4] = {p.z, q.z, p.w, q.w};
        #pragma unroll
        for (int j = 0; j < M; j++) {
          ft_half<B>::multiply(c[i][j], low, x[j][u].x, x[j][u].y);
          ft_half<B>::multiply(c[i][j], high, x[j][u].z, x[j][u].w);
        }
      }
  }
};

// Adds the products of a warp's steps from `first` to before `last`, U at a time. AHEAD: the next U are loaded meanwhile.
// The left matrix is read only after `wait` has returned.
template <bool B, bool W, int M, int C, int U, bool AHEAD, typename Wait>
FT_INLINE void ft_add_lines(float (&c)[C][M][4], const ft_product<0> &t, int row, int column, int first, int last, const Wait &wait) {
  ft_steps<W, M, C, U> some[AHEAD ? 2 : 1];
  const bool any = first + U <= last;
  if (any) some[0].load_right(t, column, first);
  wait();
  if (any) some[0].load_left(t, row, first);
  #pragma unroll 1
  while (first + U <= last) {
    #pragma unroll
    for (int turn = 0; turn < (AHEAD ? 2 : 1); turn++) {
      if (first + U > last) break;
      const bool more = first + 2 * U <= last;
      if (AHEAD && more) {
        some[1 - turn].load_right(t, column, first + U);
        some[1 - turn].load_left(t, row, first + U);
      }
      some[turn].template multiply<B>(c, t, first);
      first += U;
      if (!AHEAD && more) {
        some[0].load_right(t, column, first);
        some[0].load_left(t, row, first);
      }
    }
  }
  #pragma unroll 1
  for (; first < last; first++) {
    ft_steps<W, M, C, 1> one;
    one.load_right(t, column, first);
    one.load_left(t, row, first);
    one.template multiply<B>(c, t, first);
  }
}

template <bool B, int M, int C, int U, bool AHEAD, typename After, typename Wait>
FT_INLINE void ft_by_lines(const ft_product<0> &t, const After &after, const Wait &wait) {
  extern __shared__ __align__(1024) unsigned char ft_tiles[];
  constexpr int rows = 8 * M, columns = 16 * C, pitch = ft_pitch_of<columns>;
  float *const sums = (float *)ft_tiles;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, q = lane & 3;
  const int row = blockIdx.x % t.rows * rows, column = blockIdx.x / t.rows * columns;
  const int steps = (t.k + 31) / 32, each = (steps + 7) / 8, first = warp * each, last = min(first + each, steps);
  const bool whole = t.k % 8 == 0 && t.a_line % 8 == 0 && t.b_line % 8 == 0 && (((unsigned long long)t.a | (unsigned long long)t.b) & 15) == 0;
  float c[C][M][4] = {};
  if (whole) ft_add_lines<B, true, M, C, U, AHEAD>(c, t, row, column, first, last, wait);
  else ft_add_lines<B, false, M, C, 1, false>(c, t, row, column, first, last, wait);
  #pragma unroll
  for (int i = 0; i < C; i++)
    #pragma unroll
    for (int j = 0; j < M; j++)
      #pragma unroll
      for (int e = 0; e < 4; e++) sums[(warp * rows + 8 * j + 2 * q + e % 2) * pitch + 16 * i + 8 * (e / 2) + g] = c[i][j][e];
  ft_add_up<rows, columns, 1>(sums, t, row, column, 0, after);
}
