// A step of a factorisation by blocks: subtracts from each matrix of a batch a product of at most NB terms, tile by tile.
// Then, by AFTER, the tile in the corner factorises its first block (Cholesky), or the tiles on top solve the equations of
// their first rows by a lower triangle. Without terms only the latter happens. Before this text stand T, the elements' type,
// and AFTER.

constexpr int NB = 32, PART = 8, TILE = 64, EACH = 4, THREADS = 256, FACTOR = 1, SOLVE = 2;
// Divisions by numbers between these are products by reciprocals, which neither overflow nor lose digits there.
constexpr T LEAST = sizeof(T) == 4 ? (T)1e-30 : (T)1e-290, MOST = sizeof(T) == 4 ? (T)1e30 : (T)1e290;

// Where the element of a row and a column of a matrix lies.
struct ft_lines {
  long long first, row, column, matrix;
};

struct FT_SYMBOL_args {
  const T *left, *right;
  T *out;
  const T *factors;
  int *faults;
  long long rows, columns, depth;
  // Tiles below each other and side by side; rows of the block that is factorised or solved; rows above it.
  long long down, across, next, done;
  ft_lines l, r, o, f;
  long long unit, lower;
  char *scratch;
  long long *fault;
};

// The lower factor of a block of m rows, by a warp, which has a row of it a lane, PART columns at a time. Row k of `x` has
// column k of the factor. Gives the order of the first leading minor that is not positive, 0 where all are.
static __device__ int ft_factor(T (*x)[NB + 4], T *a, long long row, int m) {
  const int i = threadIdx.x & 31;
  ft_move<16>(
      0, (m + PART - 1) / PART * PART, 1, [&](int r) { return i <= r && r < m ? a[r * row + i] : (T)0; },
      [&](int r, T value) { x[i][r] = value; });
  __syncwarp();
  int fault = 0;
  T square = (T)1;
  for (int first = 0; first < m; first += PART) {
    T e[PART];
    #pragma unroll
    for (int c = 0; c < PART; c++) e[c] = x[first + c][i];
    #pragma unroll 4
    for (int k = 0; k < first; k++) {
      const T own = x[k][i];
      #pragma unroll
      for (int c = 0; c < PART; c++) e[c] = fma(-own, x[k][first + c], e[c]);
    }
    #pragma unroll
    for (int c = 0; c < PART; c++) {
      const int j = first + c;
      if (j >= m) break;
      const T pivot = __shfl_sync(~0u, e[c], j), inverse = rsqrt(pivot), own = i > j ? e[c] * inverse : (T)0;
      // NaN is not positive either.
      if (!(pivot > (T)0) && !fault) fault = j + 1;
      if (i == j) square = pivot;
      x[j][i] = own;
      __syncwarp();
      #pragma unroll
      for (int k = c + 1; k < PART; k++) e[k] = fma(-own, x[j][first + k], e[k]);
    }
    __syncwarp();
  }
  x[i][i] = sqrt(square);
  #pragma unroll 4
  for (int r = 0; r < m; r++)
    if (i <= r) a[r * row + i] = x[i][r];
  return fault;
}

