/*===- moe_rt.h - The runtime in C ----------------------------------------===*\
|*
|* Loads a table and trains with it: what Engine.h offers, for any language. On
|* GPUs each process is one rank (CudaEngine.h says which), and all make the
|* same calls.
|* A function that returns int returns 0 for success; after a failure
|* moe_rt_error says why, until the next call. A runtime is used by one thread
|* at a time. Pointers must not be NULL but where that is said.
|*
\*===----------------------------------------------------------------------===*/

#ifndef MOE_RUNTIME_MOE_RT_H
#define MOE_RUNTIME_MOE_RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct moe_rt moe_rt;

/* A kernel that was compiled from the program: its name in the table, and its
   code, which takes a pointer for each operand. */
typedef struct {
  const char *name;
  void (*code)(void **operands);
} moe_rt_kernel;

typedef struct {
  /* Worker threads, at least 1. */
  int threads;
  /* 0: issue order; else any order that streams and events permit. */
  uint64_t order_seed;
  /* Fill memory with NaNs first if not 0. */
  int poison;
  const moe_rt_kernel *kernels;
  size_t kernel_count;
  /* GPUs: the fat binary of the kernels that were compiled from the program;
     threads, order_seed, poison and kernels do not count there. */
  const void *image;
  size_t image_size;
} moe_rt_options;

/* What this machine lacks to run tables (a driver, a device, a library's
   version), in one line; "": nothing. Valid until the next call. */
const char *moe_rt_missing(void);

/* Makes a runtime from a table's JSON text of `size` bytes; `options` NULL: 2
   threads, issue order, poison. On failure returns NULL and writes why, ended
   by a zero and cut to `error_size` bytes, to `error` (may be NULL). */
moe_rt *moe_rt_create(const char *json, size_t size,
                      const moe_rt_options *options, char *error,
                      size_t error_size);
void moe_rt_destroy(moe_rt *rt);
/* Why the last call failed, "" if it did not. Valid until the next call. */
const char *moe_rt_error(const moe_rt *rt);

/* Parameters by stored name, always f32. A count is a number of elements and
   must be that of the tensor. Setting zeroes the optimizer's moments. */
size_t moe_rt_parameter_count(const moe_rt *rt);
/* NULL if there is no parameter `index`. Valid as long as the runtime. */
const char *moe_rt_parameter_name(const moe_rt *rt, size_t index);
/* -1 if there is none of that name. */
int64_t moe_rt_parameter_elements(const moe_rt *rt, const char *name);
int moe_rt_initialize(moe_rt *rt, uint64_t seed);
int moe_rt_set_parameter(moe_rt *rt, const char *name, const float *values,
                         int64_t count);
int moe_rt_get_parameter(moe_rt *rt, const char *name, float *values,
                         int64_t count);
/* Of the last step, summed over data-parallel ranks. */
int moe_rt_get_gradient(moe_rt *rt, const char *name, float *values,
                        int64_t count);

/* All parameters from, or to, a .safetensors file with stored names. On GPUs
   rank 0 writes. */
int moe_rt_load_weights(moe_rt *rt, const char *path);
int moe_rt_save_weights(moe_rt *rt, const char *path);
int moe_rt_save_gradients(moe_rt *rt, const char *path);

/* Number of this process's rank, 0 where all ranks are in one process. */
int64_t moe_rt_rank(const moe_rt *rt);
/* Tokens of a sample. */
int64_t moe_rt_sequence(const moe_rt *rt);
/* Tokens of one step, [samples of the global batch][sequence + 1]. */
int64_t moe_rt_token_count(const moe_rt *rt);
/* Writes moe_rt_token_count random tokens for a step, counting from 0. */
int moe_rt_random_tokens(moe_rt *rt, uint64_t seed, int64_t step,
                         int32_t *tokens);
/* Runs one step; `loss` and `grad_norm` may be NULL. */
int moe_rt_step(moe_rt *rt, const int32_t *tokens, int64_t count, float *loss,
                float *grad_norm);

/* The program of an executable or shared library that moe-compile made:
   moe_rt_create with its table and kernels; of `options` the threads, order
   and poison count. */
moe_rt *moe_program_create(const moe_rt_options *options, char *error,
                           size_t error_size);

#ifdef __cplusplus
}
#endif

#endif /* MOE_RUNTIME_MOE_RT_H */
