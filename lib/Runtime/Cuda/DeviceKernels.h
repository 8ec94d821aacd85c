//===- DeviceKernels.h - Kernels of the library on the device ---*- C++ -*-===//
//
// One source for both machines, in Kernels/: DeviceKernels.cu makes kernels for
// the device of it, Twins.cpp twins for the stand-in.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_DEVICEKERNELS_H
#define MOE_LIB_RUNTIME_CUDA_DEVICEKERNELS_H

#include "Arguments.h"
#include "moe/Table/Table.h"

#include <cstddef>
#include <string>

namespace moert::cuda {

/// Name of the device kernel of a library op: "moe_<op>_<f32|bf16|i32>", by the
/// type of its "x" operands, of all its operands where it has none; empty: the
/// op runs by a vendor's library (linear*, grouped_linear*, attention of bf16)
/// or by generated code.
std::string deviceKernelName(const Kernel &kernel,
                             const std::vector<Operand> &operands);

/// Blocks that use the device well.
unsigned deviceGrid(const Kernel &kernel, const Arguments &arguments);

/// The fat binary (sm_90a, sm_100a) that holds them.
extern "C" const unsigned char moe_device_kernels[];
extern "C" const size_t moe_device_kernels_size;

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_DEVICEKERNELS_H
