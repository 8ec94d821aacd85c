#ifndef DIALECTS_SCHED_SCHEDATTRS_H
#define DIALECTS_SCHED_SCHEDATTRS_H

#include "dialects/Sched/SchedDialect.h"
#include "dialects/Sched/SchedEnums.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace mlir::sched {
/// No buffer, frame or offset is larger, so that sums of them stay in range.
inline constexpr int64_t kMaxBytes = int64_t(1) << 50;
} // namespace mlir::sched

#define GET_ATTRDEF_CLASSES
#include "dialects/Sched/SchedAttrs.h.inc"

#endif // DIALECTS_SCHED_SCHEDATTRS_H
