/* Runs a bundle of two inputs and two outputs: run BUNDLE. It adds b to each row of x (2, 3), and tells the sums of rows. */
#include "ferrotrace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int given_back = 0;

static void give_back(DLManagedTensor *self) {
  given_back++;
  free(self);
}

/* A tensor in memory of this program. */
static DLManagedTensor *of(float *data, int32_t ndim, int64_t *shape, int64_t *strides) {
  DLManagedTensor *tensor = calloc(1, sizeof *tensor);
  tensor->dl_tensor.data = data;
  tensor->dl_tensor.device.device_type = 1;
  tensor->dl_tensor.ndim = ndim;
  tensor->dl_tensor.dtype.code = 2;
  tensor->dl_tensor.dtype.bits = 32;
  tensor->dl_tensor.dtype.lanes = 1;
  tensor->dl_tensor.shape = shape;
  tensor->dl_tensor.strides = strides;
  tensor->deleter = give_back;
  return tensor;
}

/* The elements of a tensor of one or two dimensions, row by row. */
static void print(const DLTensor *tensor) {
  const float *data = (const float *)((const char *)tensor->data + tensor->byte_offset);
  int32_t last = tensor->ndim - 1;
  int64_t rows = last ? tensor->shape[0] : 1;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < tensor->shape[last]; j++)
      printf("%g ", data[(last ? i * tensor->strides[0] : 0) + j * tensor->strides[last]]);
  printf("\n");
}

int main(int argc, char **argv) {
  (void)argc;
  if (ft_open("/nonexistent.ftb", FT_ERROR) || !strstr(ft_error(), "nonexistent")) return 10;
  if (ft_open(NULL, FT_ERROR) || ft_open(argv[1], 7) || !strstr(ft_error(), "fallback 7")) return 11;
  ft_bundle *bundle = ft_open(argv[1], FT_ERROR);
  if (!bundle) return fprintf(stderr, "%s\n", ft_error()), 12;
  printf("%d inputs, %d outputs, %s: %s[%s, %s] of rank %d\n", (int)ft_inputs(bundle), (int)ft_outputs(bundle),
         ft_input_name(bundle, 0), ft_input_dtype(bundle, 0), ft_input_size(bundle, 0, 0),
         ft_input_size(bundle, 0, 1), (int)ft_input_rank(bundle, 0));
  if (ft_input_name(bundle, 2) || ft_input_size(bundle, 0, 2) || ft_input_rank(bundle, -1) != -1) return 13;

  /* Transposed in memory. */
  float x[6] = {1, 4, 2, 5, 3, 6}, b[3] = {10, 20, 30};
  int64_t shape[2] = {2, 3}, strides[2] = {1, 2}, row[1] = {3};
  DLManagedTensor *outputs[2];
  for (int call = 0; call < 3; call++) {
    DLManagedTensor *inputs[2] = {of(x, 2, shape, strides), of(b, 1, row, NULL)};
    if (ft_run(bundle, inputs, 2, outputs, 2)) return fprintf(stderr, "%s\n", ft_error()), 14;
    for (int i = 0; i < 2; i++) {
      print(&outputs[i]->dl_tensor);
      outputs[i]->deleter(outputs[i]);
    }
  }
  if (given_back != 6) return 15;

  /* Errors take the inputs over too. */
  DLManagedTensor *one[1] = {of(x, 2, shape, strides)};
  if (ft_run(bundle, one, 1, outputs, 2) != -1 || outputs[0] || given_back != 7) return 16;
  DLManagedTensor *null[2] = {of(x, 2, shape, strides), NULL};
  if (ft_run(bundle, null, 2, outputs, 2) != -1 || !strstr(ft_error(), "null") || given_back != 8) return 17;
  DLManagedTensor *two[2] = {of(x, 2, shape, strides), of(b, 1, row, NULL)};
  two[1]->dl_tensor.dtype.code = 5;
  if (ft_run(bundle, two, 2, outputs, 2) != -1 || !strstr(ft_error(), "code 5") || given_back != 10) return 18;
  DLManagedTensor *few[2] = {of(x, 2, shape, strides), of(b, 1, row, NULL)};
  if (ft_run(bundle, few, 2, outputs, 1) != -1 || !strstr(ft_error(), "room for 1") || given_back != 12) return 19;
  if (ft_run(NULL, NULL, 0, NULL, 0) != -1 || !strstr(ft_error(), "null")) return 20;

  /* Results outlive the bundle. */
  DLManagedTensor *inputs[2] = {of(x, 2, shape, strides), of(b, 1, row, NULL)};
  if (ft_run(bundle, inputs, 2, outputs, 2)) return 21;
  ft_close(bundle);
  ft_close(NULL);
  print(&outputs[1]->dl_tensor);
  for (int i = 0; i < 2; i++) outputs[i]->deleter(outputs[i]);
  return given_back == 14 ? 0 : 22;
}
