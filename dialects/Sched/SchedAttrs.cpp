#include "dialects/Sched/SchedAttrs.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::sched;

#include "dialects/Sched/SchedEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Sched/SchedAttrs.cpp.inc"

void SchedDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Sched/SchedAttrs.cpp.inc"
      >();
}

LogicalResult FrameAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringAttr name, FrameKind, int64_t bytes) {
  if (bytes < -1)
    return emitError() << "frame '" << name.getValue()
                       << "' can't have a negative size";
  if (bytes > kMaxBytes)
    return emitError() << "frame '" << name.getValue() << "' is too large";
  return success();
}
