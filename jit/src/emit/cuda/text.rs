//! The text that every kernel begins with.

/// Index arithmetic, fault reports, and accesses of whole chunks; indices have 32 bits where `narrow`.
pub(super) fn helpers(narrow: bool) -> String {
    let int = if narrow { "int" } else { "long long" };
    format!("typedef {int} ft_int;\n{HELPERS}")
}

/// `ft_index` wraps an index once, reports it if it is out of range, and gives one that is in range. `ft_divide` divides
/// by a row's number whose reciprocal is known: by multiplication where both are normal. `ft_load` and `ft_store` use accesses of up to 16 bytes where the chunk is whole and its address allows them.
const HELPERS: &str = "\
FT_INLINE ft_int ft_least(ft_int a, ft_int b) { return a < b ? a : b; }
FT_INLINE ft_int ft_most(ft_int a, ft_int b) { return a > b ? a : b; }
FT_INLINE ft_int ft_floor_div(ft_int a, ft_int b) { return a / b - (a % b < 0); }
FT_INLINE ft_int ft_floor_mod(ft_int a, ft_int b) { ft_int r = a % b; return r < 0 ? r + b : r; }
FT_INLINE long long ft_index(long long *fault, long long i, long long size, long long site) {
  const long long at = i < 0 ? i + size : i;
  if (at >= 0 && at < size) return at;
  if (atomicCAS_system((unsigned long long *)fault, 0ULL, (unsigned long long)site) == 0ULL) {
    ((volatile long long *)fault)[1] = i;
    __threadfence_system();
  }
  return 0;
}
FT_INLINE bool ft_normal(float x) { const int e = __float_as_int(x) >> 23 & 255; return e != 0 && e != 255; }
FT_INLINE bool ft_normal(double x) {
  const int e = (int)(__double_as_longlong(x) >> 52) & 2047;
  return e != 0 && e != 2047;
}
template <typename T> FT_INLINE T ft_divide(T a, T b, T r) { return ft_normal(b) && ft_normal(r) ? a * r : a / b; }
template <int N> struct ft_word;
template <> struct ft_word<1> { typedef unsigned char type; };
template <> struct ft_word<2> { typedef unsigned short type; };
template <> struct ft_word<4> { typedef unsigned type; };
template <> struct ft_word<8> { typedef uint2 type; };
template <> struct ft_word<16> { typedef uint4 type; };
template <typename T, int V> FT_INLINE void ft_load(T (&g)[V], const T *p, int m) {
  constexpr int bytes = sizeof(T) * V < 16 ? sizeof(T) * V : 16;
  typedef typename ft_word<bytes>::type W;
  if (m == V && ((unsigned long long)p & (bytes - 1)) == 0) {
    #pragma unroll
    for (int k = 0; k < (int)(sizeof(T) * V / bytes); k++) ((W *)g)[k] = ((const W *)p)[k];
  } else {
    #pragma unroll
    for (int l = 0; l < V; l++) g[l] = l < m ? p[l] : T();
  }
}
template <typename T, int V> FT_INLINE void ft_store(T *p, const T (&g)[V], int m) {
  constexpr int bytes = sizeof(T) * V < 16 ? sizeof(T) * V : 16;
  typedef typename ft_word<bytes>::type W;
  if (m == V && ((unsigned long long)p & (bytes - 1)) == 0) {
    #pragma unroll
    for (int k = 0; k < (int)(sizeof(T) * V / bytes); k++) ((W *)p)[k] = ((const W *)g)[k];
  } else {
    #pragma unroll
    for (int l = 0; l < V; l++) if (l < m) p[l] = g[l];
  }
}
";
