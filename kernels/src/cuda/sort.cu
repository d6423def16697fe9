// Positions that sort rows, stable. Before this text stand: E, an element's bits; K, a key's type; BITS of a key;
// KIND, 0 for unsigned integers, 1 for signed, 2 for floats; INFINITE, the bits of a float's infinity.

// An unsigned integer of the element's order. Equal elements have equal keys: -0 that of 0, every NaN the greatest.
static __device__ __forceinline__ K ft_key(E bits, K flip) {
  const K sign = (K)1 << (BITS - 1), all = sign | (sign - 1);
  K x = bits;
#if KIND == 1
  x ^= sign;
#elif KIND == 2
  const K magnitude = x & ~sign;
  x = magnitude > INFINITE ? all : x != magnitude && magnitude ? all ^ x : magnitude | sign;
#endif
  return (x ^ flip) & all;
}
