//===- SchedTypes.td - Types of the sched dialect -------------*- tablegen -*-===//

#ifndef SCHED_TYPES_TD
#define SCHED_TYPES_TD

include "dialects/Sched/SchedDialect.td"
include "mlir/IR/AttrTypeBase.td"

class Sched_Type<string name, string typeMnemonic> : TypeDef<Sched_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Sched_FrameType : Sched_Type<"Frame", "frame"> {
  let summary = "A range of the arena that a call binds to an address";
  let description = [{
    Kind and size are the template's: `#sched.frame`.
  }];
}

def Sched_BufferType : Sched_Type<"Buffer", "buffer"> {
  let summary = "A typed range of a frame";
  let description = [{
    Its tensor type is that of the `sched.buffer` that defines it.
  }];
}

def Sched_EventType : Sched_Type<"Event", "event"> {
  let summary = "The moment when an op is done";
  let description = [{
    What another op, on another stream, may wait for.
  }];
}

def Sched_Frame : DialectType<Sched_Dialect,
    CPred<"::llvm::isa<::mlir::sched::FrameType>($_self)">, "frame">,
    BuildableType<"$_builder.getType<::mlir::sched::FrameType>()">;
def Sched_Buffer : DialectType<Sched_Dialect,
    CPred<"::llvm::isa<::mlir::sched::BufferType>($_self)">, "buffer">,
    BuildableType<"$_builder.getType<::mlir::sched::BufferType>()">;
def Sched_Event : DialectType<Sched_Dialect,
    CPred<"::llvm::isa<::mlir::sched::EventType>($_self)">, "event">,
    BuildableType<"$_builder.getType<::mlir::sched::EventType>()">;

#endif // SCHED_TYPES_TD
