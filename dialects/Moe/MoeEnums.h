#ifndef DIALECTS_MOE_MOEENUMS_H
#define DIALECTS_MOE_MOEENUMS_H

#include "mlir/IR/BuiltinAttributes.h"

#include "dialects/Moe/MoeEnums.h.inc"

#endif // DIALECTS_MOE_MOEENUMS_H
