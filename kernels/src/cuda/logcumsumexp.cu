// Running log sum exp of rows, a block each, in tiles: the greatest so far and the sum of exp(x - greatest), in binary64.
// Before this text stands T, the elements' type.

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
  if (a.most == b.most) return {a.most, a.sum + b.sum};
  if (b.most > a.most) return {b.most, a.sum * exp(a.most - b.most) + b.sum};
  return {a.most, a.sum + b.sum * exp(b.most - a.most)};
}

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ ft_state warps[8];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const long long row = (long long)blockIdx.x * a.n;
  const ft_state none = {-__longlong_as_double(0x7ff0000000000000ll), 0.0};
  ft_state before = none;
  for (long long base = 0; base < a.n; base += 256) {
    ft_state own = none;
    if (base + t < a.n) own = {(double)a.x[row + base + t], 1.0};
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const ft_state other = {__shfl_up_sync(~0u, own.most, d), __shfl_up_sync(~0u, own.sum, d)};
      if (lane >= d) own = ft_join(other, own);
    }
    if (lane == 31) warps[warp] = own;
    __syncthreads();
    ft_state all = before;
    for (int w = 0; w < 8; w++) {
      if (w == warp) own = ft_join(all, own);
      all = ft_join(all, warps[w]);
    }
    if (base + t < a.n) a.out[row + base + t] = (T)(own.most + log(own.sum));
    before = all;
    __syncthreads();
  }
}
