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

// The threads of the warp that are live and have the same digit of 8 bits.
static __device__ __forceinline__ unsigned ft_same(unsigned digit, bool live) {
  unsigned same = __ballot_sync(~0u, live);
  #pragma unroll
  for (int b = 0; b < 8; b++) {
    const bool set = digit >> b & 1;
    const unsigned all = __ballot_sync(~0u, set);
    same &= set ? all : ~all;
  }
  return same;
}
