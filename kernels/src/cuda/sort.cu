// Keys of elements. Before this text stand: E, an element's bits; K, a key's type; BITS of a key; KIND, 0 for unsigned
// integers, 1 for signed, 2 for floats; INFINITE, the bits of a float's infinity.

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

// The integer of such bits that a key stands for, of keys that are not turned round.
static __device__ __forceinline__ K ft_element(K key) {
#if KIND == 1
  key ^= (K)1 << (BITS - 1);
#endif
  return key;
}

// The threads of the warp that have the same digit of 8 bits.
static __device__ __forceinline__ unsigned ft_same(unsigned digit) {
  unsigned same = ~0u;
  #pragma unroll
  for (int b = 0; b < 8; b++) {
    asm("{\n\t.reg .pred p;\n\t.reg .b32 x, y;\n\tand.b32 x, %1, %2;\n\tsetp.ne.u32 p, x, 0;\n\t"
        "vote.sync.ballot.b32 x, p, 0xffffffff;\n\tselp.b32 y, 0, 0xffffffff, p;\n\tlop3.b32 %0, %0, x, y, 0x60;\n\t}"
        : "+r"(same) : "r"(digit), "r"(1u << b));
  }
  return same;
}

// Ranks of the warp's elements among those of the same digit, in the order of `e` and then of the lanes; `found` counts
// the warp's digits, from what it held before.
template <int N, typename C> static __device__ __forceinline__ void
ft_rank(const K (&keys)[N], unsigned (&ranks)[N], C *found, int shift, unsigned mask) {
  const unsigned below = (1u << (threadIdx.x & 31)) - 1;
  #pragma unroll
  for (int e = 0; e < N; e++) {
    const unsigned digit = (unsigned)(keys[e] >> shift) & mask;
    const unsigned same = ft_same(digit), before = __popc(same & below), old = found[digit];
    __syncwarp();
    if (before == 0) found[digit] = (C)(old + __popc(same));
    __syncwarp();
    ranks[e] = old + before;
  }
}

// The sum of the warp's numbers up to and with this lane's.
template <typename S> static __device__ __forceinline__ S ft_up_to(S sum) {
  const int lane = threadIdx.x & 31;
  #pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const S other = __shfl_up_sync(~0u, sum, d);
    if (lane >= d) sum += other;
  }
  return sum;
}
