#ifndef DIALECTS_MOE_MOEOPS_H
#define DIALECTS_MOE_MOEOPS_H

#include "dialects/Moe/MoeInterfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::moe {
class BackwardReturnOp;
class ReturnOp;
} // namespace mlir::moe

#define GET_OP_CLASSES
#include "dialects/Moe/MoeOps.h.inc"

#endif // DIALECTS_MOE_MOEOPS_H
