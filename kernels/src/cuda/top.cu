// The first k of each piece of each row in the order of keys, and of positions where keys are equal, by radix select: digit by
// digit, from the highest of the key to the lowest of the position, it is found which one the k-th element has. That
// ends when those not behind it fit in shared memory, which all do that are left after the last digit. They are
// sorted there. A row is one piece or its pieces give the row of a next run.

struct FT_SYMBOL_args {
  const E *x;
  // Of an earlier run.
  const K *keys;
  const unsigned *from;
  // For a later run.
  K *chosen;
  unsigned *at;
  // Of the last.
  long long *out;
  // `width`: bits of a position.
  long long n, k, pieces, first, last, width, flip;
  char *scratch;
  long long *fault;
};

#define ROOM 2048
#define DIGIT 11
#define AHEAD 8

// The elements from `low` on, to before `high`: `f` of a key and its position.
template <typename F> static __device__ __forceinline__ void
ft_each(const FT_SYMBOL_args &a, long long row, unsigned low, unsigned high, F f) {
  const unsigned threads = blockDim.x;
  if (a.first) {
    const E *x = a.x + row;
    #pragma unroll 1
    for (long long i = low + threadIdx.x; i < high; i += threads * AHEAD) {
      E own[AHEAD];
      #pragma unroll
      for (int e = 0; e < AHEAD; e++) if (i + e * threads < high) own[e] = x[i + e * threads];
      #pragma unroll
      for (int e = 0; e < AHEAD; e++) if (i + e * threads < high) f(ft_key(own[e], (K)a.flip), (unsigned)(i + e * threads));
    }
  } else {
    for (long long i = row + low + threadIdx.x; i < row + high; i += threads) f(a.keys[i], a.from[i]);
  }
}

extern "C" __global__ void __launch_bounds__(1024) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ unsigned found[1 << DIGIT];
  __shared__ unsigned sums[32];
  __shared__ unsigned picked[3];
  __shared__ unsigned count;
  __shared__ K keys[ROOM];
  __shared__ unsigned at[ROOM];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5, threads = blockDim.x, each = (1 << DIGIT) / threads;
  const long long row = blockIdx.x / a.pieces, piece = blockIdx.x - row * a.pieces;
  const unsigned low = (unsigned)(a.n * piece / a.pieces), high = (unsigned)(a.n * (piece + 1) / a.pieces);
  // The k-th has these digits of its key and position; so many are before all of those that have, and so many have.
  K key = 0, mask = 0;
  unsigned place = 0, cover = 0, before = 0, having = high - low;
  int shift = BITS, behind = (int)a.width;
  while (before + having > ROOM) {
    const bool of_key = shift > 0;
    const int bits = min(DIGIT, of_key ? shift : behind);
    if (of_key) shift -= bits;
    else behind -= bits;
    const unsigned digits = (1u << bits) - 1;
    for (int i = t; i < 1 << DIGIT; i += threads) found[i] = 0;
    __syncthreads();
    ft_each(a, row * a.n, low, high, [&](K x, unsigned i) {
      if ((x & mask) == key && (i & cover) == place)
        atomicAdd(&found[(of_key ? (unsigned)(x >> shift) : i >> behind) & digits], 1u);
    });
    __syncthreads();
    unsigned own = 0;
    for (int d = 0; d < each; d++) own += found[t * each + d];
    unsigned sum = ft_up_to(own);
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; w++) sum += sums[w];
    const unsigned rank = (unsigned)a.k - before;
    if (sum >= rank && sum - own < rank) {
      sum -= own;
      int d = t * each;
      while (sum + found[d] < rank) sum += found[d++];
      picked[0] = d;
      picked[1] = sum;
      picked[2] = found[d];
    }
    __syncthreads();
    if (of_key) {
      key |= (K)picked[0] << shift;
      mask |= (K)digits << shift;
    } else {
      place |= picked[0] << behind;
      cover |= digits << behind;
    }
    before += picked[1];
    having = picked[2];
  }
  const int size = (int)(before + having);
  int padded = 2;
  while (padded < size) padded *= 2;
  if (t == 0) count = 0;
  for (int i = size + t; i < padded; i += threads) {
    keys[i] = ~(K)0;
    at[i] = ~0u;
  }
  __syncthreads();
  ft_each(a, row * a.n, low, high, [&](K x, unsigned i) {
    const K own = x & mask;
    if (own > key || (own == key && (i & cover) > place)) return;
    const unsigned to = atomicAdd(&count, 1u);
    keys[to] = x;
    at[to] = i;
  });
  __syncthreads();
  ft_network(keys, at, padded);
  for (int i = t; i < (int)a.k; i += threads) {
    const long long to = blockIdx.x * a.k + i;
    if (a.last) a.out[to] = at[i];
    else {
      a.chosen[to] = keys[i];
      a.at[to] = at[i];
    }
  }
}
