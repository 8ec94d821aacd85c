/*===- CApiUser.c - moe_rt.h from C ---------------------------------------===*/

#include "moe/Runtime/moe_rt.h"

#include <stdio.h>
#include <string.h>

/* Doubles its four inputs. */
static void twice(void **operands) {
  const float *x = operands[0];
  float *y = operands[1];
  for (int i = 0; i < 4; ++i)
    y[i] = 2 * x[i];
}

/* Returns the number of the first check that fails, 0 if none does; `error`
   has 256 bytes, `file` is to be written. */
int useFromC(const char *json, const char *file, char *error) {
  moe_rt_kernel kernel = {"twice", twice};
  moe_rt_options options = {
      .threads = 1, .poison = 1, .kernels = &kernel, .kernel_count = 1};
  float in[4] = {1, 2, 3, 4}, out[4] = {0}, loss = -1;
  int32_t tokens[8];

  error[0] = 0;
  if (strcmp(moe_rt_missing(), ""))
    return 19;
  if (moe_rt_create("{", 1, &options, error, 256) ||
      strncmp(error, "malformed JSON", 14))
    return 1;
  char cut[4];
  if (moe_rt_create(json, strlen(json), NULL, cut, sizeof cut) ||
      strcmp(cut, "ker"))
    return 2;
  moe_rt *rt = moe_rt_create(json, strlen(json), &options, error, 256);
  if (!rt)
    return 3;
  if (moe_rt_parameter_count(rt) != 1 ||
      strcmp(moe_rt_parameter_name(rt, 0), "r0") ||
      moe_rt_parameter_name(rt, 1) ||
      moe_rt_parameter_elements(rt, "r0") != 4 ||
      moe_rt_parameter_elements(rt, "r1") != -1)
    return 4;
  if (moe_rt_token_count(rt) != 2 || moe_rt_random_tokens(rt, 1, 0, tokens))
    return 5;
  if (!moe_rt_step(rt, tokens, 2, NULL, NULL) ||
      strcmp(moe_rt_error(rt), "parameter 'r0' has no value yet"))
    return 6;
  if (moe_rt_initialize(rt, 1) || strcmp(moe_rt_error(rt), ""))
    return 7;
  if (!moe_rt_set_parameter(rt, "r0", in, 3) ||
      strcmp(moe_rt_error(rt), "parameter 'r0' has 4 elements, not 3"))
    return 8;
  if (!moe_rt_get_gradient(rt, "r1", out, 4) ||
      strcmp(moe_rt_error(rt), "the program has no parameter 'r1'"))
    return 9;
  if (moe_rt_set_parameter(rt, "r0", in, 4) ||
      moe_rt_get_parameter(rt, "r0", out, 4) || memcmp(in, out, sizeof in))
    return 10;
  if (moe_rt_step(rt, tokens, 2, &loss, NULL) || loss != 0 ||
      moe_rt_get_gradient(rt, "r0", out, 4) || out[3] != 8)
    return 11;
  if (!moe_rt_step(rt, tokens, -1, NULL, NULL))
    return 12;
  float back[4] = {0};
  if (moe_rt_save_weights(rt, file) || moe_rt_get_parameter(rt, "r0", in, 4) ||
      moe_rt_initialize(rt, 2) || moe_rt_load_weights(rt, file) ||
      moe_rt_get_parameter(rt, "r0", back, 4) || memcmp(in, back, sizeof in))
    return 13;
  if (moe_rt_save_gradients(rt, file) || moe_rt_load_weights(rt, file) ||
      moe_rt_get_parameter(rt, "r0", back, 4) || memcmp(out, back, sizeof out))
    return 14;
  if (!moe_rt_load_weights(rt, "") || !moe_rt_save_weights(rt, ""))
    return 15;
  if (moe_rt_rank(rt) != 0 || moe_rt_sequence(rt) < 1)
    return 16;
  moe_rt_destroy(rt);
  return 0;
}
