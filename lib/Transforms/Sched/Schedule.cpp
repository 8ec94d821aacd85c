#include "moe/Transforms/Sched/Schedule.h"

#include "moe/Cost/Simulate.h"
#include "moe/Support/Phase.h"
#include "moe/Support/Units.h"
#include "moe/Target/Table.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::moe;

StringRef mlir::moe::pipelineName(moert::PipelineKind kind) {
  switch (kind) {
  case moert::PipelineKind::Serial:
    return "serial";
  case moert::PipelineKind::OneFOneB:
    return "1f1b";
  case moert::PipelineKind::Paired:
    return "paired";
  }
  llvm_unreachable("covered");
}

std::optional<moert::PipelineKind> mlir::moe::parsePipeline(StringRef name) {
  for (auto kind : {moert::PipelineKind::Serial, moert::PipelineKind::OneFOneB,
                    moert::PipelineKind::Paired})
    if (name == pipelineName(kind))
      return kind;
  return std::nullopt;
}

FailureOr<moert::System> mlir::moe::targetSystem(ModuleOp module) {
  auto target = module->getAttrOfType<StringAttr>(kTargetAttr);
  if (!target)
    return module.emitError() << "module has no '" << kTargetAttr << "'";
  moert::System system;
  std::string error;
  if (!moert::parseSystem(target.getValue().str(), system, error))
    return module.emitError() << "'" << kTargetAttr << "': " << error;
  return system;
}

FailureOr<ScheduleOptions> mlir::moe::recordedOptions(ModuleOp module) {
  auto record = module->getAttrOfType<DictionaryAttr>(kScheduleAttr);
  ScheduleOptions options;
  auto pipeline = record ? record.getAs<StringAttr>("pipeline") : StringAttr();
  auto kind = pipeline ? parsePipeline(pipeline.getValue()) : std::nullopt;
  auto captured = record ? record.getAs<ArrayAttr>("captured") : ArrayAttr();
  auto share = record ? record.getAs<FloatAttr>("memory_share") : FloatAttr();
  if (!kind || !captured || !share)
    return module.emitError()
           << "'" << kScheduleAttr << "' must record pipeline (serial, 1f1b, "
           << "paired), captured and memory_share; a hand-written schedule "
              "can't be made anew";
  options.pipeline = *kind;
  options.memoryShare = share.getValueAsDouble();
  std::vector<std::string> names;
  for (Attribute name : captured) {
    auto text = dyn_cast<StringAttr>(name);
    if (!text)
      return module.emitError()
             << "'" << kScheduleAttr << "': captured must list names, but has "
             << name;
    names.push_back(text.getValue().str());
  }
  if (failed(parseCapture(module, names, options)))
    return failure();
  return options;
}

LogicalResult mlir::moe::parseCapture(ModuleOp module,
                                      ArrayRef<std::string> names,
                                      ScheduleOptions &options) {
  static const StringRef scopes[] = {"moe_router", "moe_preprocess"};
  options.captured.clear();
  for (const std::string &name : names) {
    if (!llvm::is_contained(scopes, name))
      return module.emitError()
             << "can't capture '" << name
             << "' as a graph; scopes: moe_router, moe_preprocess (dispatch "
                "and "
                "experts of a dropless model need counts on the host)";
    options.captured.insert(name);
  }
  return success();
}

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

/// A schedule with its price.
struct Candidate {
  moert::Table table;
  std::vector<moert::OrderReport> orders;
  moert::Simulation simulation;
  double bound = 0;
  int64_t arena = 0;

  bool fits() const {
    return table.memoryLimit <= 0 || arena <= table.memoryLimit;
  }
};

FailureOr<Candidate> makeCandidate(ModuleOp module,
                                   const ScheduleOptions &options,
                                   const moert::System &system) {
  // A limit of no byte would be read as none.
  if (!(options.memoryShare > 0 && options.memoryShare <= 1) ||
      options.memoryShare * system.memoryBytes < 1)
    return module.emitError() << "share of the target's memory must be in "
                              << "(0, 1], but is " << options.memoryShare;
  FailureOr<LayoutAttr> layout = getLayout(module);
  if (failed(layout))
    return failure();
  if (layout->getRanks() != system.gpus)
    return module.emitError() << "target '" << system.name << "' has "
                              << system.gpus << " GPUs, but the layout has "
                              << layout->getRanks() << " ranks (dp * pp)";
  Candidate candidate;
  FailureOr<moert::Table> table =
      buildTable(module, options, system, candidate.orders);
  if (failed(table))
    return failure();
  candidate.table = std::move(*table);
  std::string error;
  if (!moert::simulate(candidate.table, system, /*timeline=*/false,
                       candidate.simulation, error))
    return module.emitError() << "the " << pipelineName(options.pipeline)
                              << " schedule does not end: " << error;
  candidate.bound = moert::stepLowerBound(candidate.table, system).best();
  for (const moert::Program &program : candidate.table.programs)
    candidate.arena = std::max(candidate.arena, program.arenaBytes);
  return candidate;
}

