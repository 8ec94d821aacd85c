//===- SchedInterfaces.td - Interfaces of the sched dialect ---*- tablegen -*-===//

#ifndef SCHED_INTERFACES_TD
#define SCHED_INTERFACES_TD

include "mlir/IR/OpBase.td"

class Sched_Get<string type, string method, string summary>
    : InterfaceMethod<summary, type, method, (ins)>;

def Sched_IssuedOpInterface : OpInterface<"IssuedOpInterface"> {
  let cppNamespace = "::mlir::sched";
  let description = [{
    An op that the host issues to a stream.
  }];
  let methods = [
    Sched_Get<"::llvm::StringRef", "getStream", "Its stream's name.">,
    Sched_Get<"::mlir::OperandRange", "getBuffers", "What it uses.">,
    Sched_Get<"::llvm::ArrayRef<int32_t>", "getEffects",
              "What it does with each buffer: Effect.">,
    Sched_Get<"::mlir::OperandRange", "getWaits",
              "Events that its stream waits for before it.">,
    Sched_Get<"::mlir::Value", "getDone", "Its event; null if unused.">,
    Sched_Get<"::llvm::StringRef", "getHalf",
              "Forward, backward, weight gradients: F, B, W; may be empty.">,
    Sched_Get<"::llvm::StringRef", "getModule", "Its module; may be empty.">,
    Sched_Get<"::llvm::StringRef", "getLocation",
              "With {i} for the layer, {mb} for the micro-batch.">,
    Sched_Get<"::llvm::APFloat", "getBytes", "Bytes moved, for pricing.">,
  ];
  let verify = "return ::mlir::sched::verifyIssued($_op);";
}

#endif // SCHED_INTERFACES_TD
