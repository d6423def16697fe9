// One pass of a radix sort by digits, least first, in one kernel: every element of a tile goes behind the lesser digits of its
// row, the same digit of earlier tiles, and that of earlier elements of its own (Adinets and Merrill, Onesweep, 2022). What
// earlier tiles hold is found by looking back: a tile makes known its counts as soon as it has them, and its
// counts with those of all tiles before it once it knows those (Merrill and Garland, Single-pass Parallel Prefix Scan
// with Decoupled Look-back, 2016). Blocks take tiles in the order in which they start, so that no tile waits for one that has not.
//
// Tiles are put in order in shared memory first, so that neighbouring threads write neighbouring elements. With each
// key goes a word: its position, or a payload that is given. Before this text stand THREADS, EACH, the elements of a thread,
// and BLOCKS, those of a multiprocessor at once.

struct FT_SYMBOL_args {
  const void *keys;
  const unsigned *from;
  K *sorted;
  unsigned *to;
  // Positions of 8 bytes, which the last pass gives where they are asked for.
  long long *out;
  const unsigned *counts;
  // Of each row, tile and digit: a count, the pass, and whether it is that of the tiles before too.
  unsigned long long *known;
  unsigned *tickets;
  long long n, tiles, pass, passes, bits, carry, keep, wide, flip;
  char *scratch;
  long long *fault;
};

#define WARPS (THREADS / 32)
#define TILE (THREADS * EACH)
// Tiles that are looked back at at once.
#define LOOK 2

static __device__ __forceinline__ unsigned long long ft_look(const unsigned long long *p) {
  unsigned long long x;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
  return x;
}

static __device__ __forceinline__ void ft_tell(unsigned long long *p, unsigned long long x) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(p), "l"(x) : "memory");
}

// How many of a digit the tiles before `tile` hold; `known` is that of the row's first tile.
static __device__ __forceinline__ unsigned ft_behind(const unsigned long long *known, long long tile, unsigned tag) {
  unsigned before = 0;
  while (tile > 0) {
    unsigned long long words[LOOK];
    #pragma unroll
    for (int w = 0; w < LOOK; w++) words[w] = tile > w ? ft_look(known + (tile - 1 - w) * 256) : 0;
    bool on = true;
    #pragma unroll
    for (int w = 0; w < LOOK; w++) {
      const unsigned state = (unsigned)words[w] & 255;
      on = on && tile > 0 && state >> 1 == tag;
      if (!on) continue;
      before += (unsigned)(words[w] >> 8);
      tile = state & 1 ? 0 : tile - 1;
      on = tile > 0;
    }
  }
  return before;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ unsigned found[WARPS][256];
  __shared__ unsigned move[256];
  __shared__ unsigned long long sums[8];
  __shared__ unsigned ticket;
  __shared__ K stage[TILE];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const bool first = a.pass == 0, last = a.pass + 1 == a.passes;
  const int shift = (int)(a.pass * a.bits);
  const unsigned mask = (1u << a.bits) - 1, tag = (unsigned)a.pass + 1;
  if (t == 0) ticket = atomicAdd(a.tickets + a.pass, 1u);
  for (int i = t; i < WARPS * 256; i += THREADS) found[0][i] = 0;
  __syncthreads();
  const long long row = ticket / a.tiles, tile = ticket - row * a.tiles, start = row * a.n + tile * TILE;
  const long long rest = a.n - tile * TILE;
  const int size = rest < TILE ? (int)rest : TILE, low = warp * 32 * EACH + lane;

  K keys[EACH];
  unsigned ranks[EACH];
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    // What is past the row's end comes last.
    keys[e] = ~(K)0;
    if (low + e * 32 < size) keys[e] = first ? ft_key(((const E *)a.keys)[start + low + e * 32], (K)a.flip) : ((const K *)a.keys)[start + low + e * 32];
  }
  ft_rank<EACH>(keys, ranks, found[warp], shift, mask);
  __syncthreads();
  // Thread t: digit t of the tile and of the row.
  unsigned long long *known = a.known + row * a.tiles * 256 + t, own = 0, sum = 0;
  if (t < 256) {
    unsigned all = 0;
    for (int w = 0; w < WARPS; w++) {
      const unsigned count = found[w][t];
      found[w][t] = all;
      all += count;
    }
    const unsigned there = all - (t == (int)mask ? TILE - size : 0);
    ft_tell(known + tile * 256, (unsigned long long)there << 8 | tag << 1 | (tile == 0));
    own = (unsigned long long)a.counts[(row * a.passes + a.pass) * 256 + t] << 32 | there;
    sum = ft_up_to(own);
    if (lane == 31) sums[warp] = sum;
  }
  __syncthreads();
  unsigned at = 0, place = 0;
  if (t < 256) {
    for (int w = 0; w < warp; w++) sum += sums[w];
    sum -= own;
    at = (unsigned)sum;
    place = (unsigned)(sum >> 32);
    for (int w = 0; w < WARPS; w++) found[w][t] += at;
  }
  __syncthreads();
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    ranks[e] += found[warp][(unsigned)(keys[e] >> shift) & mask];
    stage[ranks[e]] = keys[e];
  }
  unsigned words[EACH];
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int i = low + e * 32;
    words[e] = 0;
    if (i < size) words[e] = first && !a.carry ? (unsigned)(tile * TILE + i) : a.from[start + i];
  }
  if (t < 256) {
    const unsigned before = ft_behind(known, tile, tag);
    if (tile > 0) ft_tell(known + tile * 256, (unsigned long long)(before + (unsigned)own) << 8 | tag << 1 | 1);
    move[t] = place + before - at;
  }
  __syncthreads();
  unsigned digits[(EACH + 3) / 4];
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int i = e * THREADS + t;
    if (e % 4 == 0) digits[e / 4] = 0;
    if (i >= size) continue;
    const K key = stage[i];
    const unsigned digit = (unsigned)(key >> shift) & mask;
    digits[e / 4] |= digit << e % 4 * 8;
    if (!last || a.keep) a.sorted[row * a.n + (move[digit] + i)] = last ? ft_element(key) : key;
  }
  __syncthreads();
  unsigned *given = (unsigned *)stage;
  #pragma unroll
  for (int e = 0; e < EACH; e++) given[ranks[e]] = words[e];
  __syncthreads();
  #pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int i = e * THREADS + t;
    if (i >= size) continue;
    const long long goal = row * a.n + (move[digits[e / 4] >> e % 4 * 8 & 255] + i);
    if (last && a.wide) a.out[goal] = given[i];
    else a.to[goal] = given[i];
  }
}
