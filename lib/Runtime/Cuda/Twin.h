/*===- Twin.h - Host twins of device kernels ------------------------------===*\
|*
|* A twin computes on the host what a device kernel computes, and says which
|* bytes it reads and writes. The stand-in for the CUDA libraries runs twins.
|* They come in shared objects that export one of the two lists below.
|*
\*===----------------------------------------------------------------------===*/

#ifndef MOE_LIB_RUNTIME_CUDA_TWIN_H
#define MOE_LIB_RUNTIME_CUDA_TWIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MOE_READ = 0, MOE_WRITE = 1, MOE_READ_WRITE = 2 };

typedef struct {
  void *begin;
  int64_t bytes;
  int effect;
} moe_range;

/* Of a library kernel. `parameters` are those of cudaLaunchKernelExC. */
typedef struct {
  const char *name;
  /* Writes at most 16 ranges, returns their number. */
  int (*ranges)(void **parameters, moe_range *ranges);
  void (*run)(void **parameters, unsigned grid);
} moe_twin;

/* Of a generated kernel, whose parameters are a pointer for each operand. */
typedef struct {
  const char *name;
  void (*code)(void **pointers);
  const int64_t *bytes;
  const uint8_t *effects;
  int32_t operands;
} moe_generated_twin;

/* What a shared object exports, either or both:
     const moe_twin moe_twins[];  const size_t moe_twin_count;
     const moe_generated_twin moe_generated_twins[];
     const size_t moe_generated_twin_count; */

#ifdef __cplusplus
}
#endif

#endif /* MOE_LIB_RUNTIME_CUDA_TWIN_H */
