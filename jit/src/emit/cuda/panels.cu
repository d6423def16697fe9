// Products of matrices of 16-bit floats: where they lie, the order of tiles, and panels of 64 columns in shared memory,
// whose chunks of 16 bytes are exchanged within 8 rows.
template <int N> struct ft_product {
  // The first matrices; distances of lines, which are rows or columns, in elements. A line is dense.
  const unsigned short *a, *b;
  long long a_line, b_line;
  int m, n, k;
  // Rows and columns of tiles.
  int rows, columns;
  // Dimensions of the batch: their sizes, and the distances of matrices, 0 where they share one.
  int batch[N + 1];
  long long a_step[N + 1], b_step[N + 1];
};

struct ft_place { int matrix, row, column; };

// The place of a tile. Those that are computed at once lie in a band of rows, and share rows and columns in the cache.
FT_INLINE ft_place ft_tile(int tile, int rows, int columns) {
  constexpr int band = 16;
  const int matrix = tile / (rows * columns), rest = tile - matrix * rows * columns;
  const int first = rest / (band * columns) * band, height = min(rows - first, band), at = rest - first * columns;
  return {matrix, first + at % height, at / height};
}

// Where a chunk of a panel's row lies, in elements.
FT_INLINE int ft_chunk(int r, int chunk) { return r * 64 + (chunk ^ r % 8) * 8; }

// So many bytes, then zeros.
FT_INLINE void ft_copy_part(unsigned to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

// A chunk of panels of R rows from line `first` and element `at` on: how many of its elements are within the lines and
// their length, where it comes from, and where it goes.
template <int R> struct ft_part {
  int in;
  const unsigned short *from;
  unsigned short *to;
  __device__ __forceinline__ ft_part(int i, unsigned short *tile, const unsigned short *data, long long line, int first, int lines, int at, int length) {
    const int r = i / 8 % R, panel = i / 8 / R, column = at + panel * 64 + i % 8 * 8;
    in = first + r < lines ? max(0, min(8, length - column)) : 0;
    from = in > 0 ? data + (first + r) * line + column : data;
    to = tile + panel * R * 64 + ft_chunk(r, i % 8);
  }
};

// Puts P panels of R rows into shared memory, with zeros elsewhere, by so many threads: by copies that are under way
// afterwards, from an aligned matrix.
template <int R, int P, int THREADS>
FT_INLINE void ft_fill(unsigned short *to, const unsigned short *data, long long line, int first, int lines, int at, int length, int thread) {
  #pragma unroll
  for (int turn = 0; turn < R * P * 8 / THREADS; turn++) {
    const ft_part<R> part(turn * THREADS + thread, to, data, line, first, lines, at, length);
    ft_copy_part(ft_shared(part.to), part.from, 2 * part.in);
  }
}

// Puts P panels of R rows into shared memory, with zeros elsewhere, element by element, from a matrix at any address.
template <int R, int P, int THREADS>
FT_INLINE void ft_fill_slowly(unsigned short *to, const unsigned short *data, long long line, int first, int lines, int at, int length, int thread) {
  #pragma unroll 1
  for (int i = thread; i < R * P * 8; i += THREADS) {
    const ft_part<R> part(i, to, data, line, first, lines, at, length);
    unsigned short x[8];
    #pragma unroll
    for (int l = 0; l < 8; l++) x[l] = l < part.in ? part.from[l] : (unsigned short)0;
    #pragma unroll
    for (int l = 0; l < 8; l++) part.to[l] = x[l];
  }
}

// Of four groups of 8 columns of a row, from group j on, a thread has two columns each: gives it all of one group, the
// first thread of four the first. h: the row's half of the accumulators.
template <int K> FT_INLINE void ft_turn(float (&p)[8], const float (&c)[K][4], int j, int h) {
  const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
  float even_lane[2][2], odd_lane[2][2];
  #pragma unroll
  for (int q = 0; q < 2; q++)
    #pragma unroll
    for (int e = 0; e < 2; e++) {
      const float x = c[j + 2 * q][2 * h + e], y = c[j + 2 * q + 1][2 * h + e];
      const float own = odd ? y : x, other = __shfl_xor_sync(~0u, odd ? x : y, 1);
      even_lane[q][e] = odd ? other : own;
      odd_lane[q][e] = odd ? own : other;
    }
  #pragma unroll
  for (int e = 0; e < 2; e++) {
    const float x = even_lane[0][e], y = even_lane[1][e], z = odd_lane[0][e], w = odd_lane[1][e];
    const float one = __shfl_xor_sync(~0u, upper ? x : y, 2), two = __shfl_xor_sync(~0u, upper ? z : w, 2);
    p[e] = upper ? one : x;
    p[2 + e] = upper ? two : z;
    p[4 + e] = upper ? y : one;
    p[6 + e] = upper ? w : two;
  }
}
