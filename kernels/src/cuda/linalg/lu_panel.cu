// Gaussian elimination with partial pivoting of columns `start` to `end` of matrices, at most NB, a block each (Golub and
// Van Loan, Matrix Computations, 3.4). SUB columns at a time lie in registers, ROWS rows a thread, and in shared memory. Rows
// are exchanged in these columns and in the order of rows. `moves` says how they are to be exchanged in the other columns: the
// rows that go to `start` to `end`, then NB further places, -1 for none, and the rows that go there. Before this text stand T,
// the elements' type, SUB, and ROWS.

constexpr int NB = 32, SIDE_BY_SIDE = 8;
// Divisions by numbers between these are products by reciprocals, which neither overflow nor lose digits there.
constexpr T LEAST = sizeof(T) == 4 ? (T)1e-30 : (T)1e-290, MOST = sizeof(T) == 4 ? (T)1e30 : (T)1e290;

struct FT_SYMBOL_args {
  T *packed;
  int *moves;
  long long n, start, end;
  char *scratch;
  long long *fault;
};

static __device__ __forceinline__ unsigned ft_most(unsigned x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, x);
#else
  for (int d = 16; d > 0; d /= 2) {
    const unsigned other = __shfl_xor_sync(~0u, x, d);
    if (other > x) x = other;
  }
  return x;
#endif
}

// Keys that are ordered as |x| is; NaN has the least.
static __device__ __forceinline__ unsigned ft_key(float x) {
  const float size = fabs(x);
  return size >= 0.0f ? __float_as_uint(size) + 1 : 0;
}

static __device__ __forceinline__ unsigned long long ft_key(double x) {
  const double size = fabs(x);
  return size >= 0.0 ? (unsigned long long)__double_as_longlong(size) + 1 : 0;
}

static __device__ __forceinline__ unsigned ft_greatest(unsigned key) { return ft_most(key); }

static __device__ __forceinline__ unsigned long long ft_greatest(unsigned long long key) {
  const unsigned high = (unsigned)(key >> 32), most = ft_most(high);
  return (unsigned long long)most << 32 | ft_most(high == most ? (unsigned)key : 0);
}

