//===- Twins.cpp - Host twins of the test's kernels -------------*- C++ -*-===//

#include "lib/Runtime/Cuda/Arguments.h"
#include "lib/Runtime/Cuda/Twin.h"

using moert::cuda::Arguments;

namespace {

int ranges(void **parameters, moe_range *ranges) {
  auto &a = *static_cast<Arguments *>(parameters[0]);
  for (int i = 0; i < a.operands; ++i)
    ranges[i] = {a.pointers[i], a.bytes[i], a.effects[i]};
  return a.operands;
}

void scale(void **parameters, unsigned) {
  auto &a = *static_cast<Arguments *>(parameters[0]);
  auto *x = static_cast<const float *>(a.pointers[0]);
  auto *y = static_cast<float *>(a.pointers[1]);
  for (int64_t i = 0; i < a.bytes[1] / int64_t(sizeof(float)); ++i)
    y[i] = float(a.numbers[0]) * x[i];
}

void twice(void **pointers) {
  for (int i = 0; i < 4; ++i)
    static_cast<float *>(pointers[1])[i] =
        2 * static_cast<const float *>(pointers[0])[i];
}

const int64_t kTwiceBytes[] = {16, 16};
const uint8_t kTwiceEffects[] = {MOE_READ, MOE_WRITE};

} // namespace

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): names of C
extern const moe_twin moe_twins[] = {{"moe_test_scale", ranges, scale}};
extern const size_t moe_twin_count = 1;
extern const moe_generated_twin moe_generated_twins[] = {
    {"moe_kernel_double", twice, kTwiceBytes, kTwiceEffects, 2}};
extern const size_t moe_generated_twin_count = 1;
// NOLINTEND(readability-identifier-naming)
}
