//===- MoeVerify.h - Shape checks shared by the ops' verifiers ------------===//

#ifndef DIALECTS_MOE_MOEVERIFY_H
#define DIALECTS_MOE_MOEVERIFY_H

#include "dialects/Moe/MoeOps.h"

namespace mlir::moe {

inline RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Error unless the value's shape is `shape` (-1: any size).
inline LogicalResult expectShape(Operation *op, StringRef name, Value value,
                                 ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> got = tensorOf(value).getShape();
  bool fits = got.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = shape[i] < 0 || shape[i] == got[i];
  if (fits)
    return success();
  InFlightDiagnostic diag = op->emitOpError() << name << " must be [";
  llvm::interleaveComma(shape, diag, [&](int64_t n) {
    if (n < 0)
      diag << "any";
    else
      diag << n;
  });
  diag << "], but got [";
  llvm::interleaveComma(got, diag);
  return diag << "]";
}

/// Error unless the value is f32.
inline LogicalResult expectF32(Operation *op, StringRef name, Value value) {
  if (tensorOf(value).getElementType().isF32() ||
      tensorOf(value).getElementType().isF64())
    return success();
  return op->emitOpError() << name << " must be f32, but got "
                           << tensorOf(value).getElementType();
}

inline int64_t dim(Value value, unsigned i) {
  auto type = tensorOf(value);
  return i < type.getRank() ? type.getDimSize(i) : -1;
}

} // namespace mlir::moe

#endif // DIALECTS_MOE_MOEVERIFY_H
