//===- TrainReport.h - What a run of moe-train found ----------------------===//

#ifndef MOE_LIB_PIPELINES_TRAINREPORT_H
#define MOE_LIB_PIPELINES_TRAINREPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace mlir::moe {

/// Collects numbers while the pipeline runs; says them in words and as JSON.
/// Seconds, bytes, FLOP; of the rank that has most.
class TrainReport {
public:
  /// Before anything ran.
  explicit TrainReport(ModuleOp module);
  void beforeRecompute(ModuleOp module);
  /// After everything ran.
  void collect(ModuleOp module, ArrayRef<std::string> recompute);

  void print(raw_ostream &os) const;
  /// Writes the file whole or not at all.
  LogicalResult write(ModuleOp module, StringRef path) const;

private:
  llvm::json::Object root;
};

} // namespace mlir::moe

#endif // MOE_LIB_PIPELINES_TRAINREPORT_H
