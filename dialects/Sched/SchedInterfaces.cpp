#include "dialects/Sched/SchedInterfaces.h"

using namespace mlir;
using namespace mlir::sched;

LogicalResult sched::verifyIssued(Operation *op) {
  auto issued = cast<IssuedOpInterface>(op);
  if (issued.getEffects().size() != issued.getBuffers().size())
    return op->emitOpError("needs one effect per buffer");
  for (int32_t effect : issued.getEffects())
    if (!symbolizeEffect(effect))
      return op->emitOpError("has an unknown effect ") << effect;
  return success();
}

#include "dialects/Sched/SchedInterfaces.cpp.inc"
