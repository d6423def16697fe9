/* Runs bundles of Ferrotrace: programs with their kernels, which need no compiler.
 *
 * Tensors pass by DLPack, without copies. A bundle holds machine code, which opening it loads into the process: open those
 * alone whose programs you would run.
 *
 * Every function may be called from any thread. Calls of one bundle run one after another. */
#ifndef FERROTRACE_H
#define FERROTRACE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is used of dlpack.h, where that is not included. */
#ifndef DLPACK_DLPACK_H_
typedef struct {
  int32_t device_type; /* 1: the CPU, 2: CUDA, 3: the host's memory for CUDA, 13: CUDA's managed memory */
  int32_t device_id;
} DLDevice;

typedef struct {
  uint8_t code; /* 0: int, 1: unsigned, 2: float, 4: bfloat, 6: bool */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL where the elements lie in row-major order */
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;
#endif

/* An open bundle. */
typedef struct ft_bundle ft_bundle;

/* What becomes of calls for which a bundle has no kernels: they are compiled where a compiler is; they run on ready-made
 * kernels; or they are an error. */
enum { FT_COMPILE = 0, FT_READY_MADE = 1, FT_ERROR = 2 };

/* Opens a bundle onto the CPU. NULL: an error, which ft_error tells. */
ft_bundle *ft_open(const char *path, int32_t fallback);

/* Opens a bundle onto the CUDA device of an index. NVRTC is not needed. */
ft_bundle *ft_open_cuda(const char *path, int32_t fallback, int32_t index);

/* Closes a bundle, which may be NULL. Its results stay valid. */
void ft_close(ft_bundle *bundle);

/* What the last call of this thread that failed has to say; "" if none failed. Valid until this thread's next failure. */
const char *ft_error(void);

/* The number of inputs and outputs. */
int64_t ft_inputs(const ft_bundle *bundle);
int64_t ft_outputs(const ft_bundle *bundle);

/* The name of an input or output, valid while the bundle is open; NULL where there is no such one. */
const char *ft_input_name(const ft_bundle *bundle, int64_t input);
const char *ft_output_name(const ft_bundle *bundle, int64_t output);

/* The dtype of an input, such as "f32"; NULL for a number (a tensor of one element) and where there is no such input. */
const char *ft_input_dtype(const ft_bundle *bundle, int64_t input);

/* The number of an input's dimensions; -1 where there is no such input. */
int64_t ft_input_rank(const ft_bundle *bundle, int64_t input);

/* A size of an input, as digits or as the name of a size that may differ from call to call; NULL where there is none. */
const char *ft_input_size(const ft_bundle *bundle, int64_t input, int64_t dimension);

/* Runs the program. The inputs become the library's, also where the call fails: their deleters are called when they are no
 * longer used, from any thread. Nobody may write their memory until then. They may be in any layout; one whose memory does
 * not begin at a multiple of 8 bytes (16 on CUDA) is copied.
 *
 * The outputs are written to `outputs`, and are the caller's, who calls the deleter of each when done, and does not write
 * their memory. Their elements may lie in another order than row by row, as `strides`, which is never NULL, says. On CUDA they are computed when the call returns, and inputs must be so before.
 *
 * 0: done. -1: an error, which ft_error tells; there are no outputs then. */
int32_t ft_run(ft_bundle *bundle, DLManagedTensor *const *inputs, int64_t n_inputs, DLManagedTensor **outputs,
               int64_t n_outputs);

/* As ft_run, in the form of DLPack 1.0. Outputs have the flag of memory that must not be written. */
int32_t ft_run_versioned(ft_bundle *bundle, DLManagedTensorVersioned *const *inputs, int64_t n_inputs,
                         DLManagedTensorVersioned **outputs, int64_t n_outputs);

#ifdef __cplusplus
}
#endif

#endif
