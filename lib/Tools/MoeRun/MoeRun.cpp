//===- MoeRun.cpp - Run a schedule on the host engine ---------------------===//

#include "moe/Tools/MoeRun.h"

#include "mlir/IR/AsmState.h"
#include "moe/Runtime/Train.h"
#include "moe/Target/HostKernels.h"
#include "moe/Target/Table.h"
#include "moe/Tools/ScheduleFile.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

namespace {

struct Options {
  cl::OptionCategory category{"moe-run"};
  cl::opt<std::string> input{cl::Positional, cl::Required,
                             cl::desc("<schedule.mlir | table.json>"),
                             cl::cat(category)};
  cl::opt<unsigned> steps{"steps", cl::desc("Steps to train (default 1)"),
                          cl::init(1), cl::cat(category)};
  cl::opt<unsigned> threads{"threads", cl::desc("Threads (default 2)"),
                            cl::init(2), cl::cat(category)};
  cl::opt<uint64_t> orderSeed{
      "order-seed",
      cl::desc("Run any op that streams and events permit, chosen by this "
               "seed; 0 (default): in issue order where possible"),
      cl::init(0), cl::cat(category)};
  cl::opt<uint64_t> seed{
      "seed", cl::desc("Seed of random weights and tokens (default 0)"),
      cl::init(0), cl::cat(category)};
  cl::opt<std::string> weights{"weights",
                               cl::desc("Start from this .safetensors file"),
                               cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> tokens{
      "tokens",
      cl::desc("Train on 'tokens' [steps][samples][sequence + 1] of this "
               ".safetensors file; used again from the start when --steps "
               "exceeds them"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> save{"save",
                            cl::desc("Write the weights after the last step"),
                            cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> saveGradients{
      "save-gradients", cl::desc("Write the gradients of the last step"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<bool> noVerify{"no-verify",
                         cl::desc("Run without proving the schedule first"),
                         cl::cat(category)};
  cl::opt<bool> libraryKernels{
      "library-kernels",
      cl::desc("Run the library's kernels only; else those over rows are "
               "compiled from the program (same bits)"),
      cl::cat(category)};
  cl::opt<bool> noTiming{"no-timing", cl::desc("Leave out tokens/s"),
                         cl::cat(category)};
};

LogicalResult error(const Twine &message) {
  llvm::errs() << "moe-run: error: " << message << "\n";
  return failure();
}

moert::TrainingRun trainingRun(const Options &options) {
  moert::TrainingRun run;
  run.steps = options.steps;
  run.seed = options.seed;
  run.weights = options.weights;
  run.tokens = options.tokens;
  run.save = options.save;
  run.saveGradients = options.saveGradients;
  run.timing = !options.noTiming;
  return run;
}

using GeneratedKernels = std::map<std::string, moert::GeneratedKernel>;

LogicalResult train(const moert::Table &table, const GeneratedKernels &kernels,
                    const Options &options) {
  std::string reason;
  moert::EngineOptions engineOptions;
  engineOptions.threads = options.threads;
  engineOptions.orderSeed = options.orderSeed;
  std::unique_ptr<moert::Engine> engine =
      moert::Engine::create(table, engineOptions, kernels, reason);
  if (!engine)
    return error(reason);
  reason = moert::train(*engine, trainingRun(options));
  return reason.empty() ? success() : error(reason);
}

} // namespace

LogicalResult moe::moeRunMain(int argc, char **argv,
                              DialectRegistry &registry) {
  // Of libLLVM's options none is ours, and some have our names.
  cl::ResetCommandLineParser();
  Options options;
  cl::HideUnrelatedOptions(options.category);
  cl::ParseCommandLineOptions(argc, argv,
                              "moe-run: train a schedule on this machine\n");
  if (options.steps < 1)
    return error("--steps must be at least 1");
  if (options.threads < 1 || options.threads > 1024)
    return error("--threads must be between 1 and 1024");
  std::string reason = moert::checkOutputs(trainingRun(options));
  if (!reason.empty())
    return error(reason);

  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  ScheduleFile schedule("moe-run", sources);
  if (failed(schedule.read(options.input, context)))
    return failure();
  ModuleOp module = schedule.getModule();
  if (!options.noVerify && failed(proveSchedule(schedule.getTable(), module,
                                                &context, llvm::errs())))
    return failure();
  if (!module || options.libraryKernels)
    return train(schedule.getTable(), {}, options);
  FailureOr<OwningOpRef<ModuleOp>> generated = schedule.generateKernels();
  if (failed(generated))
    return failure();
  FailureOr<HostKernels> kernels = HostKernels::compile(**generated);
  if (failed(kernels))
    return failure();
  return train(schedule.getTable(), kernels->getFunctions(), options);
}
