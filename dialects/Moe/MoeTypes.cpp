#include "dialects/Moe/MoeTypes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::moe;

#define GET_TYPEDEF_CLASSES
#include "dialects/Moe/MoeTypes.cpp.inc"

void MoeDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Moe/MoeTypes.cpp.inc"
      >();
}

LogicalResult RowsType::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t groups, int64_t mean) {
  if (groups < 1)
    return emitError() << "rows need at least one group, but got " << groups;
  if (mean < 0)
    return emitError() << "mean must not be negative, but is " << mean;
  return success();
}
