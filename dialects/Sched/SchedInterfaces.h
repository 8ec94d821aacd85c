#ifndef DIALECTS_SCHED_SCHEDINTERFACES_H
#define DIALECTS_SCHED_SCHEDINTERFACES_H

#include "dialects/Sched/SchedAttrs.h"
#include "dialects/Sched/SchedTypes.h"
#include "mlir/IR/OpDefinition.h"

namespace mlir::sched {
/// One effect per buffer, each of the enumeration.
LogicalResult verifyIssued(Operation *op);
} // namespace mlir::sched

#include "dialects/Sched/SchedInterfaces.h.inc"

#endif // DIALECTS_SCHED_SCHEDINTERFACES_H
