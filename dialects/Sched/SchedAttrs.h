#ifndef DIALECTS_SCHED_SCHEDATTRS_H
#define DIALECTS_SCHED_SCHEDATTRS_H

#include "dialects/Sched/SchedDialect.h"
#include "dialects/Sched/SchedEnums.h"
#include "mlir/IR/BuiltinAttributes.h"

#define GET_ATTRDEF_CLASSES
#include "dialects/Sched/SchedAttrs.h.inc"

#endif // DIALECTS_SCHED_SCHEDATTRS_H
