//===- Table.h - Schedules as IR and as tables ----------------------------===//
//
// A module in phase sched holds one sched.job, which is a table in words; these
// take one to the other without loss.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TARGET_TABLE_H
#define MOE_TARGET_TABLE_H

#include "dialects/Moe/MoeOps.h"
#include "dialects/Sched/SchedOps.h"
#include "moe/Table/Table.h"

namespace mlir::moe {

/// The table of the module's sched.job, well-formed (moert::checkTable), with
/// all addresses that the job leaves out planned. Errors at the op.
FailureOr<moert::Table> tabulate(ModuleOp module);

/// Replaces the module's sched.job, if any, by one for `table`, which must be
/// well-formed; leaves everything else. Captures are numbered anew, in issue
/// order. Fails, with an error at the module and nothing changed, if two
/// objects of the table share a name: as symbols they must differ.
LogicalResult emitSchedule(ModuleOp module, const moert::Table &table);

/// The kernel of a table that a moe.kernel stands for.
moert::Kernel tableKernel(KernelOp kernel);

/// The op that is op `op` of template `tmpl` in the table of the module; null:
/// there is none.
Operation *findIssuedOp(ModuleOp module, int64_t tmpl, int64_t op);

/// Runs the five proofs (moert::verify). `module` is where the table is from,
/// null: a file. Each fault is an error at its op. On success one line to
/// `report` says what was proven; which proofs could not be run, and why, is
/// said in it, too.
LogicalResult proveSchedule(const moert::Table &table, ModuleOp module,
                            MLIRContext *context, raw_ostream &report);

/// moe-translate --export-json, --import-json.
void registerTableTranslations();

} // namespace mlir::moe

#endif // MOE_TARGET_TABLE_H
