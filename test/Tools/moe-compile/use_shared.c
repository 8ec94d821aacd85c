/*===- use_shared.c - Trains with a shared library of moe-compile ---------===*\
|*
|* usage: use_shared STEPS
|*
\*===----------------------------------------------------------------------===*/

#include "moe/Runtime/moe_rt.h"

#include <stdio.h>
#include <stdlib.h>

static void check(int failed, const char *error) {
  if (!failed)
    return;
  fprintf(stderr, "use_shared: error: %s\n", error);
  exit(1);
}

int main(int argc, char **argv) {
  char error[1000];
  int steps = argc > 1 ? atoi(argv[1]) : 0;
  check(*moe_rt_missing(), moe_rt_missing());
  moe_rt *rt = moe_program_create(NULL, error, sizeof error);
  check(!rt, error);
  check(moe_rt_initialize(rt, 0), moe_rt_error(rt));
  int64_t count = moe_rt_token_count(rt);
  int32_t *tokens = malloc(count * sizeof *tokens);
  for (int step = 0; step < steps; ++step) {
    float loss, norm;
    check(moe_rt_random_tokens(rt, 0, step, tokens), moe_rt_error(rt));
    check(moe_rt_step(rt, tokens, count, &loss, &norm), moe_rt_error(rt));
    if (moe_rt_rank(rt) == 0)
      printf("step %d loss %.9g grad_norm %.9g\n", step + 1, loss, norm);
  }
  free(tokens);
  moe_rt_destroy(rt);
  return 0;
}
