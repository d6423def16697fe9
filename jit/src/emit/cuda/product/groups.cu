// Products by warp groups (Hopper): two groups of four warps multiply tiles of 128 rows and W columns, 64 rows each. Of a
// third group, one warp loads panels by the copy engine into a ring of stages, and three warps apply what follows the
// product to the tile before, which is rounded, while the next one is computed. The groups that multiply help them where
// there are few terms, and with a block's last tile. Block b has the tiles b, b + gridDim.x, ..
//
// KA, KB: the terms of a row of the left matrix, of a column of the right one, are contiguous.

// c += a b, of 64 rows, W columns and 16 terms.
template <bool B, bool KA, bool KB> FT_INLINE void ft_multiply(float (&c)[16][4], unsigned long long a, unsigned long long b) {
  if (B) asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" FT_NAMES_2 "}, %64, %65, p, 1, 1, %67, %68; }" : FT_SUMS_2(c) : "l"(a), "l"(b), "r"(1), "n"(KA ? 0 : 1), "n"(KB ? 0 : 1));
  else asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" FT_NAMES_2 "}, %64, %65, p, 1, 1, %67, %68; }" : FT_SUMS_2(c) : "l"(a), "l"(b), "r"(1), "n"(KA ? 0 : 1), "n"(KB ? 0 : 1));
}
template <bool B, bool KA, bool KB> FT_INLINE void ft_multiply(float (&c)[32][4], unsigned long long a, unsigned long long b) {
  if (B) asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" FT_NAMES_4 "}, %128, %129, p, 1, 1, %131, %132; }" : FT_SUMS_4(c) : "l"(a), "l"(b), "r"(1), "n"(KA ? 0 : 1), "n"(KB ? 0 : 1));
  else asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" FT_NAMES_4 "}, %128, %129, p, 1, 1, %131, %132; }" : FT_SUMS_4(c) : "l"(a), "l"(b), "r"(1), "n"(KA ? 0 : 1), "n"(KB ? 0 : 1));
}

// Loads the panels of all tiles of a block by the copy engine; one thread does so. All blocks have `count` tiles together.
template <bool KA, bool KB, int W, int S, int N>
FT_INLINE void ft_load_panels(const ft_product<N> &t, int count, const void *a_map, const void *b_map, unsigned tiles, unsigned full, unsigned empty) {
  constexpr int a_bytes = 128 * 64 * 2, bytes = a_bytes + W * 64 * 2;
  const int steps = (t.k + 63) / 64;
  ft_ring<S> ring;
  #pragma unroll 1
  for (int tile = blockIdx.x; tile < count; tile += gridDim.x) {
    const ft_place at = ft_tile(tile, t.rows, t.columns);
    const int row = at.row * 128, column = at.column * W;
    int rest = at.matrix, i[N + 1], j[N + 1];
    #pragma unroll
    for (int d = N - 1; d >= 0; d--) {
      const int x = rest % t.batch[d];
      rest /= t.batch[d];
      i[d] = t.a_step[d] ? x : 0;
      j[d] = t.b_step[d] ? x : 0;
    }
    #pragma unroll 1
    for (int k = 0; k < steps * 64; k += 64) {
      ft_barrier_wait(empty + 8 * ring.stage, ring.phase ^ 1);
      const unsigned barrier = full + 8 * ring.stage, to = tiles + ring.stage * bytes;
      ft_barrier_expect(barrier, bytes);
      if constexpr (KA) {
        ft_load_box<N>(to, a_map, barrier, k, row, i);
      } else {
        #pragma unroll
        for (int p = 0; p < 2; p++) ft_load_box<N>(to + p * 8192, a_map, barrier, row + 64 * p, k, i);
      }
      if constexpr (KB) {
        ft_load_box<N>(to + a_bytes, b_map, barrier, k, column, j);
      } else {
        #pragma unroll
        for (int p = 0; p < W / 64; p++) ft_load_box<N>(to + a_bytes + p * 8192, b_map, barrier, column + 64 * p, k, j);
      }
      ring.next();
    }
  }
}

