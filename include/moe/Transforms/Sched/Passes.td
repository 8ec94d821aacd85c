#ifndef MOE_TRANSFORMS_SCHED_PASSES_TD
#define MOE_TRANSFORMS_SCHED_PASSES_TD

include "mlir/Pass/PassBase.td"

def SchedVerify : Pass<"sched-verify", "::mlir::ModuleOp"> {
  let summary = "Prove that a schedule is right";
  let description = [{
    Closes the phase `sched`. Tabulates the module's `sched.job` (addresses
    that it leaves out are planned) and runs the proofs over the table:

    * **race**: every read is after its write, every reuse after the last use,
      every grouped product after the `sched.host_read` of its rows
    * **agreement**: ranks issue the same collectives in the same order, sends
      meet receives, nothing waits in a cycle
    * **memory**: every arena fits the limit
    * **capture**: a graph holds no host read, no grouped product, which the
      host launches by rows that it knows, and no collective that eager ones of
      its communicator interleave with
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

def Pipeline : Pass<"moe-pipeline", "::mlir::ModuleOp"> {
  let summary = "Schedule a step: order of micro-batches, streams, memory";
  let description = [{
    From phase `kernels` to phase `sched`. Lowers each layer to templates of
    launches and collectives over buffers, each stage to a program of calls in
    pipeline order, and adds transfers between stages, events between streams,
    and addresses. The kernels-phase program stays in the module: the proofs
    read it.

    `serial` is the reference that every other schedule must equal bit for bit:
    one stream, program order. `1f1b` has pp - stage - 1 forwards before the
    first backward. `paired` has 2 (pp - stage - 1) + 1, and pairs forward and
    backward of layers that exchange rows, whatever that costs; see
    `moe-overlap-ep`.

    ```mlir
    // Before
    moe.layer @decoder(%x: tensor<16x32xf32>) -> tensor<16x32xf32> {
      %n = moe.call @rms_norm_0(%x, %w) module(norm) : ...
    // After, beside it
    sched.template @decoder_fwd(%in: carried, ...) {
      %x = sched.buffer %in : tensor<16x32xf32>
      sched.launch @rms_norm_0 on @compute(%x, %w, out %n)
    ```
  }];
  let dependentDialects = ["::mlir::sched::SchedDialect"];
  let options = [
    Option<"schedule", "schedule", "std::string", /*default=*/"\"1f1b\"",
           "serial, 1f1b or paired">,
    ListOption<"capture", "capture", "std::string",
               "Modules whose kernels become graphs: moe_router, "
               "moe_preprocess">,
    Option<"memoryShare", "memory-share", "double", /*default=*/"0.95",
           "Share of the target's memory that a rank may have">
  ];
}

def OverlapEp : Pass<"moe-overlap-ep", "::mlir::ModuleOp"> {
  let summary = "Hide dispatch and combine behind another micro-batch";
  let description = [{
    Pairs the forward of one micro-batch with the backward of another: while
    one exchanges rows, the other computes. From phase `kernels`, or on a
    schedule that `moe-pipeline` made, which is then made anew.

    The order of each pair's ops is searched on the target's costs, from
    Megatron's combined 1F1B as the first incumbent, so it is never worse under
    these costs; the report says how far it is from what no order can beat.
    Without virtual stages a pair needs a deeper warm-up, 2 (pp - stage - 1) + 1
    forwards: where memory forbids that, or where it prices no better, 1F1B is
    kept and the report says why.

    ```mlir
    // Before: two templates, one after the other
    sched.call @decoder_fwd ... mb 1    // attention, dispatch, experts, combine
    sched.call @decoder_bwd ... mb 0
    // After: one template, two streams
    sched.template @pair_decoder_fwd_decoder_bwd(...) {
      sched.collective all_to_all on @comm ...     // backward's combine
      sched.launch @attention_0 on @compute ...    // hides it
    ```
  }];
  let dependentDialects = ["::mlir::sched::SchedDialect"];
  let options = [
    ListOption<"capture", "capture", "std::string",
               "Modules whose kernels become graphs (from phase kernels)">,
    Option<"memoryShare", "memory-share", "double", /*default=*/"0.95",
           "Share of the target's memory that a rank may have">
  ];
}

def GraphScopes : Pass<"moe-graph-scopes", "::mlir::ModuleOp"> {
  let summary = "Capture kernels of modules as graphs";
  let description = [{
    Makes the module's schedule anew with consecutive kernels of the named
    modules captured as graphs: one launch by the host for all of them. What a
    graph can't hold (host reads, collectives of communicators that are used
    eagerly) is never in a scope.

    ```mlir
    // Before
    sched.launch @linear_4 on @compute ...   // module(moe_router)
    sched.launch @route_0 on @compute ...
    // After --moe-graph-scopes=modules=moe_router
    sched.capture "F_moe_router" {
      sched.launch @linear_4 on @compute ...
      sched.launch @route_0 on @compute ...
    }
    ```
  }];
  let dependentDialects = ["::mlir::sched::SchedDialect"];
  let options = [
    ListOption<"modules", "modules", "std::string",
               "Modules to capture: moe_router, moe_preprocess">
  ];
}

def ShrinkSchedule : Pass<"moe-shrink-schedule", "::mlir::ModuleOp"> {
  let summary = "The same schedule at small width";
  let description = [{
    Divides the widths of the kernels-phase program that a schedule was made
    from (`moe-shrink`) and makes the schedule anew, as it was recorded. Prices
    are those of the original sizes, so the order, the pairs and the captures
    are the same; buffers, addresses and numbers are those of a model that this
    machine can train.

    ```mlir
    // Before
    sched.launch @linear_0 on @compute(%x, %w, out %y)  // 4096x2048
    // After --moe-shrink-schedule=factor=32
    sched.launch @linear_0 on @compute(%x, %w, out %y)  // 128x64
    ```
  }];
  let dependentDialects = ["::mlir::sched::SchedDialect"];
  let options = [
    Option<"factor", "factor", "int64_t", /*default=*/"1",
           "What sizes are divided by">
  ];
}

#endif // MOE_TRANSFORMS_SCHED_PASSES_TD
