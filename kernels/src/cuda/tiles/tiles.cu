// Tiles of matrices in shared memory, and the instructions that move them there and into registers.
FT_INLINE unsigned ft_shared(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
FT_INLINE void ft_copy_16(unsigned to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
}
// Zeros unless `in`.
FT_INLINE void ft_copy_16(unsigned to, const void *from, bool in) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(in ? 16 : 0) : "memory");
}
FT_INLINE void ft_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
FT_INLINE void ft_arrived() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
FT_INLINE void ft_matrices(unsigned (&r)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
FT_INLINE void ft_matrices_turned(unsigned (&r)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
FT_INLINE float ft_exp2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }

// A matrix in memory: distances in elements.
template <typename T> struct ft_matrix {
  const T *data;
  long long row, column;
  // Whether rows consist of chunks of 16 bytes that start at multiples of that.
  __device__ __forceinline__ bool whole(int columns) const {
    constexpr int n = 16 / sizeof(T);
    return column == 1 && row % n == 0 && columns % n == 0 && (unsigned long long)data % 16 == 0;
  }
};

// Elements between the rows of a tile of D columns: the 16-byte chunks of 8 rows lie in different banks.
template <typename T, int D> struct ft_pitch { static constexpr int value = D + 16 / (int)sizeof(T); };

// How tiles of R rows and D columns lie in shared memory: an element's place by its row and chunk of 16 bytes.
template <typename T> struct ft_padded {
  template <int R, int D> static constexpr int size = R * ft_pitch<T, D>::value;
  template <int R, int D> FT_INLINE int place(int r, int chunk) { return r * ft_pitch<T, D>::value + chunk * 16 / (int)sizeof(T); }
  // Rows that many apart are this many elements apart.
  template <int R, int D> static constexpr int down = ft_pitch<T, D>::value;
};

// Puts tiles of R rows and D columns into shared memory, with zeros where the matrix of `rows` rows and `columns` columns
// ends, by 128 threads. A tile is there after `ft_commit`, `ft_arrived` and a barrier.
template <typename L, int R, int D, typename T> struct ft_loader {
  static constexpr int n = 16 / sizeof(T), chunks = D / n;
  // Whether a thread copies the same columns of rows that are a step apart.
  static constexpr bool regular = 128 % chunks == 0 && R * chunks % 128 == 0 && 128 / chunks % 8 == 0;
  const ft_matrix<T> &m;
  int rows, columns;
  bool whole;
  const T *from;
  __device__ __forceinline__ ft_loader(const ft_matrix<T> &m, int rows, int columns)
      : m(m), rows(rows), columns(columns), whole(m.whole(columns)) {
    const int t = threadIdx.x;
    from = m.data + t / chunks * m.row + t % chunks * n;
  }
  __device__ __forceinline__ void fill(T *to, int first) const {
    if (regular && whole && columns == D && first + R <= rows) {
      const int t = threadIdx.x;
      const unsigned at = ft_shared(to + L::template place<R, D>(t / chunks, t % chunks));
      const T *p = from + first * m.row;
      const long long step = 128 / chunks * m.row;
      #pragma unroll
      for (int turn = 0; turn < R * chunks / 128; turn++) {
        ft_copy_16(at + turn * (128 / chunks * L::template down<R, D> * (int)sizeof(T)), p);
        p += step;
      }
    } else {
      edge(to, first);
    }
  }
  __device__ __forceinline__ void edge(T *to, int first) const {
    #pragma unroll 1
    for (int i = threadIdx.x; i < R * chunks; i += 128) {
      const int r = i / chunks, c = i % chunks * n;
      const T *p = m.data + (first + r) * m.row + c * m.column;
      T *const at = to + L::template place<R, D>(r, i % chunks);
      if (whole) {
        const bool in = first + r < rows && c < columns;
        ft_copy_16(ft_shared(at), in ? p : m.data, in);
      } else {
        #pragma unroll 1
        for (int l = 0; l < n; l++) at[l] = first + r < rows && c + l < columns ? p[l * m.column] : (T)0;
      }
    }
  }
};
