#include "dialects/Sched/SchedTypes.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::sched;

#define GET_TYPEDEF_CLASSES
#include "dialects/Sched/SchedTypes.cpp.inc"

void SchedDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Sched/SchedTypes.cpp.inc"
      >();
}
