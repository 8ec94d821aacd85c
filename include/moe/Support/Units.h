//===- Units.h - Amounts in words -------------------------------*- C++ -*-===//

#ifndef MOE_SUPPORT_UNITS_H
#define MOE_SUPPORT_UNITS_H

#include <string>

namespace mlir::moe {

/// "59.59 GiB", "418.25 KiB", "12 bytes".
std::string describeBytes(double bytes);

/// "29.157 s", "8.565 ms", "12.400 us".
std::string describeSeconds(double seconds);

/// "23.006 GFLOP", "1.310 MFLOP".
std::string describeFlops(double flops);

} // namespace mlir::moe

#endif // MOE_SUPPORT_UNITS_H
