// Loads by the copy engine of Hopper (TMA): barriers that loads complete, rings of stages, tensor maps, and boxes.

// Barriers in shared memory (mbarrier), which count arrivals of threads and bytes that were loaded.
FT_INLINE void ft_barrier_init(unsigned at, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(arrivals) : "memory"); }
FT_INLINE void ft_barrier_arrive(unsigned at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory"); }
FT_INLINE void ft_barrier_expect(unsigned at, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(bytes) : "memory"); }
FT_INLINE void ft_barrier_wait(unsigned at, int phase) {
  int done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "r"(phase) : "memory");
  } while (!done);
}

// A stage in a ring of S stages, and the parity of the round, which waits for its barriers take.
template <int S> struct ft_ring {
  int stage = 0, phase = 0;
  __device__ __forceinline__ void next() {
    if (++stage == S) stage = 0, phase ^= 1;
  }
};

// Writes the tensor map of a batch of matrices to `map`; a warp does so, with 128 bytes of shared memory at `at`. Lines
// have `length` elements; a box has 64 elements of each of R lines.
template <bool B, int R, int N>
FT_INLINE void ft_write_tensor_map(void *map, unsigned at, const unsigned short *data, int length, int lines, long long line, const int (&batch)[N + 1], const long long (&step)[N + 1]) {
  asm volatile("st.shared.b32 [%0], %1;" :: "r"(at + 4 * (threadIdx.x & 31)), "r"(0) : "memory");
  __syncwarp();
  if ((threadIdx.x & 31) == 0) {
    #define FT_AT(n, elements, distance, box) \
      asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], " n ", %1;" :: "r"(at), "r"(box) : "memory"); \
      asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], " n ", %1;" :: "r"(at), "r"(elements) : "memory"); \
      asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], " n ", %1;" :: "r"(at), "r"(1) : "memory"); \
      distance
    #define FT_STRIDE(n, bytes) asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], " n ", %1;" :: "r"(at), "l"(bytes) : "memory")
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "r"(at), "l"(data) : "memory");
    asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], %1;" :: "r"(at), "n"(N + 1) : "memory");
    FT_AT("0", length, , 64);
    FT_AT("1", lines, FT_STRIDE("0", line * 2), R);
    // A dimension of the batch along which the matrix is broadcast has extent 1.
    if constexpr (N > 0) { FT_AT("2", step[0] ? batch[0] : 1, FT_STRIDE("1", step[0] ? step[0] * 2 : 16ll), 1); }
    if constexpr (N > 1) { FT_AT("3", step[1] ? batch[1] : 1, FT_STRIDE("2", step[1] ? step[1] * 2 : 16ll), 1); }
    if constexpr (N > 2) { FT_AT("4", step[2] ? batch[2] : 1, FT_STRIDE("3", step[2] ? step[2] * 2 : 16ll), 1); }
    if (B) asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 0xa;" :: "r"(at) : "memory");
    else asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 0x6;" :: "r"(at) : "memory");
    asm volatile("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0x0;" :: "r"(at) : "memory");
    asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 0x3;" :: "r"(at) : "memory");
    asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0x0;" :: "r"(at) : "memory");
  }
  __syncwarp();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 0x80;" :: "l"(map), "r"(at) : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 0x80;" :: "l"(map) : "memory");
  __syncwarp();
}

// Starts the load of a box, at element x of line y of matrix i, into shared memory; `barrier` counts its bytes.
template <int N> FT_INLINE void ft_load_box(unsigned to, const void *map, unsigned barrier, int x, int y, const int (&i)[N + 1]) {
  if constexpr (N == 0) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" :: "r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y) : "memory");
  if constexpr (N == 1) asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" :: "r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(i[0]) : "memory");
  if constexpr (N == 2) asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" :: "r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(i[0]), "r"(i[1]) : "memory");
  if constexpr (N == 3) asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" :: "r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(i[0]), "r"(i[1]), "r"(i[2]) : "memory");
}
