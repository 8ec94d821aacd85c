//===- Schedule.h - Schedules of a module ---------------------------------===//
//
// What the passes of area Sched do: make a schedule from the kernels-phase
// program, which stays in the module, put it into the module as sched.job, and
// record in the attribute `moe.schedule` what was asked for and what was found.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TRANSFORMS_SCHED_SCHEDULE_H
#define MOE_TRANSFORMS_SCHED_SCHEDULE_H

#include "moe/Sched/Build.h"

namespace mlir::moe {

/// The attribute that records how a schedule was made. Keys: `pipeline`
/// ("serial", "1f1b", "paired"), `captured`, `memory_share`, and `report`.
inline constexpr StringLiteral kScheduleAttr = "moe.schedule";

/// "serial", "1f1b", "paired".
StringRef pipelineName(moert::PipelineKind kind);
std::optional<moert::PipelineKind> parsePipeline(StringRef name);

/// The options that the module's schedule was made with; an error if it has
/// none.
FailureOr<ScheduleOptions> recordedOptions(ModuleOp module);

/// Sets `options.captured` from module names; an error that lists the scopes
/// that can be captured for any other.
LogicalResult parseCapture(ModuleOp module, ArrayRef<std::string> names,
                           ScheduleOptions &options);

/// The system that the module's `moe.target` names.
FailureOr<moert::System> targetSystem(ModuleOp module);

/// Makes the schedule that `options` ask for, whatever it costs.
LogicalResult scheduleModule(ModuleOp module, const ScheduleOptions &options);

/// Pairs forward and backward of layers that exchange rows, if that fits the
/// memory and its price is lower; else 1F1B, and the report says why.
LogicalResult overlapExpertParallel(ModuleOp module, ScheduleOptions options);

/// Makes the module's schedule anew, as it was recorded, after its
/// kernels-phase program has changed.
LogicalResult rebuildSchedule(ModuleOp module);

} // namespace mlir::moe

#endif // MOE_TRANSFORMS_SCHED_SCHEDULE_H