// Calls `after` with chunk `c` of the rows r, r + step, .. before `end` of a finished tile, once the barrier `held` says that
// it is finished. Other operands are loaded U rows ahead.
template <bool B, int W, int U, int N, typename After>
FT_INLINE void ft_apply_after(const ft_product<N> &t, int tile, const unsigned short *done, unsigned held, int phase, int c, int r, int step, int end, const After &after) {
  const ft_place at = ft_tile(tile, t.rows, t.columns);
  const int chunk = at.column * (W / 8) + c, rows = chunk * 8 < t.n ? min(end, t.m - at.row * 128) : 0;
  const long long first = (long long)at.matrix * t.m + at.row * 128;
  typename After::ahead x[U];
  #pragma unroll
  for (int u = 0; u < U; u++)
    if (r + u * step < rows) after.load(first + r + u * step, chunk, x[u]);
  ft_barrier_wait(held, phase);
  #pragma unroll 1
  for (; r < rows; r += U * step) {
    #pragma unroll
    for (int u = 0; u < U; u++) {
      const int row = r + u * step;
      if (row >= rows) break;
      const uint4 packed = *(const uint4 *)(done + c / 8 * (128 * 64) + ft_chunk(row, c % 8));
      const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
      float p[8];
      #pragma unroll
      for (int l = 0; l < 8; l++) p[l] = ft_half<B>::widen((unsigned short)(words[l / 2] >> l % 2 * 16));
      after(first + row, chunk, p, x[u]);
      if (row + U * step < rows) after.load(first + row + U * step, chunk, x[u]);
    }
  }
}

// Copies a tile's panels element by element, from matrices that the copy engine does not take; a group of warps does so.
template <bool B, bool KA, bool KB, int W, int S, int N>
FT_INLINE void ft_copy_panels(const ft_product<N> &t, int tile, unsigned short *tiles, unsigned full, unsigned empty, ft_ring<S> &ring) {
  constexpr int a_size = 128 * 64, size = a_size + W * 64;
  const int steps = (t.k + 63) / 64, thread = threadIdx.x % 128;
  const ft_place at = ft_tile(tile, t.rows, t.columns);
  const int row = at.row * 128, column = at.column * W;
  int rest = at.matrix;
  const unsigned short *a = t.a, *b = t.b;
  #pragma unroll
  for (int d = N - 1; d >= 0; d--) {
    const int x = rest % t.batch[d];
    rest /= t.batch[d];
    a += x * t.a_step[d];
    b += x * t.b_step[d];
  }
  #pragma unroll 1
  for (int k = 0; k < steps * 64; k += 64) {
    ft_barrier_wait(empty + 8 * ring.stage, ring.phase ^ 1);
    unsigned short *const x = tiles + ring.stage * size, *const y = x + a_size;
    if constexpr (KA) ft_fill_by_elements<128, 1, 128>(x, a, t.a_line, row, t.m, k, t.k, thread);
    else ft_fill_by_elements<64, 2, 128>(x, a, t.a_line, k, t.k, row, t.m, thread);
    if constexpr (KB) ft_fill_by_elements<W, 1, 128>(y, b, t.b_line, column, t.n, k, t.k, thread);
    else ft_fill_by_elements<64, W / 64, 128>(y, b, t.b_line, k, t.k, column, t.n, thread);
    // A fence lets the matrix units see what each thread wrote; then the barrier counts the stage as full.
    ft_group<B>::seen();
    asm volatile("bar.sync 1, 128;" ::: "memory");
    if (thread == 0) ft_barrier_arrive(full + 8 * ring.stage);
    ring.next();
  }
}

// Multiplies a tile's panels as they arrive, and stores the rounded tile over the one before.
template <bool B, bool KA, bool KB, int W, int S>
FT_INLINE void ft_multiply_panels(int steps, unsigned short *tiles, unsigned full, unsigned empty, unsigned taken, int phase, ft_ring<S> &ring) {
  typedef ft_group<B> G;
  constexpr int a_size = 128 * 64, size = a_size + W * 64;
  unsigned short *const done = tiles + S * size;
  const int group = threadIdx.x >> 7, lane = threadIdx.x & 31;
  float c[W / 8][4] = {};
  int before = 0;
  for (int step = 0; step < steps; step++) {
    ft_barrier_wait(full + 8 * ring.stage, ring.phase);
    const unsigned short *const x = tiles + ring.stage * size, *const y = x + a_size;
    const unsigned long long left = G::panel(x + group * 4096), right = G::template panel<512>(y);
    G::fence();
    #pragma unroll
    for (int k = 0; k < 4; k++) ft_multiply<B, KA, KB>(c, left + k * (KA ? 2 : 128), right + k * (KB ? 2 : 128));
    G::commit();
    // The products of the step before are done: its stage is free.
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (step > 0 && lane == 0) ft_barrier_arrive(empty + 8 * before);
    before = ring.stage;
    ring.next();
  }
  G::template wait<0>(c);
  if (lane == 0) ft_barrier_arrive(empty + 8 * before);
  // Wait until `after` has been applied to the tile before.
  ft_barrier_wait(taken, phase ^ 1);
  const int row = (threadIdx.x >> 5) * 16 + (lane >> 2);
  #pragma unroll
  for (int j = 0; j < W / 8; j++)
    #pragma unroll
    for (int h = 0; h < 2; h++) {
      unsigned short *const to = done + j / 8 * (128 * 64) + ft_chunk(row + 8 * h, j % 8) + (lane & 3) * 2;
      *(unsigned *)to = ft_half<B>::pair(c[j][2 * h], c[j][2 * h + 1]);
    }
}

