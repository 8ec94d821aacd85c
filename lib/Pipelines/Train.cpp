#include "moe/Pipelines/Passes.h"

#include "TrainReport.h"
#include "mlir/Pass/PassManager.h"
#include "moe/Import/Layout.h"
#include "moe/Support/Phase.h"
#include "moe/Transforms/Kernels/Passes.h"
#include "moe/Transforms/Sched/Passes.h"
#include "moe/Transforms/Sched/Schedule.h"
#include "moe/Transforms/Spmd/Passes.h"
#include "moe/Transforms/Training/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_TRAIN
#include "moe/Pipelines/Passes.h.inc"

namespace {

struct Train : impl::TrainBase<Train> {
  using TrainBase::TrainBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    OpPassManager all(ModuleOp::getOperationName());
    for (Phase phase : {Phase::Model, Phase::Spmd, Phase::Training,
                        Phase::Kernels, Phase::Sched})
      addPhase(all, phase);
    all.getDependentDialects(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Phase> phase = getPhase(module);
    if (failed(phase) || failed(checkOptions(module, *phase)) ||
        failed(applyOverrides(module)))
      return signalPassFailure();
    TrainReport trainReport(module);
    for (Phase p : {Phase::Model, Phase::Spmd, Phase::Training, Phase::Kernels,
                    Phase::Sched}) {
      if (p < *phase)
        continue;
      OpPassManager manager(ModuleOp::getOperationName());
      addPhase(manager, p);
      if (p == Phase::Kernels)
        trainReport.beforeRecompute(module);
      if (failed(runPipeline(manager, module)))
        return signalPassFailure();
    }
    trainReport.collect(module, llvm::to_vector(recompute));
    trainReport.print(llvm::errs());
    if (!report.empty() && failed(trainReport.write(module, report)))
      signalPassFailure();
  }

private:
  /// An option whose pass lies before the module's phase is an error.
  LogicalResult checkOptions(ModuleOp module, Phase phase) {
    struct Used {
      bool given;
      StringRef flag;
      Phase last;
    };
    const Used options[] = {
        {layout.hasValue(), "--layout", Phase::Model},
        {target.hasValue(), "--target", Phase::Model},
        {lr.hasValue(), "--lr", Phase::Spmd},
        {beta1.hasValue(), "--beta1", Phase::Spmd},
        {beta2.hasValue(), "--beta2", Phase::Spmd},
        {adamEps.hasValue(), "--adam-eps", Phase::Spmd},
        {weightDecay.hasValue(), "--weight-decay", Phase::Spmd},
        {clip.hasValue(), "--clip", Phase::Spmd},
        {recompute.hasValue(), "--recompute", Phase::Kernels},
        {cudaGraph.hasValue(), "--cuda-graph", Phase::Kernels},
        {overlapEp.hasValue(), "--overlap-ep", Phase::Kernels},
        {schedule.hasValue(), "--schedule", Phase::Kernels},
        {memoryLimit.hasValue(), "--memory-limit", Phase::Kernels},
    };
    for (const Used &option : options)
      if (option.given && phase > option.last)
        return module.emitError()
               << option.flag << " works up to phase " << phaseName(option.last)
               << ", but the module is in phase " << phaseName(phase)
               << " already; give it to the run that "
               << "starts from phase " << phaseName(option.last)
               << " or before";
    if (overlapEp && !schedule.empty())
      return module.emitError()
             << "--overlap-ep chooses the schedule; leave --schedule out, or "
                "ask for --schedule=paired without --overlap-ep";
    if (!(memoryLimit > 0 && memoryLimit <= 1))
      return module.emitError() << "--memory-limit is a share in (0, 1], but "
                                << "got " << memoryLimit;
    if (shrink < 1)
      return module.emitError()
             << "--shrink must be at least 1, but is " << int64_t(shrink);
    return success();
  }

  LogicalResult applyOverrides(ModuleOp module) {
    MLIRContext *context = module.getContext();
    if (!target.empty())
      module->setAttr(kTargetAttr, StringAttr::get(context, target));
    if (layout.empty() && target.empty())
      return success();
    FailureOr<moert::System> system = targetSystem(module);
    auto config = module->getAttrOfType<DictionaryAttr>(kConfigAttr);
    auto number = [&](StringRef key) -> int64_t {
      auto value = config ? config.getAs<IntegerAttr>(key) : IntegerAttr();
      return value ? value.getInt() : 0;
    };
    if (failed(system))
      return failure();
    if (layout.empty())
      return module.emitError() << "--target needs --layout: the module's "
                                   "layout is for another number of GPUs";
    FailureOr<LayoutAttr> parsed =
        parseLayout(context, layout, system->gpus, number("num_hidden_layers"),
                    number("num_experts"));
    if (failed(parsed))
      return failure();
    FailureOr<LayoutAttr> old = getLayout(module);
    if (failed(old))
      return failure();
    struct {
      StringRef key;
      int64_t old, parsed;
    } fixed[] = {
        {"seq", old->getSequence(), parsed->getSequence()},
        {"micro_batch", old->getMicroBatch(), parsed->getMicroBatch()},
        {"global_batch", old->getGlobalBatch(), parsed->getGlobalBatch()},
    };
    for (auto &[key, was, is] : fixed)
      if (was != is)
        return module.emitError()
               << "--layout has " << key << "=" << is
               << ", but the model was imported with " << key << "=" << was
               << ", which its ops depend on; give " << key << "=" << was
               << ", or import it again";
    module->setAttr(kLayoutAttr, *parsed);
    return success();
  }

  void addPhase(OpPassManager &manager, Phase phase) const {
    switch (phase) {
    case Phase::Model:
      manager.addPass(createVerifyModel());
      manager.addPass(createPartition());
      manager.addPass(createVerifySpmd());
      return;
    case Phase::Spmd: {
      DifferentiateOptions options;
      options.lr = lr;
      options.beta1 = beta1;
      options.beta2 = beta2;
      options.eps = adamEps;
      options.weightDecay = weightDecay;
      options.clip = clip;
      manager.addPass(createDifferentiate(options));
      manager.addPass(createVerifyTraining());
      return;
    }
    case Phase::Training:
      manager.addPass(createFormKernels());
      return;
    case Phase::Kernels: {
      if (!recompute.empty()) {
        RecomputeOptions options;
        options.modules.assign(recompute.begin(), recompute.end());
        manager.addPass(createRecompute(options));
      }
      manager.addPass(createVerifyKernels());
      if (overlapEp) {
        OverlapEpOptions options;
        options.capture.assign(cudaGraph.begin(), cudaGraph.end());
        options.memoryShare = memoryLimit;
        manager.addPass(createOverlapEp(options));
        return;
      }
      PipelineOptions options;
      if (!schedule.empty())
        options.schedule = schedule;
      options.capture.assign(cudaGraph.begin(), cudaGraph.end());
      options.memoryShare = memoryLimit;
      manager.addPass(createPipeline(options));
      return;
    }
    case Phase::Sched:
      if (shrink != 1) {
        ShrinkScheduleOptions options;
        options.factor = shrink;
        manager.addPass(createShrinkSchedule(options));
      }
      manager.addPass(createSchedVerify());
      return;
    }
  }
};

} // namespace
} // namespace mlir::moe
