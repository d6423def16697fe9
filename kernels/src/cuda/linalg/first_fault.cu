// The first matrix of a batch that has a fault, and the fault; -1 where none has. One block.

struct FT_SYMBOL_args {
  const int *faults;
  long long *out;
  long long count;
  char *scratch;
  long long *fault;
};

extern "C" __global__ void __launch_bounds__(256) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {
  __shared__ long long found[256];
  const int t = threadIdx.x;
  long long first = a.count;
  for (long long i = t; i < first; i += 256)
    if (a.faults[i] != 0) first = i;
  found[t] = first;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half && found[t + half] < found[t]) found[t] = found[t + half];
    __syncthreads();
  }
  if (t == 0) {
    const bool any = found[0] < a.count;
    a.out[0] = any ? found[0] : -1;
    a.out[1] = any ? a.faults[found[0]] : 0;
  }
}
