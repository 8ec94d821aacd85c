#ifndef DIALECTS_MOE_MOETYPES_H
#define DIALECTS_MOE_MOETYPES_H

#include "dialects/Moe/MoeDialect.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#define GET_TYPEDEF_CLASSES
#include "dialects/Moe/MoeTypes.h.inc"

#endif // DIALECTS_MOE_MOETYPES_H
