//===- TranslateTable.cpp - moe-translate: tables -------------------------===//

#include "dialects/Moe/MoeDialect.h"
#include "dialects/Sched/SchedDialect.h"
#include "moe/Support/Phase.h"
#include "moe/Target/Table.h"

#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::moe;

static LogicalResult exportJson(Operation *op, raw_ostream &output) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    return op->emitError("expected a module");
  FailureOr<moert::Table> table = tabulate(module);
  if (failed(table))
    return failure();
  output << moert::toJson(*table);
  return success();
}

static OwningOpRef<Operation *> importJson(llvm::SourceMgr &sources,
                                           MLIRContext *context) {
  const llvm::MemoryBuffer *buffer =
      sources.getMemoryBuffer(sources.getMainFileID());
  Location loc = FileLineColLoc::get(context, buffer->getBufferIdentifier(),
                                     /*line=*/1, /*column=*/1);
  moert::Table table;
  std::string error;
  if (!moert::fromJson(buffer->getBuffer().str(), table, error)) {
    emitError(loc) << error;
    return nullptr;
  }
  std::vector<std::string> problems = moert::checkTable(table);
  for (const std::string &problem : problems)
    emitError(loc) << problem;
  if (!problems.empty())
    return nullptr;
  context->loadDialect<MoeDialect, sched::SchedDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  setPhase(*module, Phase::Sched);
  if (failed(emitSchedule(*module, table)))
    return nullptr;
  return OwningOpRef<Operation *>(module.release().getOperation());
}

void moe::registerTableTranslations() {
  static TranslateFromMLIRRegistration toJson(
      "export-json", "schedule of a module in phase sched to a table as JSON",
      exportJson, [](DialectRegistry &registry) {
        registry.insert<MoeDialect, sched::SchedDialect>();
      });
  static TranslateToMLIRRegistration fromJson(
      "import-json", "table as JSON to a module in phase sched", importJson);
}