/// Collects what a schedule's report says, in the order it is added.
class Report {
public:
  explicit Report(MLIRContext *context) : builder(context) {}
  void add(StringRef name, double value) {
    attributes.push_back(
        builder.getNamedAttr(name, builder.getF64FloatAttr(value)));
  }
  void add(StringRef name, StringRef value) {
    attributes.push_back(
        builder.getNamedAttr(name, builder.getStringAttr(value)));
  }
  void add(StringRef name, Attribute value) {
    attributes.push_back(builder.getNamedAttr(name, value));
  }
  DictionaryAttr get() { return builder.getDictionaryAttr(attributes); }

private:
  Builder builder;
  SmallVector<NamedAttribute> attributes;
};

/// Numbers of a candidate under a prefix.
void describe(Report &report, StringRef prefix, const Candidate &candidate) {
  report.add((prefix + "_seconds").str(), candidate.simulation.makespan);
  report.add((prefix + "_bound_seconds").str(), candidate.bound);
  report.add((prefix + "_arena_bytes").str(),
             static_cast<double>(candidate.arena));
}

LogicalResult finish(ModuleOp module, const ScheduleOptions &options,
                     const Candidate &candidate, Report &report) {
  MLIRContext *context = module.getContext();
  Builder builder(context);
  SmallVector<Attribute> orders;
  for (const moert::OrderReport &order : candidate.orders) {
    Report entry(context);
    entry.add("template", order.name);
    entry.add("serial_seconds", order.serial);
    entry.add("megatron_seconds", order.megatron);
    entry.add("seconds", order.chosen);
    entry.add("bound_seconds", order.bound);
    orders.push_back(entry.get());
  }
  report.add("templates", builder.getArrayAttr(orders));
  // The stage that ends last tells where a step's time goes.
  const moert::ProgramTimes *last = nullptr;
  for (const moert::ProgramTimes &times : candidate.simulation.programs)
    if (!last || times.end > last->end)
      last = &times;
  if (last) {
    report.add("compute_seconds", last->compute);
    report.add("communication_seconds", last->communication);
    report.add("exposed_seconds", last->exposed);
    report.add("host_seconds", last->host);
    report.add("bubble_seconds", last->bubble);
  }
  report.add("arena_bytes", static_cast<double>(candidate.arena));
  report.add("memory_limit_bytes",
             static_cast<double>(candidate.table.memoryLimit));

  if (failed(emitSchedule(module, candidate.table)))
    return failure();
  Report record(context);
  record.add("pipeline", pipelineName(options.pipeline));
  SmallVector<Attribute> captured;
  for (const std::string &name : options.captured)
    captured.push_back(builder.getStringAttr(name));
  record.add("captured", builder.getArrayAttr(captured));
  record.add("memory_share", options.memoryShare);
  record.add("report", report.get());
  module->setAttr(kScheduleAttr, record.get());
  setPhase(module, Phase::Sched);
  return success();
}

} // namespace

LogicalResult mlir::moe::scheduleModule(ModuleOp module,
                                        const ScheduleOptions &options) {
  FailureOr<moert::System> system = targetSystem(module);
  if (failed(system))
    return failure();
  FailureOr<Candidate> candidate = makeCandidate(module, options, *system);
  if (failed(candidate))
    return failure();
  Report report(module.getContext());
  describe(report, "step", *candidate);
  return finish(module, options, *candidate, report);
}

LogicalResult mlir::moe::overlapExpertParallel(ModuleOp module,
                                               ScheduleOptions options) {
  FailureOr<moert::System> system = targetSystem(module);
  if (failed(system))
    return failure();
  options.pipeline = moert::PipelineKind::OneFOneB;
  FailureOr<Candidate> plain = makeCandidate(module, options, *system);
  if (failed(plain))
    return failure();
  ScheduleOptions pairedOptions = options;
  pairedOptions.pipeline = moert::PipelineKind::Paired;
  FailureOr<Candidate> paired = makeCandidate(module, pairedOptions, *system);
  if (failed(paired))
    return failure();

  bool pairs = llvm::any_of(paired->table.templates, [](const auto &tmpl) {
    return StringRef(tmpl.name).starts_with("pair_");
  });
  Report report(module.getContext());
  describe(report, "plain", *plain);
  describe(report, "paired", *paired);
  std::string reason;
  llvm::raw_string_ostream os(reason);
  bool take = false;
  if (!pairs)
    os << "no layer exchanges rows between ranks (ep = 1): nothing to hide";
  else if (!paired->fits() && plain->fits())
    os << llvm::formatv("the deeper warm-up needs {0:F1} GiB of {1:F1} GiB a "
                        "rank; try --recompute=moe,norm",
                        paired->arena / kGiB, paired->table.memoryLimit / kGiB);
  else if (paired->simulation.makespan >= plain->simulation.makespan)
    os << llvm::formatv("paired is priced at {0}, 1F1B at {1}",
                        describeSeconds(paired->simulation.makespan),
                        describeSeconds(plain->simulation.makespan));
  else
    take = true;
  if (!take)
    report.add("kept_1f1b", reason);
  const Candidate &chosen = take ? *paired : *plain;
  describe(report, "step", chosen);
  return finish(module, take ? pairedOptions : options, chosen, report);
}

LogicalResult mlir::moe::rebuildSchedule(ModuleOp module) {
  FailureOr<ScheduleOptions> options = recordedOptions(module);
  if (failed(options))
    return failure();
  return scheduleModule(module, *options);
}
