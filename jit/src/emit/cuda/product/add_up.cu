// The distance of rows of a warp's sums, in floats; the padding puts neighbouring rows into different banks.
template <int COLUMNS> constexpr int ft_pitch_of = COLUMNS + 4;

// Adds the sums of 8 warps and of the S blocks of a cluster in a fixed order, and calls `after` with the totals. Each warp
// has ROWS by COLUMNS sums for the result from `row` and `column` on; `sums` holds those of this block, whose rank is `part`.
template <int ROWS, int COLUMNS, int S, typename After>
FT_INLINE void ft_add_up(float *sums, const ft_product<0> &t, int row, int column, int part, const After &after) {
  constexpr int pitch = ft_pitch_of<COLUMNS>, groups = COLUMNS / 4, chunks = COLUMNS / 8;
  __syncthreads();
  // The total of the warps replaces the first warp's sums.
  #pragma unroll 1
  for (int i = threadIdx.x; i < ROWS * groups; i += 256) {
    float *const at = sums + i / groups * pitch + i % groups * 4;
    float4 p = *(const float4 *)at;
    #pragma unroll
    for (int w = 1; w < 8; w++) {
      const float4 x = *(const float4 *)(at + w * ROWS * pitch);
      p.x += x.x, p.y += x.y, p.z += x.z, p.w += x.w;
    }
    *(float4 *)at = p;
  }
  if constexpr (S > 1) ft_cluster_barrier();
  else __syncthreads();
  #pragma unroll 1
  for (int item = threadIdx.x * S + part; item < ROWS * chunks; item += 256 * S) {
    const int r = item / chunks, chunk = column / 8 + item % chunks;
    if (row + r >= t.m || chunk * 8 >= t.n) continue;
    typename After::ahead ahead;
    after.load(row + r, chunk, ahead);
    const float *const from = sums + r * pitch + item % chunks * 8;
    float4 v[S][2];
    #pragma unroll
    for (int s = 0; s < S; s++)
      #pragma unroll
      for (int h = 0; h < 2; h++) {
        if constexpr (S > 1) v[s][h] = ft_load_distributed(from + 4 * h, s);
        else v[s][h] = *(const float4 *)(from + 4 * h);
      }
    float p[8] = {};
    #pragma unroll
    for (int s = 0; s < S; s++)
      #pragma unroll
      for (int h = 0; h < 2; h++) {
        const float4 x = v[s][h];
        p[4 * h] += x.x, p[4 * h + 1] += x.y, p[4 * h + 2] += x.z, p[4 * h + 3] += x.w;
      }
    after(row + r, chunk, p, ahead);
  }
  // A block ends only when the others have read its shared memory.
  if constexpr (S > 1) ft_cluster_barrier();
}
