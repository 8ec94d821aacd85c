#include "moe/Pipelines/FrontDoor.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "moe/Pipelines/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ManagedStatic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace mlir::moe;
using llvm::cl::desc;

namespace {

llvm::cl::OptionCategory category("Training schedules (run moe-train)");

/// The flags; each knows whether it was given.
struct Flags {
  template <typename T> struct Flag : llvm::cl::opt<T> {
    Flag(const char *name, const char *text)
        : llvm::cl::opt<T>(StringRef(name), desc(text),
                           llvm::cl::cat(category)) {}
  };
  struct ListFlag : llvm::cl::list<std::string> {
    ListFlag(const char *name, const char *text)
        : llvm::cl::list<std::string>(StringRef(name), desc(text),
                                      llvm::cl::CommaSeparated,
                                      llvm::cl::cat(category)) {}
  };

  Flag<std::string> layout{"layout", "Layout, such as ep=16,pp=2"};
  Flag<std::string> target{"target", "Target, such as h100x16 or gb200x256"};
  ListFlag recompute{"recompute", "Modules that backward computes again"};
  ListFlag cudaGraph{"cuda-graph", "Modules whose kernels become graphs"};
  Flag<bool> overlapEp{"overlap-ep",
                       "Hide dispatch and combine behind another micro-batch"};
  Flag<std::string> schedule{"schedule", "serial, 1f1b or paired"};
  Flag<double> memoryLimit{"memory-limit",
                           "Share of the target's memory a rank may have"};
  Flag<int64_t> shrink{"shrink", "Divide widths, vocabulary and sequence"};
  Flag<double> lr{"lr", "Learning rate of AdamW"};
  Flag<double> beta1{"beta1", "Decay of AdamW's first moment"};
  Flag<double> beta2{"beta2", "Decay of AdamW's second moment"};
  Flag<double> adamEps{"adam-eps", "Added to AdamW's divisor"};
  Flag<double> weightDecay{"weight-decay", "Decoupled weight decay"};
  Flag<double> clip{"clip", "Largest gradient norm, 0: not clipped"};
  Flag<std::string> report{"report", "Write the report to this file as JSON"};
  Flag<bool> train{"train", "Schedule with all defaults"};

  /// The flags that were given, each with its value as text.
  std::vector<std::pair<std::string, std::string>> given() const {
    std::vector<std::pair<std::string, std::string>> result;
    auto add = [&](const llvm::cl::Option &option, std::string value) {
      if (option.getNumOccurrences() > 0)
        result.emplace_back(option.ArgStr.str(), std::move(value));
    };
    add(layout, layout);
    add(target, target);
    add(recompute, llvm::join(recompute, ","));
    add(cudaGraph, llvm::join(cudaGraph, ","));
    add(overlapEp, overlapEp ? "true" : "false");
    add(schedule, schedule);
    add(memoryLimit, text(memoryLimit));
    add(shrink, std::to_string(shrink));
    add(lr, text(lr));
    add(beta1, text(beta1));
    add(beta2, text(beta2));
    add(adamEps, text(adamEps));
    add(weightDecay, text(weightDecay));
    add(clip, text(clip));
    add(report, report);
    add(train, "");
    return result;
  }

  std::string names() const {
    return llvm::join(
        llvm::map_range(given(),
                        [](const auto &flag) { return "--" + flag.first; }),
        ", ");
  }

  /// Options of moe-train as text: the pass then knows which were given.
  FailureOr<std::string> passOptions() const {
    std::string options;
    for (const auto &[name, value] : given()) {
      if (name == train.ArgStr)
        continue;
      StringRef quote = StringRef(value).contains('"') ? "'" : "\"";
      if (StringRef(value).contains(quote)) {
        llvm::errs() << "error: --" << name << "=" << value
                     << " has quotes of both kinds\n";
        return failure();
      }
      options += llvm::formatv("{0}={1}{2}{1} ", name, quote, value).str();
    }
    return options;
  }

private:
  /// All digits of it.
  static std::string text(double value) {
    return llvm::formatv("{0:e17}", value).str();
  }
};

llvm::ManagedStatic<Flags> flags;

} // namespace

void mlir::moe::registerFrontDoor() { *flags; }

bool mlir::moe::hasFrontDoorFlags() { return !flags->given().empty(); }

LogicalResult mlir::moe::runFrontDoor(StringRef input, StringRef output,
                                      DialectRegistry &registry) {
  // Names of layers are locations: they must survive to the next tool.
  auto &registered = llvm::cl::getRegisteredOptions();
  if (auto it = registered.find("mlir-print-debuginfo");
      it != registered.end() && it->second->getNumOccurrences() == 0)
    it->second->addOccurrence(0, "mlir-print-debuginfo", "true");
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  MlirOptMainConfig explicitPasses = config;
  config.setPassPipelineSetupFn([&](PassManager &manager) -> LogicalResult {
    if (failed(explicitPasses.setupPassPipeline(manager)))
      return failure();
    if (!manager.empty()) {
      llvm::errs() << "error: " << flags->names()
                   << " can't be mixed with explicit passes; give passes "
                      "only, or flags only\n";
      return failure();
    }
    FailureOr<std::string> options = flags->passOptions();
    if (failed(options))
      return failure();
    std::unique_ptr<Pass> pass = createTrain();
    if (failed(pass->initializeOptions(*options, [](const Twine &message) {
          llvm::errs() << "error: " << message << "\n";
          return failure();
        })))
      return failure();
    manager.addPass(std::move(pass));
    // Its errors name the op; a whole module beneath hides them.
    manager.getContext()->printOpOnDiagnostic(false);
    return success();
  });

  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> buffer = openInputFile(input, &error);
  if (!buffer) {
    llvm::errs() << "error: " << error << "\n";
    return failure();
  }
  std::unique_ptr<llvm::ToolOutputFile> file = openOutputFile(output, &error);
  if (!file) {
    llvm::errs() << "error: " << error << "\n";
    return failure();
  }
  if (failed(MlirOptMain(file->os(), std::move(buffer), registry, config)))
    return failure();
  file->keep();
  return success();
}
