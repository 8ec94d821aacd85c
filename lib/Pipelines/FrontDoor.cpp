#include "moe/Pipelines/FrontDoor.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "moe/Pipelines/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ManagedStatic.h"

using namespace mlir;
using namespace mlir::moe;
using llvm::cl::desc;

namespace {

llvm::cl::OptionCategory category("Training schedules (run moe-train)");

/// The flags; each knows whether it was given.
struct Flags {
  template <typename T> struct Flag : llvm::cl::opt<T> {
    Flag(const char *name, const char *text)
        : llvm::cl::opt<T>(name, desc(text), llvm::cl::cat(category)) {}
  };
  struct ListFlag : llvm::cl::list<std::string> {
    ListFlag(const char *name, const char *text)
        : llvm::cl::list<std::string>(name, desc(text),
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

  /// Names of the flags that were given.
  std::vector<std::string> given() const {
    std::vector<std::string> names;
    for (const llvm::cl::Option *option : options())
      if (option->getNumOccurrences() > 0)
        names.push_back("--" + option->ArgStr.str());
    return names;
  }

  TrainOptions trainOptions() const {
    TrainOptions options;
    set(options.layout, layout);
    set(options.target, target);
    options.recompute.assign(recompute.begin(), recompute.end());
    options.cudaGraph.assign(cudaGraph.begin(), cudaGraph.end());
    set(options.overlapEp, overlapEp);
    set(options.schedule, schedule);
    set(options.memoryLimit, memoryLimit);
    set(options.shrink, shrink);
    set(options.lr, lr);
    set(options.beta1, beta1);
    set(options.beta2, beta2);
    set(options.adamEps, adamEps);
    set(options.weightDecay, weightDecay);
    set(options.clip, clip);
    set(options.report, report);
    return options;
  }

private:
  template <typename T, typename F> static void set(T &option, const F &flag) {
    if (flag.getNumOccurrences() > 0)
      option = flag.getValue();
  }

  std::vector<const llvm::cl::Option *> options() const {
    return {&layout,      &target,   &recompute,   &cudaGraph,
            &overlapEp,   &schedule, &memoryLimit, &shrink,
            &lr,          &beta1,    &beta2,       &adamEps,
            &weightDecay, &clip,     &report,      &train};
  }
};

llvm::ManagedStatic<Flags> flags;

} // namespace

void mlir::moe::registerFrontDoor() { *flags; }

void mlir::moe::useFrontDoor(MlirOptMainConfig &config) {
  std::vector<std::string> given = flags->given();
  if (given.empty())
    return;
  // Names of layers are locations: they must survive to the next tool.
  auto &registered = llvm::cl::getRegisteredOptions();
  if (auto it = registered.find("mlir-print-debuginfo");
      it != registered.end() && it->second->getNumOccurrences() == 0)
    it->second->addOccurrence(0, "mlir-print-debuginfo", "true");
  MlirOptMainConfig explicitPasses = config;
  config.setPassPipelineSetupFn(
      [given, explicitPasses](PassManager &manager) -> LogicalResult {
        if (failed(explicitPasses.setupPassPipeline(manager)))
          return failure();
        if (!manager.empty()) {
          llvm::errs() << "error: " << llvm::join(given, ", ")
                       << " can't be mixed with explicit passes; give passes "
                          "only, or flags only\n";
          return failure();
        }
        manager.addPass(createTrain(flags->trainOptions()));
        return success();
      });
}
