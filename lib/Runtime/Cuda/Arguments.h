//===- Arguments.h - What a device kernel is launched with ------*- C++ -*-===//
//
// Device kernels of the library (DeviceKernels.h) take one of these by value:
// all of a launch that the table says. The grid may be of any size.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_ARGUMENTS_H
#define MOE_LIB_RUNTIME_CUDA_ARGUMENTS_H

#include <cstdint>

namespace moert::cuda {

inline constexpr int kMaxOperands = 12, kMaxRank = 4, kMaxNumbers = 8;
/// Threads of a block, of library and generated kernels alike.
inline constexpr unsigned kBlock = 256;

/// Operands in the order of Kernels.h, numbers in the alphabetical order of
/// their names.
struct Arguments {
  void *pointers[kMaxOperands];
  int64_t bytes[kMaxOperands];
  /// Missing dimensions are 1.
  int64_t dims[kMaxOperands][kMaxRank];
  double numbers[kMaxNumbers];
  /// Of the stream that it runs on, for library kernels alone, at least
  /// kScratchBytes, zero before the first launch: kernels count in it, and
  /// leave their counters 0.
  void *scratch;
  int32_t operands;
  /// 0: reads, 1: writes, 2: both (Effect of Table.h).
  uint8_t effects[kMaxOperands];
};

inline constexpr int64_t kScratchBytes = 64 << 10;

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_ARGUMENTS_H
