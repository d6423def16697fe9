// Rows of a source meet rows of a matrix. `order` sorts their places, stably, to `keys`: what meets at one place stands side by side, in
// the order of the source, and is taken up one after the other. Before this text stand what meet.cu names and FINISH, whether
// this is the second kernel.
//
// A unit is one element of the order and 128 columns, of a warp, or one column, of a thread. That of the first element of a
// place does the work, to the end of its chunk; the first unit of a chunk that goes on with a place puts what it finds
// aside, and a second kernel takes that up, chunk by chunk.

struct FT_SYMBOL_args {
  T *out;
  const T *src;
  const long long *order;
  const K *keys;
  A *aside;
  long long *counts;
  long long rows, width, include, chunk;
  char *scratch;
  long long *fault;
};

#define BATCH 8
#define COLUMNS 4

// What the elements of the order from `j` on, to before `end`, bring to a place; how many they are.
template <int V> static __device__ __forceinline__ long long
ft_walk(const FT_SYMBOL_args &a, A (&value)[V], long long j, long long end, K key, long long c) {
  const long long first = a.order[j];
  #pragma unroll
  for (int v = 0; v < V; v++) if (c + 32 * v < a.width) value[v] = ft_meet(value[v], (A)a.src[first * a.width + c + 32 * v]);
  long long k = j + 1;
  bool same = true;
  // Most places are met a few times. Of others several elements are asked for before the first is waited for.
  while (k < end && k < j + BATCH) {
    same = a.keys[k] == key;
    if (!same) break;
    const long long at = a.order[k];
    #pragma unroll
    for (int v = 0; v < V; v++) if (c + 32 * v < a.width) value[v] = ft_meet(value[v], (A)a.src[at * a.width + c + 32 * v]);
    k++;
  }
  while (same && k < end) {
    T next[BATCH][V];
    bool here[BATCH];
    #pragma unroll
    for (int b = 0; b < BATCH; b++) {
      here[b] = k + b < end && a.keys[k + b] == key;
      const long long at = here[b] ? a.order[k + b] : first;
      #pragma unroll
      for (int v = 0; v < V; v++) next[b][v] = c + 32 * v < a.width ? a.src[at * a.width + c + 32 * v] : (T)0;
    }
    int taken = 0;
    #pragma unroll
    for (int b = 0; b < BATCH; b++) {
      same = same && here[b];
      if (same) {
        #pragma unroll
        for (int v = 0; v < V; v++) value[v] = ft_meet(value[v], (A)next[b][v]);
        taken++;
      }
    }
    k += taken;
  }
  return k - j;
}

#if !FINISH
template <int V> static __device__ __forceinline__ void ft_unit(const FT_SYMBOL_args &a, long long j, long long c) {
  const K key = a.keys[j];
  const long long place = ft_place(key);
#if MODE == 0
  // The last one stays.
  if (j + 1 < a.rows && a.keys[j + 1] == key) return;
  const long long from = a.order[j];
  #pragma unroll
  for (int v = 0; v < V; v++) if (c + 32 * v < a.width) a.out[place * a.width + c + 32 * v] = a.src[from * a.width + c + 32 * v];
#else
  const bool first = j == 0 || a.keys[j - 1] != key;
  if (!first && j % a.chunk != 0) return;
  const long long limit = (j / a.chunk + 1) * a.chunk, end = limit < a.rows ? limit : a.rows;
  A value[V];
  #pragma unroll
  for (int v = 0; v < V; v++)
    value[v] = first && a.include && c + 32 * v < a.width ? (A)a.out[place * a.width + c + 32 * v] : ft_none();
  const long long n = ft_walk<V>(a, value, j, end, key, c);
  if (!first) {
    const long long chunk = j / a.chunk;
    #pragma unroll
    for (int v = 0; v < V; v++) if (c + 32 * v < a.width) a.aside[chunk * a.width + c + 32 * v] = value[v];
    if (c == 0) a.counts[chunk] = n;
    return;
  }
#if MODE == 5
  // Places that go on are divided when all is there.
  const bool goes_on = j + n < a.rows && a.keys[j + n] == key;
  const long long count = n + (a.include ? 1 : 0);
  #pragma unroll
  for (int v = 0; v < V; v++) if (!goes_on && count > 1) value[v] = ft_mean(value[v], count);
#endif
  #pragma unroll
  for (int v = 0; v < V; v++) if (c + 32 * v < a.width) a.out[place * a.width + c + 32 * v] = (T)value[v];
#endif
}

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const long long g = (long long)blockIdx.x * 256 + threadIdx.x;
  if (a.width >= 32) {
    const long long tiles = (a.width + 32 * COLUMNS - 1) / (32 * COLUMNS), unit = g / 32;
    if (unit < a.rows * tiles) ft_unit<COLUMNS>(a, unit / tiles, unit % tiles * 32 * COLUMNS + (g & 31));
  } else if (g < a.rows * a.width) {
    const long long j = g / a.width;
    ft_unit<1>(a, j, g - j * a.width);
  }
}

#else
// A thread a chunk and column: where a place goes on past the end of the chunk that it starts in, the rest is taken up.
extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const long long g = (long long)blockIdx.x * 256 + threadIdx.x, chunks = (a.rows + a.chunk - 1) / a.chunk;
  if (g >= chunks * a.width) return;
  const long long chunk = g / a.width, c = g - chunk * a.width, next = (chunk + 1) * a.chunk;
  if (next >= a.rows) return;
  const K key = a.keys[next];
  if (a.keys[next - 1] != key) return;
  // Not where the place started before this chunk.
  const long long begin = chunk * a.chunk;
  if (begin > 0 && a.keys[begin] == key && a.keys[begin - 1] == key) return;
  T *out = a.out + ft_place(key) * a.width + c;
  A value = (A)*out;
  long long count = a.include ? 1 : 0;
#if MODE == 5
  for (long long k = next - 1; k >= begin && a.keys[k] == key; k--) count++;
#endif
  for (long long at = chunk + 1; at * a.chunk < a.rows && a.keys[at * a.chunk] == key; at++) {
    value = ft_meet(value, a.aside[at * a.width + c]);
    count += a.counts[at];
  }
#if MODE == 5
  if (count > 1) value = ft_mean(value, count);
#endif
  *out = (T)value;
}
#endif
