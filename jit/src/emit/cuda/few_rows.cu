// What kernels of few rows share: they read chunks of 16 bytes from memory into registers, and the blocks of a cluster
// read each other's shared memory.

// The chunk of 8 elements of half precision at `p`, of which the first m are read; the others are 0. W says that all are
// read and that `p` is a multiple of 16 bytes.
template <bool W> FT_INLINE uint4 ft_chunk_of(const unsigned short *p, int m) {
  if (W) return *(const uint4 *)p;
  unsigned w[4];
  #pragma unroll
  for (int i = 0; i < 4; i++) w[i] = (2 * i < m ? p[2 * i] : 0u) | (2 * i + 1 < m ? (unsigned)p[2 * i + 1] << 16 : 0u);
  return make_uint4(w[0], w[1], w[2], w[3]);
}

// The four numbers that lie at `at` in the shared memory of a block of the cluster, given by its rank.
FT_INLINE float4 ft_load_distributed(const float *at, int block) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(ft_shared(at)), "r"(block));
  float4 x;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(there) : "memory");
  return x;
}

// A barrier for all threads of a cluster; writes to shared memory before it are seen behind it.
FT_INLINE void ft_cluster_barrier() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