// Solves the equations of a column of m numbers, a multiple of PART, PART at a time. Row k of `factors` has column k of the
// triangle. `inverse` has the reciprocals of its diagonal, 0 where a division is needed.
static __device__ void ft_solve(T (*factors)[NB + 4], const T *inverse, T *x, int stride, int m) {
  for (int first = 0; first < m; first += PART) {
    T e[PART];
    #pragma unroll
    for (int c = 0; c < PART; c++) e[c] = x[(first + c) * stride];
    #pragma unroll 4
    for (int k = 0; k < first; k++) {
      const T known = x[k * stride];
      #pragma unroll
      for (int c = 0; c < PART; c++) e[c] = fma(-factors[k][first + c], known, e[c]);
    }
    #pragma unroll
    for (int c = 0; c < PART; c++) {
      const T by = inverse[first + c];
      e[c] = by != (T)0 ? e[c] * by : e[c] / factors[first + c][first + c];
      #pragma unroll
      for (int k = c + 1; k < PART; k++) e[k] = fma(-factors[first + c][first + k], e[c], e[k]);
    }
    #pragma unroll
    for (int c = 0; c < PART; c++) x[(first + c) * stride] = e[c];
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ __align__(16) T left[NB][TILE + 1], right[NB][TILE + 1];
  const int t = threadIdx.x;
  // The number of a block fits into 32 bits.
  const unsigned across = (unsigned)a.across, tiles = (unsigned)a.down * across;
  const unsigned matrix = blockIdx.x / tiles, tile = blockIdx.x - matrix * tiles, down_to = tile / across;
  const long long i0 = (long long)down_to * TILE, j0 = (long long)(tile - down_to * across) * TILE;
  if (a.lower && j0 > i0) return;
  const int rows = a.rows - i0 < TILE ? (int)(a.rows - i0) : TILE;
  const int columns = a.columns - j0 < TILE ? (int)(a.columns - j0) : TILE;
  T *out = a.out + a.o.first + matrix * a.o.matrix + i0 * a.o.row + j0 * a.o.column;
  if (a.depth > 0) {
    const T *l = a.left + a.l.first + matrix * a.l.matrix + i0 * a.l.row;
    const T *r = a.right + a.r.first + matrix * a.r.matrix + j0 * a.r.column;
    // Neighbouring threads read neighbouring elements.
    const bool by_row = a.l.column == 1 || a.l.column == -1, by_column = a.r.row == 1 || a.r.row == -1;
    const auto load = [&](int e) {
      const int i = by_row ? e / NB : e % TILE, k = by_row ? e % NB : e / TILE;
      return i < rows && k < a.depth ? l[i * a.l.row + k * a.l.column] : (T)0;
    };
    const auto load_right = [&](int e) {
      const int j = by_column ? e / NB : e % TILE, k = by_column ? e % NB : e / TILE;
      return j < columns && k < a.depth ? r[k * a.r.row + j * a.r.column] : (T)0;
    };
    T of_right[EACH * 2];
    #pragma unroll
    for (int i = 0; i < EACH * 2; i++) of_right[i] = load_right(t + i * THREADS);
    ft_move<EACH * 2>(t, NB * TILE, THREADS, load, [&](int e, T value) {
      (by_row ? left[e % NB][e / NB] : left[e / TILE][e % TILE]) = value;
    });
    #pragma unroll
    for (int i = 0; i < EACH * 2; i++) {
      const int e = t + i * THREADS;
      (by_column ? right[e % NB][e / NB] : right[e / TILE][e % TILE]) = of_right[i];
    }
    __syncthreads();
    const int x = t % (TILE / EACH) * EACH, y = t / (TILE / EACH) * EACH;
    T sum[EACH][EACH] = {};
    #pragma unroll 8
    for (int k = 0; k < NB; k++) {
      T p[EACH], q[EACH];
      #pragma unroll
      for (int i = 0; i < EACH; i++) p[i] = left[k][y + i], q[i] = right[k][x + i];
      #pragma unroll
      for (int i = 0; i < EACH; i++)
        #pragma unroll
        for (int j = 0; j < EACH; j++) sum[i][j] = fma(p[i], q[j], sum[i][j]);
    }
    #pragma unroll
    for (int i = 0; i < EACH; i++) {
      T *to = out + (y + i) * a.o.row + x * a.o.column, value[EACH];
      bool is_in[EACH];
      #pragma unroll
      for (int j = 0; j < EACH; j++) {
        is_in[j] = y + i < rows && x + j < columns && !(a.lower && j0 + x + j > i0 + y + i);
        value[j] = is_in[j] ? to[j * a.o.column] : (T)0;
      }
      #pragma unroll
      for (int j = 0; j < EACH; j++)
        if (is_in[j]) to[j * a.o.column] = value[j] - sum[i][j];
    }
    __syncthreads();
  }
  // The operands' tiles have been read.
  T (*block)[NB + 4] = (T (*)[NB + 4])left;
  if (AFTER == FACTOR && tile == 0 && t < 32) {
    const int order = ft_factor(block, out, a.o.row, (int)a.next);
    if (t == 0) {
      int *fault = a.faults + matrix;
      if (a.done == 0) *fault = order;
      else if (order > 0 && *fault == 0) *fault = (int)a.done + order;
    }
  }
  if (AFTER == SOLVE && i0 == 0) {
    __shared__ T inverse[NB];
    const T *f = a.factors + a.f.first + matrix * a.f.matrix;
    const bool by_row = a.f.column == 1 || a.f.column == -1, down = a.o.row == 1 || a.o.row == -1;
    const int m = ((int)a.next + PART - 1) / PART * PART;
    const auto at = [&](int e, int &i, int &k) { i = by_row ? e / NB : e % NB, k = by_row ? e % NB : e / NB; };
    ft_move<EACH>(
        t, NB * (by_row ? m : NB), blockDim.x,
        [&](int e) {
          int i, k;
          at(e, i, k);
          const bool is_read = i < a.next && (a.unit ? k < i : k <= i);
          return is_read ? f[i * a.f.row + k * a.f.column] : (T)(i == k);
        },
        [&](int e, T value) {
          int i, k;
          at(e, i, k);
          block[k][i] = value;
          if (i == k) inverse[i] = fabs(value) > LEAST && fabs(value) < MOST ? (T)1 / value : (T)0;
        });
    const int count = down ? NB * columns : m * TILE;
    const auto of = [&](int e, int &i, int &j) {
      i = down ? e % NB : e / TILE, j = down ? e / NB : e % TILE;
      return i < a.next && j < columns;
    };
    ft_move<EACH * 2>(
        t, count, blockDim.x,
        [&](int e) {
          int i, j;
          return of(e, i, j) ? out[i * a.o.row + j * a.o.column] : (T)0;
        },
        [&](int e, T value) {
          int i, j;
          of(e, i, j);
          right[i][j] = value;
        });
    __syncthreads();
    if (t < columns) ft_solve(block, inverse, &right[0][t], TILE + 1, m);
    __syncthreads();
    for (int e = t; e < count; e += blockDim.x) {
      int i, j;
      if (of(e, i, j)) out[i * a.o.row + j * a.o.column] = right[i][j];
    }
  }
}
