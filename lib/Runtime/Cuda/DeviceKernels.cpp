//===- DeviceKernels.cpp - Names and grids of device kernels --------------===//

#include "DeviceKernels.h"
#include "Kernels/All.h"

#include <algorithm>

using namespace moert;
using namespace moert::cuda;
using namespace moert::cuda::kernels;

namespace {

struct DeviceKernel {
  const char *op, *name;
  int64_t (*blocks)(const Arguments &);
};

const DeviceKernel deviceKernels[] = {
#define MOE_DEVICE_KERNEL(op, type, ...)                                       \
  {#op, "moe_" #op "_" #type, __VA_ARGS__::blocks},
#include "Kernels/Kernels.def"
};

} // namespace

std::string cuda::deviceKernelName(const Kernel &kernel,
                                   const std::vector<Operand> &operands) {
  auto has = [&](ElementType type) {
    return std::any_of(operands.begin(), operands.end(),
                       [&](const Operand &o) { return o.type == type; });
  };
  // "x" operands of bf16 may come with f32 ones, those of f32 never with bf16.
  std::string name = "moe_" + kernel.op;
  name += has(ElementType::BF16)  ? "_bf16"
          : has(ElementType::F32) ? "_f32"
                                  : "_i32";
  for (const DeviceKernel &k : deviceKernels)
    if (name == k.name)
      return name;
  return "";
}

unsigned cuda::deviceGrid(const Kernel &kernel, const Arguments &arguments) {
  // The types of an op differ in nothing that matters here.
  for (const DeviceKernel &k : deviceKernels)
    if (kernel.op == k.op)
      return unsigned(k.blocks(arguments));
  return 0;
}
