// Running log sum exp of rows, a block each, in tiles: the greatest so far and the sum of exp(x - greatest), in binary64.
// A thread folds 8 elements that follow each other, warps and the block join the folds, then the thread goes through its
// elements behind what is before them. Before this text stands T, the elements' type.

struct FT_SYMBOL_args {
  const T *x;
  T *out;
  long long n;
  char *scratch;
  long long *fault;
};

struct ft_state {
  double most, sum;
};

// Equal infinities add their counts: their difference would be NaN. Where either is NaN, the sum is from there on.
static __device__ __forceinline__ ft_state ft_join(ft_state a, ft_state b) {
  const bool up = b.most > a.most;
  const double most = up ? b.most : a.most, least = up ? a.most : b.most;
  const double by = a.most == b.most ? 1.0 : exp(least - most);
  return {most, up ? a.sum * by + b.sum : a.sum + b.sum * by};
}

static __device__ __forceinline__ ft_state ft_up(ft_state a, int d) {
  return {__shfl_up_sync(~0u, a.most, d), __shfl_up_sync(~0u, a.sum, d)};
}

static __device__ __forceinline__ ft_state ft_of(ft_state a, int lane) {
  return {__shfl_sync(~0u, a.most, lane), __shfl_sync(~0u, a.sum, lane)};
}

constexpr int THREADS = 256, WARPS = THREADS / 32, EACH = 8, TILE = THREADS * EACH;

// Where an element of a tile lies: threads that take 8 in a row are to meet different banks.
static __device__ __forceinline__ int ft_at(int i) { return i + i / EACH; }

extern "C" __global__ void __launch_bounds__(THREADS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ T tile[TILE + THREADS];
  __shared__ ft_state warps[WARPS];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const T *x = a.x + (long long)blockIdx.x * a.n;
  T *out = a.out + (long long)blockIdx.x * a.n;
  const double lowest = -__longlong_as_double(0x7ff0000000000000ll);
  const ft_state none = {lowest, 0.0};
  ft_state before = none;
  for (long long base = 0; base < a.n; base += TILE) {
    const int n = a.n - base < TILE ? (int)(a.n - base) : TILE;
    #pragma unroll
    for (int k = 0; k < EACH; k++) {
      const int i = t + k * THREADS;
      if (i < n) tile[ft_at(i)] = x[base + i];
    }
    __syncthreads();
    const int mine = n - t * EACH;
    T e[EACH];
    double most = lowest;
    #pragma unroll
    for (int k = 0; k < EACH; k++) {
      e[k] = k < mine ? tile[ft_at(t * EACH + k)] : (T)lowest;
      most = e[k] > most ? (double)e[k] : most;
    }
    ft_state own = {most, 0.0};
    #pragma unroll
    for (int k = 0; k < EACH; k++)
      if (k < mine) own.sum += (double)e[k] == most ? 1.0 : exp((double)e[k] - most);
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const ft_state other = ft_up(own, d);
      if (lane >= d) own = ft_join(other, own);
    }
    if (lane == 31) warps[warp] = own;
    __syncthreads();
    ft_state all = lane < WARPS ? warps[lane] : none;
    #pragma unroll
    for (int d = 1; d < WARPS; d *= 2) {
      const ft_state other = ft_up(all, d);
      if (lane >= d) all = ft_join(other, all);
    }
    ft_state here = before;
    const ft_state left = ft_of(all, warp > 0 ? warp - 1 : 0), up = ft_up(own, 1);
    if (warp > 0) here = ft_join(here, left);
    if (lane > 0) here = ft_join(here, up);
    before = ft_join(before, ft_of(all, WARPS - 1));
    #pragma unroll
    for (int k = 0; k < EACH; k++) {
      if (k >= mine) break;
      here = ft_join(here, {(double)e[k], 1.0});
      tile[ft_at(t * EACH + k)] = (T)(here.most + log(here.sum));
    }
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < EACH; k++) {
      const int i = t + k * THREADS;
      if (i < n) out[base + i] = tile[ft_at(i)];
    }
  }
}
