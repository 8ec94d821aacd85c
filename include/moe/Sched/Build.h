//===- Build.h - From the kernels phase to a table ------------------------===//

#ifndef MOE_SCHED_BUILD_H
#define MOE_SCHED_BUILD_H

#include "mlir/IR/BuiltinOps.h"
#include "moe/Cost/System.h"
#include "moe/Schedule/Pair.h"
#include "moe/Schedule/Pipeline.h"
#include "moe/Table/Table.h"

#include <set>

namespace mlir::moe {

/// What a schedule is asked to be.
struct ScheduleOptions {
  moert::PipelineKind pipeline = moert::PipelineKind::OneFOneB;
  /// Modules whose kernels are captured as graphs ("moe_router", ...).
  std::set<std::string> captured;
  /// Share of the target's memory that arenas may have.
  double memoryShare = 0.95;
};

/// Builds the table of a module in phase kernels, or of the kernels-phase
/// program that a module in phase sched keeps, on a system.
///
/// PipelineKind::Serial is the reference: one stream, program order, no byte
/// of a temporary used twice in a call. OneFOneB orders each template on its
/// own; Paired makes templates of forward and backward pairs as well. `orders`
/// gets a report of each template that was ordered.
FailureOr<moert::Table> buildTable(ModuleOp module,
                                   const ScheduleOptions &options,
                                   const moert::System &system,
                                   std::vector<moert::OrderReport> &orders);

} // namespace mlir::moe

#endif // MOE_SCHED_BUILD_H
