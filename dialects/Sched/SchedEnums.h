#ifndef DIALECTS_SCHED_SCHEDENUMS_H
#define DIALECTS_SCHED_SCHEDENUMS_H

#include "mlir/IR/BuiltinAttributes.h"

#include "dialects/Sched/SchedEnums.h.inc"

#endif // DIALECTS_SCHED_SCHEDENUMS_H
