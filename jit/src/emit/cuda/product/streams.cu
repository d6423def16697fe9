// Products of few rows whose operands may be computed by fused code. The time to read the right matrix bounds them, so both
// operands go from memory straight into registers, by functions that give chunks of 8 elements, and no element of the right
// one is read twice. A block has 16 M rows and 64 columns. Its 8 warps and the S blocks of a cluster share the terms; their
// sums are added in a fixed order.
//
// A warp takes 32 terms at a time. The matrix units sum in any order of terms that both operands share, and compute columns
// in any order: with g = lane / 4 and q = lane % 4, a thread has terms 8 q to 8 q + 7, and column g of the j-th product of 8
// columns is column 8 g + j. All of a thread's operands and results are therefore chunks.
//
// A block runs this code only a few times, so that loading instructions costs time: there are just two copies of it, for
// chunks that are whole and for others.

// An operand that lies in memory; generated types that compute an operand have the same members. `load` gives what chunk c
// of line r is computed of, `load_same` what chunk c of every line is computed of; the call computes the chunk.
template <bool B> struct ft_lines {
  const unsigned short *data;
  long long line;
  int length;
  struct same {};
  struct ahead { __align__(16) unsigned short g[8]; };
  __device__ __forceinline__ bool whole() const { return length % 8 == 0 && ((unsigned long long)data & 15) == 0; }
  template <bool W> __device__ __forceinline__ void load_same(int, same &) const {}
  template <bool W> __device__ __forceinline__ void load(long long r, int c, ahead &x) const {
    *(uint4 *)x.g = ft_chunk_of<W>(data + r * line + c * 8, length - c * 8);
  }
  __device__ __forceinline__ void operator()(long long, int, float (&out)[8], const ahead &x, const same &) const {
    #pragma unroll
    for (int l = 0; l < 8; l++) out[l] = ft_half<B>::widen(x.g[l]);
  }
};

// A warp's part of both operands, and its loads for 32 terms. Loads of lines or chunks behind the last one read the last
// one again; `ft_stream` sets terms behind the last one to 0.
template <bool KB, int M, typename Left, typename Right> struct ft_part_of {
  const Left &left;
  const Right &right;
  int m, n, k, row, across, g, q;
  struct ahead {
    typename Left::ahead x[M][2];
    typename Left::same x_same;
    typename Right::ahead y[8];
    typename Right::same y_same;
  };
  __device__ __forceinline__ int chunk(int step) const { return min(step * 4 + q, (k - 1) / 8); }
  __device__ __forceinline__ int left_line(int i, int h) const { return min(row + 16 * i + 8 * h + g, m - 1); }
  __device__ __forceinline__ int right_line(int step, int j) const {
    return KB ? min(across * 8 + j, n - 1) : min((step * 4 + q) * 8 + j, k - 1);
  }
  __device__ __forceinline__ int right_chunk(int step) const { return KB ? chunk(step) : min(across, (n - 1) / 8); }
  template <bool W> __device__ __forceinline__ void load_left(int step, ahead &to) const {
    left.template load_same<W>(chunk(step), to.x_same);
    #pragma unroll
    for (int i = 0; i < M; i++)
      #pragma unroll
      for (int h = 0; h < 2; h++) left.template load<W>(left_line(i, h), chunk(step), to.x[i][h]);
  }
  template <bool W> __device__ __forceinline__ void load_right(int step, ahead &to) const {
    right.template load_same<W>(right_chunk(step), to.y_same);
    #pragma unroll
    for (int j = 0; j < 8; j++) right.template load<W>(right_line(step, j), right_chunk(step), to.y[j]);
  }
  template <bool W> __device__ __forceinline__ void load(int step, ahead &to) const {
    load_left<W>(step, to);
    load_right<W>(step, to);
  }
};

