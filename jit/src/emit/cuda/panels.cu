// Products of matrices of 16-bit floats: the operands, the order of tiles, and panels of 64 columns in shared memory, whose
// chunks of 16 bytes are swizzled over 8 rows, so that a column of chunks lies in different banks.
template <int N> struct ft_product {
  // The first matrix of each operand, and the distance of its lines (rows or columns) in elements. Lines are contiguous.
  const unsigned short *a, *b;
  long long a_line, b_line;
  int m, n, k;
  // The numbers of rows and of columns of tiles.
  int rows, columns;
  // For each dimension of the batch its size, and the strides of both operands in elements, 0 where one is broadcast.
  int batch[N + 1];
  long long a_step[N + 1], b_step[N + 1];
};

struct ft_place { int matrix, row, column; };

// The position of a tile, by its number. Consecutive tiles lie in a band of 16 rows of tiles, so that tiles computed at
// once share rows and columns of the operands in the cache.
FT_INLINE ft_place ft_tile(int tile, int rows, int columns) {
  constexpr int band = 16;
  const int matrix = tile / (rows * columns), rest = tile - matrix * rows * columns;
  const int first = rest / (band * columns) * band, height = min(rows - first, band), at = rest - first * columns;
  return {matrix, first + at % height, at / height};
}

// The position of chunk number `chunk` of row r of a panel, in elements.
FT_INLINE int ft_chunk(int r, int chunk) { return r * 64 + (chunk ^ r % 8) * 8; }

// Starts an asynchronous copy of a chunk of 16 bytes, of which `bytes` come from memory and the others are 0.
FT_INLINE void ft_copy_part(unsigned to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

// Chunk number i of the panels of R rows that begin at line `first` and element `at` of a matrix: how many of its elements
// lie within the matrix, and where it is copied from and to.
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

// Starts asynchronous copies of P panels of R rows into shared memory, by THREADS threads, from a matrix whose lines begin
// at multiples of 16 bytes. Elements outside the matrix become 0.
template <int R, int P, int THREADS>
FT_INLINE void ft_fill(unsigned short *to, const unsigned short *data, long long line, int first, int lines, int at, int length, int thread) {
  #pragma unroll
  for (int turn = 0; turn < R * P * 8 / THREADS; turn++) {
    const ft_part<R> part(turn * THREADS + thread, to, data, line, first, lines, at, length);
    ft_copy_part(ft_shared(part.to), part.from, 2 * part.in);
  }
}

// Copies P panels of R rows into shared memory element by element, by THREADS threads, from a matrix at any address.
// Elements outside the matrix become 0.
template <int R, int P, int THREADS>
FT_INLINE void ft_fill_by_elements(unsigned short *to, const unsigned short *data, long long line, int first, int lines, int at, int length, int thread) {
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

// Transposes accumulators among four threads, which hold two columns each of four groups of 8 columns of a row, from group
// j on: afterwards p holds one whole group, the first thread's the first one. h selects the row among a thread's two.
template <int K> FT_INLINE void ft_gather_chunk(float (&p)[8], const float (&c)[K][4], int j, int h) {
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