// Computes `count` tiles. `maps` has room for two tensor maps a block.
template <bool B, bool KA, bool KB, int W, int S, int U, int N, typename After>
FT_INLINE void ft_by_groups(const ft_product<N> &t, int count, char *maps, const After &after) {
  extern __shared__ __align__(1024) unsigned char ft_tiles[];
  unsigned short *const tiles = (unsigned short *)ft_tiles, *const done = tiles + S * (128 + W) * 64;
  // Shared memory holds the stages, a finished tile, a tensor map while it is written, and barriers: for each stage that it
  // is full and that it is empty, and for the tile that it is finished and that `after` has been applied to it.
  const unsigned staging = ft_shared(done + 128 * W), full = staging + 128, empty = full + 8 * S, held = empty + 8 * S, taken = held + 8;
  const int thread = threadIdx.x, lane = thread & 31, steps = (t.k + 63) / 64;
  if (thread == 0) {
    for (int s = 0; s < S; s++) {
      ft_barrier_init(full + 8 * s, 1);
      ft_barrier_init(empty + 8 * s, 8);
    }
    ft_barrier_init(held, 8);
    ft_barrier_init(taken, 11);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const bool slow = (((unsigned long long)t.a | (unsigned long long)t.b) & 15) != 0, multiplies = thread < 256;
  if (!slow && thread >= 256 && thread < 288) {
    char *const a_map = maps + blockIdx.x * 256ll, *const b_map = a_map + 128;
    ft_write_tensor_map<B, KA ? 128 : 64, N>(a_map, staging, t.a, KA ? t.k : t.m, KA ? t.m : t.k, t.a_line, t.batch, t.a_step);
    ft_write_tensor_map<B, KB ? W : 64, N>(b_map, staging, t.b, KB ? t.k : t.n, KB ? t.n : t.k, t.b_line, t.batch, t.b_step);
    if (thread == 256) ft_load_panels<KA, KB, W, S, N>(t, count, a_map, b_map, ft_shared(tiles), full, empty);
    return;
  }
  ft_ring<S> ring;
  int phase = 0;
  #pragma unroll 1
  for (int tile = blockIdx.x; tile < count; tile += gridDim.x, phase ^= 1) {
    if (multiplies) {
      ft_multiply_panels<B, KA, KB, W, S>(steps, tiles, full, empty, taken, phase, ring);
      __syncwarp();
      if (lane == 0) ft_barrier_arrive(held);
    } else {
      if (slow) ft_copy_panels<B, KA, KB, W, S, N>(t, tile, tiles, full, empty, ring);
      if (thread < 288) continue;
    }
    // Three warps apply `after` to the first `share` rows, the eight that multiply to the others. For 128 rows three need about
    // the time of 24 steps, eight that of 9: with 4 (steps + 9) rows the three end when the eight have multiplied the next
    // tile, too. A block's last tile is shared evenly.
    constexpr int chunks = W / 8, own = 96 / chunks, others = 256 / chunks;
    const int share = tile + (int)gridDim.x < count ? min(128, 4 * (steps + 9)) : 128 * 3 / 11;
    const int at = multiplies ? thread : thread - 288, r = at / chunks;
    if (multiplies ? share < 128 : true)
      ft_apply_after<B, W, U, N>(t, tile, done, held, phase, at % chunks, multiplies ? share + r : r, multiplies ? others : own, multiplies ? 128 : share, after);
    __syncwarp();
    if (lane == 0) ft_barrier_arrive(taken);
  }
}
