#ifndef DIALECTS_SCHED_SCHEDDIALECT_H
#define DIALECTS_SCHED_SCHEDDIALECT_H

#include "mlir/IR/Dialect.h"

#include "dialects/Sched/SchedDialect.h.inc"

#endif // DIALECTS_SCHED_SCHEDDIALECT_H
