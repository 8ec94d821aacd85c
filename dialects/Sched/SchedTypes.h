#ifndef DIALECTS_SCHED_SCHEDTYPES_H
#define DIALECTS_SCHED_SCHEDTYPES_H

#include "dialects/Sched/SchedDialect.h"
#include "mlir/IR/BuiltinTypes.h"

#define GET_TYPEDEF_CLASSES
#include "dialects/Sched/SchedTypes.h.inc"

#endif // DIALECTS_SCHED_SCHEDTYPES_H
