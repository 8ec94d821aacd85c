//===- Program.cpp - The program that is linked in ------------------------===//

#include "moe/Runtime/Program.h"
#include "Backend.h"

moe_rt_options moert::programOptions(const moe_rt_options &options) {
  moe_rt_options own = options;
  own.kernels = moe_program.kernels;
  own.kernel_count = moe_program.kernel_count;
  own.image = moe_program.image;
  own.image_size = moe_program.image_size;
  return own;
}

moe_rt *moe_program_create(const moe_rt_options *options, char *error,
                           size_t errorSize) {
  moe_rt_options defaults{};
  defaults.threads = 2;
  defaults.poison = 1;
  moe_rt_options own = moert::programOptions(options ? *options : defaults);
  return moe_rt_create(moe_program.table, moe_program.table_size, &own, error,
                       errorSize);
}
