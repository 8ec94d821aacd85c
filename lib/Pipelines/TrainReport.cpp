#include "TrainReport.h"

#include "dialects/Moe/MoeOps.h"
#include "mlir/Support/FileUtilities.h"
#include "moe/Import/Counts.h"
#include "moe/Support/Phase.h"
#include "moe/Support/Units.h"
#include "moe/Transforms/Sched/Schedule.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace mlir::moe;

/// Bytes that forward saves for backward in one micro-batch, on the stage that
/// saves most. Carried activations count where backward reads them.
static int64_t savedBytes(ModuleOp module) {
  llvm::StringMap<int64_t> perLayer;
  for (LayerOp layer : module.getOps<LayerOp>())
    for (BackwardOp backward : layer.getBody().getOps<BackwardOp>())
      for (Value value : backward.getSaved()) {
        if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
          perLayer[layer.getSymName()] +=
              tensor.getNumElements() * tensor.getElementTypeBitWidth() / 8;
        else if (auto rows = dyn_cast<RowsType>(value.getType()))
          perLayer[layer.getSymName()] += 4 * rows.getGroups();
      }
  std::map<int64_t, int64_t> perStage;
  module.walk([&](ApplyOp apply) {
    perStage[apply.getStage().value_or(0)] +=
        perLayer.lookup(apply.getLayer()) *
        static_cast<int64_t>(apply.getUpper() - apply.getLower());
  });
  int64_t most = 0;
  for (auto [stage, bytes] : perStage)
    most = std::max(most, bytes);
  return most;
}

static llvm::json::Value toJson(Attribute attribute) {
  if (auto dictionary = dyn_cast<DictionaryAttr>(attribute)) {
    llvm::json::Object object;
    for (NamedAttribute entry : dictionary)
      object[entry.getName().getValue()] = toJson(entry.getValue());
    return object;
  }
  if (auto array = dyn_cast<ArrayAttr>(attribute)) {
    llvm::json::Array values;
    for (Attribute value : array)
      values.push_back(toJson(value));
    return values;
  }
  if (auto text = dyn_cast<StringAttr>(attribute))
    return text.getValue().str();
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  if (auto number = dyn_cast<BoolAttr>(attribute))
    return number.getValue();
  if (auto number = dyn_cast<IntegerAttr>(attribute))
    return number.getInt();
  return nullptr;
}

TrainReport::TrainReport(ModuleOp module) {
  FailureOr<Phase> phase = getPhase(module);
  FailureOr<LayoutAttr> layout = getLayout(module);
  if (failed(phase) || failed(layout) || *phase > Phase::Training)
    return;
  if (FailureOr<int64_t> count = parameterCount(module); succeeded(count))
    root["parameters"] = *count;
  if (FailureOr<double> flops =
          modelFlopsPerToken(module, layout->getSequence());
      succeeded(flops))
    root["flops_per_token"] = *flops;
}

void TrainReport::beforeRecompute(ModuleOp module) {
  root["saved_bytes_without_recompute"] = savedBytes(module);
}

void TrainReport::collect(ModuleOp module, ArrayRef<std::string> recompute) {
  for (LayoutAttr layout : {module->getAttrOfType<LayoutAttr>(kLayoutAttr)}) {
    if (!layout)
      continue;
    root["ranks"] = layout.getRanks();
    root["dp"] = layout.getDp();
    root["ep"] = layout.getEp();
    root["pp"] = layout.getPp();
    root["micro_batches"] = layout.getMicroBatches();
    root["tokens_per_micro_batch"] = layout.getTokens();
    root["tokens_per_step"] = layout.getGlobalBatch() * layout.getSequence();
  }
  if (auto target = module->getAttrOfType<StringAttr>(kTargetAttr))
    root["target"] = target.getValue().str();
  for (TrainOp train : module.getOps<TrainOp>())
    root["model"] = train.getSymName().str();
  llvm::json::Array names;
  for (const std::string &name : recompute)
    names.push_back(name);
  root["recompute"] = std::move(names);
  root["saved_bytes"] = savedBytes(module);
  if (auto schedule = module->getAttrOfType<DictionaryAttr>(kScheduleAttr))
    root["schedule"] = toJson(schedule);
}

