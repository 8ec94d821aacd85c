#include "dialects/Sched/SchedDialect.h"

#include "dialects/Sched/SchedOps.h"

using namespace mlir;
using namespace mlir::sched;

#include "dialects/Sched/SchedDialect.cpp.inc"

void SchedDialect::initialize() {
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialects/Sched/SchedOps.cpp.inc"
      >();
}
