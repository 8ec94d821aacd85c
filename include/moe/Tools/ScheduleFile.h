//===- ScheduleFile.h - What tools that run schedules read ------*- C++ -*-===//

#ifndef MOE_TOOLS_SCHEDULEFILE_H
#define MOE_TOOLS_SCHEDULEFILE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "moe/Table/Table.h"

#include "llvm/Support/SourceMgr.h"

namespace mlir::moe {

/// Kernels over rows of a schedule with their code (moe-generate-kernels), in a
/// module of their own, since a schedule is the same for every target. Marks
/// them in its table.
FailureOr<OwningOpRef<ModuleOp>> generateKernels(ModuleOp module,
                                                 moert::Table &table);

/// A schedule from a file: a module in phase sched, or a table (.json).
class ScheduleFile {
public:
  /// `tool` begins its error messages. `sources` must outlive this.
  ScheduleFile(StringRef tool, llvm::SourceMgr &sources)
      : tool(tool), sources(sources) {}

  LogicalResult read(const std::string &path, MLIRContext &context);

  const moert::Table &getTable() const { return table; }
  /// Null: the file was a table.
  ModuleOp getModule() const { return module ? *module : ModuleOp(); }

  FailureOr<OwningOpRef<ModuleOp>> generateKernels() {
    return moe::generateKernels(*module, table);
  }

private:
  LogicalResult error(const Twine &message) const;
  LogicalResult readTable(StringRef path, StringRef text);
  LogicalResult readModule(MLIRContext &context);

  StringRef tool;
  llvm::SourceMgr &sources;
  moert::Table table;
  OwningOpRef<ModuleOp> module;
};

} // namespace mlir::moe

#endif // MOE_TOOLS_SCHEDULEFILE_H
