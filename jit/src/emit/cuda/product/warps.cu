// Products by warps (Ampere and later): 8 warps compute a tile of 128 rows and columns, 64 by 32 each, from panels that
// asynchronous copies bring through a pipeline of three stages. KA, KB: the terms of a row of the left matrix, of a column
// of the right one, are contiguous.

// Waits until all groups of asynchronous copies but the last are done.
FT_INLINE void ft_wait_but_one() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

template <bool B, bool KA, bool KB, int N, typename After>
FT_INLINE void ft_by_warps(const ft_product<N> &t, const After &after) {
  typedef unsigned short T;
  extern __shared__ __align__(1024) unsigned char ft_tiles[];
  constexpr int stages = 3, size = 128 * 64, threads = 256;
  T *const tiles = (T *)ft_tiles;
  const int thread = threadIdx.x, lane = thread & 31, down = (thread >> 7) * 64, across = (thread >> 5 & 3) * 32;
  const ft_place at = ft_tile(blockIdx.x, t.rows, t.columns);
  const int row = at.row * 128, column = at.column * 128;
  const T *a = t.a, *b = t.b;
  int rest = at.matrix;
  #pragma unroll
  for (int d = N - 1; d >= 0; d--) {
    const int i = rest % t.batch[d];
    rest /= t.batch[d];
    a += i * t.a_step[d];
    b += i * t.b_step[d];
  }
  const bool aligned = (((unsigned long long)a | (unsigned long long)b) & 15) == 0;
  const auto fill = [&](int stage, int step) {
    T *const x = tiles + stage * 2 * size, *const y = x + size;
    const int k = step * 64;
    if (aligned) {
      if constexpr (KA) ft_fill<128, 1, threads>(x, a, t.a_line, row, t.m, k, t.k, thread);
      else ft_fill<64, 2, threads>(x, a, t.a_line, k, t.k, row, t.m, thread);
      if constexpr (KB) ft_fill<128, 1, threads>(y, b, t.b_line, column, t.n, k, t.k, thread);
      else ft_fill<64, 2, threads>(y, b, t.b_line, k, t.k, column, t.n, thread);
    } else {
      if constexpr (KA) ft_fill_by_elements<128, 1, threads>(x, a, t.a_line, row, t.m, k, t.k, thread);
      else ft_fill_by_elements<64, 2, threads>(x, a, t.a_line, k, t.k, row, t.m, thread);
      if constexpr (KB) ft_fill_by_elements<128, 1, threads>(y, b, t.b_line, column, t.n, k, t.k, thread);
      else ft_fill_by_elements<64, 2, threads>(y, b, t.b_line, k, t.k, column, t.n, thread);
    }
  };
  const int steps = (t.k + 63) / 64;
  #pragma unroll
  for (int s = 0; s < stages - 1; s++) {
    if (s < steps) fill(s, s);
    ft_commit();
  }
  float c[4][4][4] = {};
  int stage = 0, free = stages - 1;
  for (int step = 0; step < steps; step++) {
    ft_wait_but_one();
    __syncthreads();
    if (step + stages - 1 < steps) fill(free, step + stages - 1);
    ft_commit();
    const T *const x = tiles + stage * 2 * size, *const y = x + size;
    #pragma unroll
    for (int k = 0; k < 4; k++) {
      unsigned left[4][4], right[2][4];
      #pragma unroll
      for (int i = 0; i < 4; i++) {
        if constexpr (KA) {
          ft_matrices(left[i], ft_shared(x + ft_chunk(down + 16 * i + (lane & 15), 2 * k + (lane >> 4))));
        } else {
          const int r = 16 * k + (lane & 7) + (lane >> 4) * 8;
          ft_matrices_turned(left[i], ft_shared(x + down * 64 + ft_chunk(r, 2 * i + (lane >> 3 & 1))));
        }
      }
      #pragma unroll
      for (int j = 0; j < 2; j++) {
        if constexpr (KB) {
          const int r = across + 16 * j + (lane & 7) + (lane >> 4) * 8;
          ft_matrices(right[j], ft_shared(y + ft_chunk(r, 2 * k + (lane >> 3 & 1))));
        } else {
          const int chunk = across % 64 / 8 + 2 * j + (lane >> 4);
          ft_matrices_turned(right[j], ft_shared(y + across / 64 * 4096 + ft_chunk(16 * k + (lane & 15), chunk)));
        }
      }
      #pragma unroll
      for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++) ft_half<B>::multiply(c[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
    }
    free = stage;
    stage = stage + 1 == stages ? 0 : stage + 1;
  }
  const int chunk = (column + across) / 8 + (lane & 3);
  #pragma unroll
  for (int i = 0; i < 4; i++)
    #pragma unroll
    for (int h = 0; h < 2; h++) {
      float p[8];
      ft_gather_chunk(p, c[i], 0, h);
      const int r = row + down + 16 * i + 8 * h + (lane >> 2);
      if (r < t.m && chunk * 8 < t.n) {
        typename After::ahead x;
        after.load((long long)at.matrix * t.m + r, chunk, x);
        after((long long)at.matrix * t.m + r, chunk, p, x);
      }
    }
}
