#ifndef MOE_PIPELINES_PASSES_TD
#define MOE_PIPELINES_PASSES_TD

include "mlir/Pass/PassBase.td"

def Train : Pass<"moe-train", "::mlir::ModuleOp"> {
  let summary = "From whatever phase the module is in to a proven schedule";
  let description = [{
    The driver behind `moe-opt --overlap-ep --recompute=moe,norm input.mlir`:
    reads the module's phase and runs the rest of the pipeline from there; each
    phase ends in its verifier, the schedule in the five proofs. An option
    whose pass lies before the module's phase is an error.

    | phase | passes |
    | --- | --- |
    | model | `moe-verify-model`, `moe-partition`, `moe-verify-spmd` |
    | spmd | `moe-differentiate`, `moe-verify-training` |
    | training | `moe-form-kernels` |
    | kernels | `moe-recompute`, `moe-verify-kernels`, `moe-overlap-ep` or `moe-pipeline` |
    | sched | `moe-shrink-schedule`, `sched-verify` |

    What each transform did goes to the standard error stream, and to
    `report` as JSON.
  }];
  let options = [
    Option<"layout", "layout", "std::string", "\"\"",
           "Layout in place of the module's: keys as of --import-hf">,
    Option<"target", "target", "std::string", "\"\"",
           "Target in place of the module's: h100xN, gb200xN">,
    ListOption<"recompute", "recompute", "std::string",
               "Modules that backward computes again">,
    ListOption<"cudaGraph", "cuda-graph", "std::string",
               "Modules whose kernels become graphs">,
    Option<"overlapEp", "overlap-ep", "bool", "false",
           "Hide dispatch and combine behind another micro-batch">,
    Option<"schedule", "schedule", "std::string", "\"\"",
           "serial, 1f1b (default) or paired">,
    Option<"memoryLimit", "memory-limit", "double", "0.95",
           "Share of the target's memory that a rank may have">,
    Option<"shrink", "shrink", "int64_t", "1",
           "Divide widths, vocabulary and sequence; order and prices stay">,
    Option<"lr", "lr", "double", "1e-3", "Learning rate of AdamW">,
    Option<"beta1", "beta1", "double", "0.9", "Decay of the first moment">,
    Option<"beta2", "beta2", "double", "0.999", "Decay of the second moment">,
    Option<"adamEps", "adam-eps", "double", "1e-8",
           "Added to AdamW's divisor">,
    Option<"weightDecay", "weight-decay", "double", "0",
           "Decoupled weight decay">,
    Option<"clip", "clip", "double", "0",
           "Largest gradient norm, 0: not clipped">,
    Option<"report", "report", "std::string", "\"\"",
           "Write the report to this file as JSON">
  ];
}

#endif // MOE_PIPELINES_PASSES_TD
