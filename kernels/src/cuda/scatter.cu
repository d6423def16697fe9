// Rows of a source meet rows of a matrix. `order` sorts `places`, stably: what meets at one place stands side by side, in
// the order of the source, and one thread a column takes it up one after the other. Before this text stand: T, the
// elements' type; U, an unsigned integer of the size; MODE, 0 assign, 1 sum, 2 product, 3 greatest, 4 least, 5 mean;
// FLOAT, whether T is one; LOWEST and HIGHEST.

struct FT_SYMBOL_args {
  T *out;
  const T *src;
  const long long *order, *places;
  long long rows, width, include;
  char *scratch;
  long long *fault;
};

static __device__ __forceinline__ T ft_add(T a, T b) {
#if FLOAT
  return a + b;
#else
  return (T)((U)a + (U)b);
#endif
}

static __device__ __forceinline__ T ft_meet(T a, T b) {
#if MODE == 1 || MODE == 5
  return ft_add(a, b);
#elif MODE == 2 && FLOAT
  return a * b;
#elif MODE == 2
  return (T)((unsigned long long)(U)a * (unsigned long long)(U)b);
#elif MODE == 3
  return a > b || a != a ? a : b;
#elif MODE == 4
  return a < b || a != a ? a : b;
#else
  return b;
#endif
}

static __device__ __forceinline__ T ft_mean(T sum, long long n) {
#if FLOAT
  return sum / (T)n;
#else
  const long long s = (long long)sum, q = s / n;
  return (T)(s % n < 0 ? q - 1 : q);
#endif
}

#define BATCH 8

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const long long g = (long long)blockIdx.x * 256 + threadIdx.x;
  if (g >= a.rows * a.width) return;
  const long long j = g / a.width, c = g % a.width;
  const long long first = a.order[j], place = a.places[first];
  T *out = a.out + place * a.width + c;
#if MODE == 0
  // The last one stays.
  if (j + 1 < a.rows && a.places[a.order[j + 1]] == place) return;
  *out = a.src[first * a.width + c];
#else
  if (j > 0 && a.places[a.order[j - 1]] == place) return;
  T value;
  if (a.include) value = *out;
  else {
#if MODE == 2
    value = (T)1;
#elif MODE == 3
    value = LOWEST;
#elif MODE == 4
    value = HIGHEST;
#else
    value = (T)0;
#endif
  }
  long long k = j + 1;
  bool same = true;
  value = ft_meet(value, a.src[first * a.width + c]);
  // Most places are met a few times. Of others several elements are asked for before the first is waited for.
  while (k < a.rows && k < j + BATCH) {
    const long long at = a.order[k];
    same = a.places[at] == place;
    if (!same) break;
    value = ft_meet(value, a.src[at * a.width + c]);
    k++;
  }
  while (same && k < a.rows) {
    T next[BATCH];
    bool here[BATCH];
    #pragma unroll
    for (int b = 0; b < BATCH; b++) {
      const bool inside = k + b < a.rows;
      const long long at = inside ? a.order[k + b] : first;
      here[b] = inside && a.places[at] == place;
      next[b] = a.src[at * a.width + c];
    }
    int taken = 0;
    #pragma unroll
    for (int b = 0; b < BATCH; b++) {
      same = same && here[b];
      if (same) {
        value = ft_meet(value, next[b]);
        taken++;
      }
    }
    k += taken;
  }
#if MODE == 5
  const long long n = k - j + (a.include ? 1 : 0);
  if (n > 1) value = ft_mean(value, n);
#endif
  *out = value;
#endif
}
