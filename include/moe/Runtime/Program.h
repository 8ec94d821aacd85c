/*===- Program.h - What moe-compile links into an executable --------------===*\
|*
|* An object file that moe-compile writes defines `moe_program`: the table and
|* its kernels. moe_program_create (moe_rt.h) makes a runtime of it.
|*
\*===----------------------------------------------------------------------===*/

#ifndef MOE_RUNTIME_PROGRAM_H
#define MOE_RUNTIME_PROGRAM_H

#include "moe/Runtime/moe_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  /* JSON text. */
  const char *table;
  uint64_t table_size;
  /* Of the host; none for GPUs. */
  const moe_rt_kernel *kernels;
  uint64_t kernel_count;
  /* Fat binary for GPUs; none for the host. */
  const void *image;
  uint64_t image_size;
} moe_program_data;

extern const moe_program_data moe_program;

#ifdef __cplusplus
}
#endif

#endif /* MOE_RUNTIME_PROGRAM_H */
