//===- MoeInterfaces.td - Op interfaces of the moe dialect ----*- tablegen -*-===//

#ifndef MOE_INTERFACES_TD
#define MOE_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Moe_ComputeOpInterface : OpInterface<"ComputeOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op that becomes a kernel. The kernel's name is the op's mnemonic, its
    operands are the op's operands and then its results; see
    include/moe/Runtime/Kernels.h. An op with a tied result updates its last
    operand in place.
  }];
  let methods = [
    InterfaceMethod<"The module that the op belongs to.",
      "::mlir::moe::Module", "getOpModule", (ins), [{}],
      [{ return $_op.getModule(); }]>,
    InterfaceMethod<"Floating-point operations under balanced routing.",
      "double", "getFlops", (ins), [{}], [{ return 0; }]>,
    InterfaceMethod<"Bytes read and written under balanced routing.",
      "double", "getBytes", (ins), [{}],
      [{ return ::mlir::moe::bytesMoved($_op); }]>,
    InterfaceMethod<"Numbers that the kernel needs beside shapes.",
      "::mlir::DictionaryAttr", "getKernelAttributes", (ins), [{}],
      [{ return ::mlir::DictionaryAttr::get($_op->getContext()); }]>,
    InterfaceMethod<"What is promised of the kernel's bits.",
      "::mlir::moe::NumericClass", "getNumericClass", (ins), [{}],
      [{ return ::mlir::moe::NumericClass::RowInvariant; }]>,
    InterfaceMethod<"Whether the (single) result updates the last operand.",
      "bool", "accumulates", (ins), [{}], [{ return false; }]>,
  ];
}

def Moe_DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op with a backward. `saved` maps a value of the forward (operand or
    result of this op) to its stand-in inside the backward region: asking for
    one makes it a saved value (parameters are re-declared instead).
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the cotangents of the operands, in order, from those of the
      results (null: zero). Null for operands that have none: integers,
      `!moe.rows`, the weight operand.
    }], "::llvm::SmallVector<::mlir::Value>", "buildDataGrad",
      (ins "::mlir::OpBuilder &":$builder,
           "::mlir::ArrayRef<::mlir::Value>":$cotangents,
           "::llvm::function_ref<::mlir::Value(::mlir::Value)>":$saved)>,
    InterfaceMethod<"Operand number of the parameter, -1: none.",
      "int64_t", "getWeightOperand", (ins), [{}], [{ return -1; }]>,
    InterfaceMethod<[{
      Adds the weight's gradient to `accumulator` (f32, the weight's shape) and
      returns the sum.
    }], "::mlir::Value", "buildWeightGrad",
      (ins "::mlir::OpBuilder &":$builder,
           "::mlir::ArrayRef<::mlir::Value>":$cotangents,
           "::mlir::Value":$accumulator,
           "::llvm::function_ref<::mlir::Value(::mlir::Value)>":$saved),
      [{}], [{ return {}; }]>,
  ];
}

def Moe_DistributedOpInterface : OpInterface<"DistributedOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    How distributions pass through an op; the default is that of an op that
    treats each rank's values on their own: the data that it reads lie alike,
    and are whole; the parameter is invariant, or sharded by expert; the
    results lie as the data do.
  }];
  let methods = [
    InterfaceMethod<"Operand number of the parameter, -1: none.",
      "int64_t", "getParameterOperand", (ins), [{}], [{
        auto op = ::llvm::dyn_cast<::mlir::moe::DifferentiableOpInterface>(
            $_op.getOperation());
        return op ? op.getWeightOperand() : -1;
      }]>,
    InterfaceMethod<[{
      Distribution of each result from those of the operands (null: a value
      without one, such as `!moe.rows`). Emits an error at the op if an operand
      can't be used like that.
    }], "::llvm::LogicalResult", "inferDistribution",
      (ins "::mlir::ArrayRef<::mlir::moe::DistAttr>":$operands,
           "::llvm::SmallVectorImpl<::mlir::moe::DistAttr> &":$results),
      [{}], [{
        return ::mlir::moe::inferRankwise($_op, operands, results);
      }]>,
  ];
}

def Moe_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An op that all ranks of an axis run together. Bytes are those of this
    rank's input under balanced routing.
  }];
  let methods = [
    InterfaceMethod<"The axis: dp, ep, edp.", "::llvm::StringRef",
      "getAxisName", (ins), [{}], [{ return $_op.getAxis(); }]>,
    InterfaceMethod<"The module that the op belongs to.",
      "::mlir::moe::Module", "getOpModule", (ins), [{}],
      [{ return $_op.getModule(); }]>,
    InterfaceMethod<"Bytes of this rank's input.", "double", "getBytes", (ins),
      [{}], [{ return ::mlir::moe::inputBytes($_op); }]>,
  ];
}

#endif // MOE_INTERFACES_TD