/// Percent above the bound; sums in another order may differ in the last bit.
static double gap(double seconds, double bound) {
  return std::max(0.0, (seconds / bound - 1) * 100);
}

void TrainReport::print(raw_ostream &os) const {
  auto integer = [&](StringRef key) {
    return root.getInteger(key).value_or(0);
  };
  os << llvm::formatv(
      "{0} on {1}: dp={2} ep={3} pp={4}, {5} micro-batches of {6} tokens a "
      "rank\n",
      root.getString("model").value_or("module"),
      root.getString("target").value_or("?"), integer("dp"), integer("ep"),
      integer("pp"), integer("micro_batches"),
      integer("tokens_per_micro_batch"));
  if (integer("parameters"))
    os << llvm::formatv(
        "  model      {0:N0} parameters, {1} a token\n", integer("parameters"),
        describeFlops(root.getNumber("flops_per_token").value_or(0)));
  if (const llvm::json::Array *names = root.getArray("recompute");
      names && !names->empty()) {
    os << "  recompute  ";
    llvm::interleaveComma(*names, os, [&](const llvm::json::Value &name) {
      os << name.getAsString().value_or("");
    });
    os << llvm::formatv(
        ": saved for backward, a micro-batch: {0} -> {1}\n",
        describeBytes(
            root.getNumber("saved_bytes_without_recompute").value_or(0)),
        describeBytes(root.getNumber("saved_bytes").value_or(0)));
  }
  const llvm::json::Object *schedule = root.getObject("schedule");
  const llvm::json::Object *report =
      schedule ? schedule->getObject("report") : nullptr;
  if (!report)
    return;
  auto number = [&](StringRef key) {
    return report->getNumber(key).value_or(0);
  };
  if (const llvm::json::Array *templates = report->getArray("templates"))
    for (const llvm::json::Value &value : *templates) {
      const llvm::json::Object *entry = value.getAsObject();
      if (!entry || !entry->getString("template")->starts_with("pair_"))
        continue;
      auto seconds = [&](StringRef key) {
        return entry->getNumber(key).value_or(0);
      };
      os << llvm::formatv(
          "  pair       {0}: one stream {1}, Megatron's order {2}, chosen {3}, "
          "bound {4} (gap {5:F1} %)\n",
          *entry->getString("template"),
          describeSeconds(seconds("serial_seconds")),
          describeSeconds(seconds("megatron_seconds")),
          describeSeconds(seconds("seconds")),
          describeSeconds(seconds("bound_seconds")),
          gap(seconds("seconds"), seconds("bound_seconds")));
    }
  auto step = [&](StringRef name, StringRef prefix) {
    double seconds = number((prefix + "_seconds").str());
    double bound = number((prefix + "_bound_seconds").str());
    os << llvm::formatv(
        "  {0,-10} {1} a step, bound {2} (gap {3:F1} %), {4} a rank\n", name,
        describeSeconds(seconds), describeSeconds(bound), gap(seconds, bound),
        describeBytes(number((prefix + "_arena_bytes").str())));
  };
  if (report->get("plain_seconds")) {
    step("1f1b", "plain");
    step("paired", "paired");
  } else {
    step(schedule->getString("pipeline").value_or("step"), "step");
  }
  if (auto reason = report->getString("kept_1f1b"))
    os << "  kept 1F1B  " << *reason << "\n";
  os << llvm::formatv(
      "  chosen     {0}: compute {1}, communication {2} ({3} exposed), host "
      "{4}, bubble {5}\n",
      schedule->getString("pipeline").value_or(""),
      describeSeconds(number("compute_seconds")),
      describeSeconds(number("communication_seconds")),
      describeSeconds(number("exposed_seconds")),
      describeSeconds(number("host_seconds")),
      describeSeconds(number("bubble_seconds")));
  os << llvm::formatv("  memory     {0} of {1} a rank\n",
                      describeBytes(number("arena_bytes")),
                      describeBytes(number("memory_limit_bytes")));
}

LogicalResult TrainReport::write(ModuleOp module, StringRef path) const {
  std::string error;
  std::unique_ptr<llvm::ToolOutputFile> file = openOutputFile(path, &error);
  if (!file)
    return module.emitError() << "--report: " << error;
  file->os() << llvm::formatv("{0:2}\n",
                              llvm::json::Value(llvm::json::Object(root)));
  file->keep();
  return success();
}