// A barrier of the first threads of a block.
static __device__ __forceinline__ void ft_meet(int threads) {
  asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

// Where rows lie after exchanges. Among the exchanged rows, the place of a lane's number has row `own`. Each lane has one more
// place, `to`, which has row `from`; -1 for none.
struct ft_moves {
  int own, to, from;
};

// The exchanges of rows `first` to `first + count` with those `chosen`, one after another, followed by a warp.
static __device__ ft_moves ft_exchanged(const int *chosen, int first, int count) {
  const int lane = threadIdx.x & 31;
  ft_moves m = {first + lane, -1, 0};
  int others = 0;
  for (int j = 0; j < count; j++) {
    const int pivot = chosen[j], mine = __shfl_sync(~0u, m.own, j);
    if (pivot < first + count) {
      const int other = __shfl_sync(~0u, m.own, pivot - first);
      if (lane == j) m.own = other;
      if (lane == pivot - first) m.own = mine;
    } else {
      const unsigned known = __ballot_sync(~0u, m.to == pivot);
      const int place = known ? __ffs(known) - 1 : others++;
      if (!known && lane == place) m.to = m.from = pivot;
      const int other = __shfl_sync(~0u, m.from, place);
      if (lane == j) m.own = other;
      if (lane == place) m.from = mine;
    }
  }
  return m;
}

extern "C" __global__ void __launch_bounds__(1024) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  typedef decltype(ft_key((T)0)) Key;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ __align__(16) T upper[SUB][SUB], other[SUB], above[SUB][NB];
  __shared__ Key keys[32];
  __shared__ unsigned places[32];
  __shared__ int chosen[NB], moved[2 * SUB], sources[2 * SUB];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5, warps = blockDim.x >> 5;
  const long long n = a.n;
  T *order = a.packed + blockIdx.x * (n + 2) * n, *exchanged = order + n;
  // Rows and columns are counted from the panel's corner.
  T *x = exchanged + n + a.start * (n + 1), *panel = (T *)memory;
  const int rows = (int)(n - a.start), width = (int)(a.end - a.start);
  // Neighbouring elements of a row and of a column of the panel lie in different banks.
  const int stride = (rows + 31) / 32 * 32 + 32 / SUB;
  // A place that is none comes last.
  constexpr unsigned NONE = 0xffffffffu;
  for (int p = 0; p < width; p += SUB) {
    const int q = p + SUB < width ? p + SUB : width, w = q - p;
    ft_move<SUB>(
        p * SUB + t, rows * SUB, blockDim.x,
        [&](int e) { return e % SUB < w ? x[e / SUB * n + p + e % SUB] : (T)0; },
        [&](int e, T value) { panel[e % SUB * stride + e / SUB] = value; });
    __syncthreads();
    // Columns are eliminated by as few warps as have registers for the rows; they meet by themselves.
    const int workers = (rows - p + ROWS * 32 - 1) / (ROWS * 32), threads = workers * 32;
    if (warp < workers) {
      T value[ROWS][SUB];
      #pragma unroll
      for (int i = 0; i < ROWS; i++) {
        const int r = p + t + i * threads;
        #pragma unroll
        for (int k = 0; k < SUB; k++) value[i][k] = r < rows ? panel[k * stride + r] : (T)0;
      }
      #pragma unroll
      for (int j = 0; j < SUB; j++) {
        if (j >= w) break;
        const int row = p + j;
        // The greatest of the thread's rows, the first of equals.
        Key most = 0;
        unsigned at = NONE;
        #pragma unroll
        for (int i = 0; i < ROWS; i++) {
          const int r = p + t + i * threads;
          const Key key = ft_key(value[i][j]);
          if (r >= row && r < rows && key > most) most = key, at = r;
        }
        const Key of_warp = ft_greatest(most);
        const unsigned place = ~ft_most(most == of_warp ? ~at : 0);
        if (lane == 0) keys[warp] = of_warp, places[warp] = place;
        ft_meet(threads);
        const Key key = lane < workers ? keys[lane] : 0, of_all = ft_greatest(key);
        const unsigned found = ~ft_most(lane < workers && key == of_all ? ~places[lane] : 0);
        // In a column of NaN a row is its own pivot.
        const int pivot = found == NONE ? row : (int)found;
        if (t == 0) chosen[row] = pivot;
        // The pivot's row, and the row that takes its place.
        #pragma unroll
        for (int i = 0; i < ROWS; i++) {
          const int r = p + t + i * threads;
          if (r == pivot) {
            #pragma unroll
            for (int k = 0; k < SUB; k++) upper[j][k] = value[i][k];
          }
          if (r == row) {
            #pragma unroll
            for (int k = 0; k < SUB; k++) other[k] = value[i][k];
          }
        }
        ft_meet(threads);
        const T divisor = upper[j][j];
        const T inverse = fabs(divisor) > LEAST && fabs(divisor) < MOST ? (T)1 / divisor : (T)0;
        #pragma unroll
        for (int i = 0; i < ROWS; i++) {
          const int r = p + t + i * threads;
          if (r == pivot) {
            #pragma unroll
            for (int k = 0; k < SUB; k++) value[i][k] = other[k];
          }
          // A column of zeros is left as it is.
          if (r > row && divisor != (T)0) {
            const T factor = inverse != (T)0 ? value[i][j] * inverse : value[i][j] / divisor;
            value[i][j] = factor;
            #pragma unroll
            for (int k = j + 1; k < SUB; k++) value[i][k] = fma(-factor, upper[j][k], value[i][k]);
          }
        }
      }
      #pragma unroll
      for (int i = 0; i < ROWS; i++) {
        const int r = p + t + i * threads;
        #pragma unroll
        for (int k = 0; k < SUB; k++)
          if (r < rows) panel[k * stride + r] = value[i][k];
      }
    }
    __syncthreads();
    for (int e = t; e < w * w; e += blockDim.x) x[(p + e / w) * n + p + e % w] = upper[e / w][e % w];
    #pragma unroll 4
    for (int e = q * SUB + t; e < rows * SUB; e += blockDim.x) {
      const int r = e / SUB, k = e % SUB;
      if (k < w) x[r * n + p + k] = panel[k * stride + r];
    }
    // The same exchanges in the panel's other columns.
    if (warp == 0) {
      const ft_moves m = ft_exchanged(chosen + p, p, w);
      if (lane < SUB) {
        moved[lane] = lane < w ? p + lane : -1;
        moved[SUB + lane] = m.to;
        sources[lane] = m.own;
        sources[SUB + lane] = m.from;
      }
    }
    __syncthreads();
    const bool is_other = lane < width && (lane < p || lane >= q);
    // Each warp moves the same places before and behind the barrier.
    T kept[2 * SUB];
    #pragma unroll
    for (int i = 0; i < 2 * SUB; i++)
      kept[i] = i % warps == warp && is_other && moved[i] >= 0 ? x[sources[i] * n + lane] : (T)0;
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 2 * SUB; i++)
      if (i % warps == warp && is_other && moved[i] >= 0) x[moved[i] * n + lane] = kept[i];
    __syncthreads();
    // The rows of U behind.
    if (warp == 0 && lane >= q && lane < width) {
      T u[SUB];
      #pragma unroll
      for (int i = 0; i < SUB; i++) u[i] = i < w ? x[(p + i) * n + lane] : (T)0;
      #pragma unroll
      for (int i = 0; i < SUB; i++) {
        #pragma unroll
        for (int k = 0; k < i; k++) u[i] = fma(-upper[i][k], u[k], u[i]);
        above[i][lane] = u[i];
        if (i < w) x[(p + i) * n + lane] = u[i];
      }
    }
    __syncthreads();
    if (q == width) break;
    if (lane >= q && lane < width) {
      T u[SUB];
      #pragma unroll
      for (int k = 0; k < SUB; k++) u[k] = k < w ? above[k][lane] : (T)0;
      for (int first = q + warp * SIDE_BY_SIDE; first < rows; first += SIDE_BY_SIDE * warps) {
        T *to = x + first * n + lane, value[SIDE_BY_SIDE];
        const int count = rows - first;
        #pragma unroll
        for (int i = 0; i < SIDE_BY_SIDE; i++) value[i] = i < count ? to[i * n] : (T)0;
        // Rows behind the last have places in shared memory too.
        #pragma unroll
        for (int k = 0; k < SUB; k++) {
          #pragma unroll
          for (int i = 0; i < SIDE_BY_SIDE; i++) value[i] = fma(-panel[k * stride + first + i], u[k], value[i]);
        }
        #pragma unroll
        for (int i = 0; i < SIDE_BY_SIDE; i++)
          if (i < count) to[i * n] = value[i];
      }
    }
    __syncthreads();
  }
  if (warp > 0) return;
  const ft_moves m = ft_exchanged(chosen, 0, width);
  const int start = (int)a.start, own = m.own, to = m.to, from = m.from;
  int *moves = a.moves + blockIdx.x * 3 * NB;
  moves[lane] = start + own;
  moves[NB + lane] = to < 0 ? -1 : start + to;
  moves[2 * NB + lane] = start + from;
  const T number = lane < width ? order[start + own] : (T)0, further = to < 0 ? (T)0 : order[start + from];
  __syncwarp();
  if (lane < width) {
    order[start + lane] = number;
    exchanged[start + lane] = (T)(start + chosen[lane]);
  }
  if (to >= 0) order[start + to] = further;
}
