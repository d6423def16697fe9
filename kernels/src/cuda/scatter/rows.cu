// Rows of a source meet rows of a matrix, those of each place one after the other. Before this text stand what meet.cu says and
// V, the elements that a thread takes: 1, or 16 bytes of a row.
//
// A thread takes V columns of a piece. Neighbouring threads take neighbouring columns, then neighbouring pieces.

struct FT_SYMBOL_args {
  T *out;
  const T *src;
  const P *keys;
  const P *order;
  A *aside;
  long long rows, width, include, piece, reach;
  char *scratch;
  long long *fault;
};

// Elements that are asked for before the first is waited for.
#define BATCH (V > 2 ? 4 : 8)

struct alignas(sizeof(T) * V) ft_some { T at[V]; };

// Whether the elements of a place that starts before piece `p`, and is the first of that piece, are put aside.
static __device__ __forceinline__ bool ft_is_cut(const FT_SYMBOL_args &a, long long p, P key) {
  long long low = p - a.reach, high = p;
  if (low > 0 && a.keys[low * a.piece - 1] == key) return true;
  if (low < 0) low = 0;
  // The place starts in piece `low`, which is found by halves.
  while (high - low > 1) {
    const long long middle = (low + high) / 2;
    if (a.keys[middle * a.piece - 1] == key) high = middle;
    else low = middle;
  }
  return ft_holds(a.keys, a.rows, (low + 1 + a.reach) * a.piece, key);
}

// What a place holds before the source's elements meet there.
static __device__ __forceinline__ void ft_begin(const FT_SYMBOL_args &a, A (&value)[V], P key, long long c, bool own) {
  ft_some held = {};
  if (own) held = *(const ft_some *)(a.out + key * a.width + c);
  #pragma unroll
  for (int v = 0; v < V; v++) value[v] = own ? (A)held.at[v] : ft_none();
}

static __device__ __forceinline__ void ft_give(const FT_SYMBOL_args &a, A (&value)[V], P key, long long c, long long count) {
  ft_some all;
#if MODE == 5
  if (a.include) count++;
#endif
  #pragma unroll
  for (int v = 0; v < V; v++) {
#if MODE == 5
    if (count > 1) value[v] = ft_mean(value[v], count);
#endif
    all.at[v] = (T)value[v];
  }
  *(ft_some *)(a.out + key * a.width + c) = all;
}

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  const long long g = (long long)blockIdx.x * 256 + threadIdx.x, chunks = a.width / V, p = g / chunks;
  const long long begin = p * a.piece, end = begin + a.piece < a.rows ? begin + a.piece : a.rows;
  if (begin >= a.rows) return;
  const long long c = (g - p * chunks) * V;
  const P first = a.keys[begin], last = a.keys[end - 1];
  // Whether the first place starts before the piece, and its elements are another's.
  const bool within = begin > 0 && a.keys[begin - 1] == first;
  const bool skipped = within && !ft_is_cut(a, p, first);
  // Whether the last place starts here and goes on, and how far.
  const bool passes = ft_holds(a.keys, a.rows, end, last), goes_on = passes && !(within && last == first);
  const long long limit = (p + 1 + a.reach) * a.piece;
  const bool cut = goes_on && ft_holds(a.keys, a.rows, limit, last);
  const long long stop = goes_on && !cut ? (limit < a.rows ? limit : a.rows) : end;

  A value[V];
  P key = first;
  long long count = 0;
  bool open = within;
  ft_begin(a, value, key, c, !within && a.include);
  bool on = true;
  for (long long j = begin; on && j < stop; j += BATCH) {
    P keys[BATCH];
    bool here[BATCH];
    ft_some next[BATCH];
    #pragma unroll
    for (int b = 0; b < BATCH; b++) {
      const long long i = j + b;
      here[b] = i < stop;
      keys[b] = here[b] ? a.keys[i] : last;
      here[b] = here[b] && (i < end || keys[b] == last);
    }
    #pragma unroll
    for (int b = 0; b < BATCH; b++) {
      next[b] = ft_some();
      if (here[b] && !(skipped && keys[b] == first)) next[b] = *(const ft_some *)(a.src + a.order[j + b] * a.width + c);
    }
    #pragma unroll
    for (int b = 0; b < BATCH; b++) {
      on = on && here[b];
      if (!on) continue;
      if (keys[b] != key) {
        if (!open) ft_give(a, value, key, c, count);
        else if (!skipped) {
          #pragma unroll
          for (int v = 0; v < V; v++) a.aside[2 * p * a.width + c + v] = value[v];
        }
        open = false;
        key = keys[b];
        count = 0;
        ft_begin(a, value, key, c, a.include);
      }
      #pragma unroll
      for (int v = 0; v < V; v++) value[v] = ft_meet(value[v], (A)next[b].at[v]);
      count++;
    }
  }
  if (open && skipped) return;
  if (!open && !cut) {
    ft_give(a, value, key, c, count);
    return;
  }
  #pragma unroll
  for (int v = 0; v < V; v++) a.aside[(2 * p + (open ? 0 : 1)) * a.width + c + v] = value[v];
}
