#include "moe/Tools/ScheduleFile.h"

#include "dialects/Moe/MoeOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "moe/Support/Phase.h"
#include "moe/Target/Table.h"
#include "moe/Transforms/Kernels/Passes.h"

#include <set>

using namespace mlir;
using namespace mlir::moe;

LogicalResult ScheduleFile::error(const Twine &message) const {
  llvm::errs() << tool << ": error: " << message << "\n";
  return failure();
}

LogicalResult ScheduleFile::readTable(StringRef path, StringRef text) {
  std::string reason;
  if (!moert::fromJson(text.str(), table, reason))
    return error(path + ": " + reason);
  std::vector<std::string> problems = moert::checkTable(table);
  for (const std::string &problem : problems)
    (void)error(path + ": " + problem);
  return success(problems.empty());
}

LogicalResult ScheduleFile::readModule(MLIRContext &context) {
  module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return failure();
  FailureOr<Phase> phase = getPhase(*module);
  if (failed(phase))
    return failure();
  if (*phase != Phase::Sched)
    return module->emitError()
           << "is in phase " << phaseName(*phase)
           << " and has no schedule yet; run moe-opt on it first";
  FailureOr<moert::Table> tabulated = tabulate(*module);
  if (failed(tabulated))
    return failure();
  table = std::move(*tabulated);
  return success();
}

LogicalResult ScheduleFile::read(const std::string &path,
                                 MLIRContext &context) {
  std::string reason;
  std::unique_ptr<llvm::MemoryBuffer> file = openInputFile(path, &reason);
  if (!file)
    return error(reason);
  if (StringRef(path).ends_with(".json"))
    return readTable(path, file->getBuffer());
  sources.AddNewSourceBuffer(std::move(file), SMLoc());
  return readModule(context);
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::moe::generateKernels(ModuleOp module, moert::Table &table) {
  OwningOpRef<ModuleOp> copy = ModuleOp::create(module.getLoc());
  setPhase(*copy, Phase::Kernels);
  OpBuilder builder = OpBuilder::atBlockEnd(copy->getBody());
  for (KernelOp kernel : module.getOps<KernelOp>())
    builder.clone(*kernel);
  PassManager manager(copy->getContext());
  manager.addPass(createGenerateKernels());
  if (failed(manager.run(*copy)))
    return failure();
  std::set<std::string> generated;
  for (KernelOp kernel : copy->getOps<KernelOp>())
    if (!kernel.getBody().empty())
      generated.insert(kernel.getSymName().str());
  for (moert::Kernel &kernel : table.kernels)
    if (generated.count(kernel.name))
      kernel.provider = moert::Provider::Generated;
  return copy;
}