// Adds the products of a warp's steps from `first` to before `last`. KB: columns of the right matrix are contiguous. W: all
// chunks are whole and multiples of 16 bytes. The left matrix is read only after `wait` has returned.
template <bool B, bool KB, bool W, int M, typename Part, typename Wait>
FT_INLINE void ft_stream(float (&c)[M][8][4], const Part &part, int first, int last, const Wait &wait) {
  typename Part::ahead next;
  if (W && first < last) part.template load_right<W>(first, next);
  wait();
  if (W && first < last) part.template load_left<W>(first, next);
  #pragma unroll 1
  for (int step = first; step < last; step++) {
    typename Part::ahead now;
    if (W) {
      now = next;
      if (step + 1 < last) part.template load<W>(step + 1, next);
    } else {
      part.template load<W>(step, now);
    }
    const int terms = part.k - (step * 4 + part.q) * 8;
    unsigned a[M][2][4];
    #pragma unroll
    for (int i = 0; i < M; i++)
      #pragma unroll
      for (int h = 0; h < 2; h++) {
        float v[8];
        part.left(part.left_line(i, h), part.chunk(step), v, now.x[i][h], now.x_same);
        #pragma unroll
        for (int e = 0; e < 4; e++) a[i][e >> 1][h + (e & 1) * 2] = terms > 0 ? ft_half<B>::pair(v[2 * e], v[2 * e + 1]) : 0;
      }
    if constexpr (KB) {
      #pragma unroll
      for (int j = 0; j < 8; j++) {
        float v[8];
        part.right(part.right_line(step, j), part.right_chunk(step), v, now.y[j], now.y_same);
        unsigned b[4];
        #pragma unroll
        for (int e = 0; e < 4; e++) b[e] = terms > 0 ? ft_half<B>::pair(v[2 * e], v[2 * e + 1]) : 0;
        #pragma unroll
        for (int i = 0; i < M; i++) {
          ft_half<B>::multiply(c[i][j], a[i][0], b[0], b[1]);
          ft_half<B>::multiply(c[i][j], a[i][1], b[2], b[3]);
        }
      }
    } else {
      #pragma unroll
      for (int f = 0; f < 2; f++) {
        float v[4][8];
        #pragma unroll
        for (int e = 0; e < 4; e++) {
          part.right(part.right_line(step, 4 * f + e), part.right_chunk(step), v[e], now.y[4 * f + e], now.y_same);
          #pragma unroll
          for (int l = 0; l < 8; l++) v[e][l] = 4 * f + e < terms ? v[e][l] : 0.0f;
        }
        #pragma unroll
        for (int j = 0; j < 8; j++) {
          const unsigned b0 = ft_half<B>::pair(v[0][j], v[1][j]), b1 = ft_half<B>::pair(v[2][j], v[3][j]);
          #pragma unroll
          for (int i = 0; i < M; i++) ft_half<B>::multiply(c[i][j], a[i][f], b0, b1);
        }
      }
    }
  }
}

template <bool B, bool KB, int M, int S, typename Left, typename Right, typename After, typename Wait>
FT_INLINE void ft_by_streams(const ft_product<0> &t, const Left &left, const Right &right, const After &after, const Wait &wait) {
  extern __shared__ __align__(1024) unsigned char ft_tiles[];
  constexpr int rows = 16 * M, pitch = ft_pitch_of<64>;
  float *const sums = (float *)ft_tiles;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, q = lane & 3;
  const int part = blockIdx.x % S, tile = blockIdx.x / S;
  const int row = tile % t.rows * rows, column = tile / t.rows * 64;
  const int steps = (t.k + 31) / 32, each = (steps + 8 * S - 1) / (8 * S);
  const int first = (part * 8 + warp) * each, last = min(first + each, steps);
  const ft_part_of<KB, M, Left, Right> operands = {left, right, t.m, t.n, t.k, row, column / 8 + g, g, q};
  float c[M][8][4] = {};
  if (left.whole() && right.whole()) ft_stream<B, KB, true, M>(c, operands, first, last, wait);
  else ft_stream<B, KB, false, M>(c, operands, first, last, wait);
  #pragma unroll
  for (int i = 0; i < M; i++)
    #pragma unroll
    for (int e = 0; e < 4; e++) {
      float *const to = sums + (warp * rows + 16 * i + g + (e >> 1) * 8) * pitch + 16 * q + (e & 1) * 8;
      *(float4 *)to = make_float4(c[i][0][e], c[i][1][e], c[i][2][e], c[i][3][e]);
      *(float4 *)(to + 4) = make_float4(c[i][4][e], c[i][5][e], c[i][6][e], c[i][7][e]);
    }
  ft_add_up<rows, 64, S>(sums, t, row, column, part, after);
}
