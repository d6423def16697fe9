// How elements meet, and which of them. Before this text stand: T, the elements' type; A, the type they meet in (binary64 for sums of binary32,
// which then err by one rounding however many meet); U, an unsigned integer of T's size; MODE, 0 assign, 1 sum,
// 2 product, 3 greatest, 4 least, 5 mean; FLOAT, whether T is one; LOWEST and HIGHEST; K and P, unsigned and signed
// integers of a place's size.
//
// `order` sorts the places of a source's rows, stably, to `keys`: what meets at one place stands side by side, in the order of the
// source. The order is cut into pieces. A place's elements belong to the piece that its first one is in, also behind that
// piece's end, unless they reach past the `reach` pieces behind it. Then each piece puts aside what its own elements give, at
// twice its number those of a place that starts before it and behind that those of one that starts in it, and
// finish.cu takes them up, piece by piece. All of this depends on sizes and sorted places alone.

static __device__ __forceinline__ A ft_add(A a, A b) {
#if FLOAT
  return a + b;
#else
  return (A)((U)a + (U)b);
#endif
}

static __device__ __forceinline__ A ft_meet(A a, A b) {
#if MODE == 1 || MODE == 5
  return ft_add(a, b);
#elif MODE == 2 && FLOAT
  return a * b;
#elif MODE == 2
  return (A)((unsigned long long)(U)a * (unsigned long long)(U)b);
#elif MODE == 3
  return a > b || a != a ? a : b;
#elif MODE == 4
  return a < b || a != a ? a : b;
#else
  return b;
#endif
}

static __device__ __forceinline__ A ft_none() {
#if MODE == 2
  return (A)1;
#elif MODE == 3
  return LOWEST;
#elif MODE == 4
  return HIGHEST;
#else
  return (A)0;
#endif
}

static __device__ __forceinline__ A ft_mean(A sum, long long n) {
#if FLOAT
  return sum / (A)n;
#else
  const long long s = (long long)sum, q = s / n;
  return (A)(s % n < 0 ? q - 1 : q);
#endif
}


// Whether the place whose element `at` is one, if there is such an element, is this one.
static __device__ __forceinline__ bool ft_holds(const P *keys, long long rows, long long at, P key) {
  return at < rows && keys[at] == key;
}
