//===- Twins.cpp - Kernels.def for the host -------------------------------===//
//
// The list that Twin.h asks of a shared object: the device's source, run by a
// group of one thread.
//
//===----------------------------------------------------------------------===//

#include "Kernels/All.h"
#include "Twin.h"

#include <type_traits>

using namespace moert::cuda;
using namespace moert::cuda::kernels;

namespace {

const Arguments &argumentsOf(void **parameters) {
  return *static_cast<const Arguments *>(parameters[0]);
}

template <typename Kernel> void run(void **parameters, unsigned grid) {
  typename Kernel::Shared shared;
  for (unsigned block = 0; block < grid; ++block)
    Kernel::run(HostBlock(block, grid), shared, argumentsOf(parameters));
}

template <typename Kernel> int ranges(void **parameters, moe_range *ranges) {
  const Arguments &a = argumentsOf(parameters);
  int count = 0;
  for (int i = 0; i < a.operands; ++i)
    ranges[count++] = {a.pointers[i], a.bytes[i], a.effects[i]};
  if (Kernel::kUsesScratch)
    ranges[count++] = {a.scratch, kScratchBytes, MOE_READ_WRITE};
  return count;
}

} // namespace

extern "C" {
extern const moe_twin moe_twins[];
extern const size_t moe_twin_count;

#define MOE_DEVICE_KERNEL(op, type, ...)                                       \
  {"moe_" #op "_" #type, ranges<__VA_ARGS__>, run<__VA_ARGS__>},
const moe_twin moe_twins[] = {
#include "Kernels/Kernels.def"
};
const size_t moe_twin_count = std::extent<decltype(moe_twins)>::value;
}
