#ifndef MOE_TRANSFORMS_SCHED_PASSES_TD
#define MOE_TRANSFORMS_SCHED_PASSES_TD

include "mlir/Pass/PassBase.td"

def SchedVerify : Pass<"sched-verify", "::mlir::ModuleOp"> {
  let summary = "Prove that a schedule is right";
  let description = [{
    Closes the phase `sched`. Tabulates the module's `sched.job` (addresses
    that it leaves out are planned) and runs the proofs over the table:

    * **race**: every read is after its write, every reuse after the last use
    * **agreement**: ranks issue the same collectives in the same order, sends
      meet receives, nothing waits in a cycle
    * **memory**: every arena fits the limit
    * **capture**: a graph holds no host read and no collective that eager ones
      of its communicator interleave with
    * **value**: loss, gradients and parameters are those of the serial program

    Each fault is an error at its op, with a note at the other op of the pair:

    ```mlir
    sched.template @t(%x: carried, %y: carried, %z: carried) {
      %a = sched.buffer %x : tensor<4xf32>
      %b = sched.buffer %y : tensor<4xf32>
      %c = sched.buffer %z : tensor<4xf32>
      sched.launch @copy on @compute(%a, out %b)
      // error: race: reads before it is written; needs after(...)
      sched.launch @copy on @comm(%b, out %c)
    }
    ```

    On success one line goes to the standard error stream and the module is
    unchanged.
  }];
}

#endif // MOE_TRANSFORMS_SCHED_PASSES_TD
