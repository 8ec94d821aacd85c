#include "moe/Support/Units.h"

#include "mlir/Support/LLVM.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::moe;

std::string mlir::moe::describeBytes(double bytes) {
  static const StringLiteral units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  unsigned unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return llvm::formatv(unit ? "{0:f2} {1}" : "{0:f0} {1}", bytes, units[unit]);
}

std::string mlir::moe::describeSeconds(double seconds) {
  if (seconds >= 0.1 || seconds < 1e-9)
    return llvm::formatv("{0:f3} s", seconds);
  if (seconds >= 1e-4)
    return llvm::formatv("{0:f3} ms", seconds * 1e3);
  return llvm::formatv("{0:f3} us", seconds * 1e6);
}

std::string mlir::moe::describeFlops(double flops) {
  if (flops >= 1e8)
    return llvm::formatv("{0:f3} GFLOP", flops / 1e9);
  return llvm::formatv("{0:f3} MFLOP", flops / 1e6);
}
