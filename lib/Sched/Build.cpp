#include "moe/Sched/Build.h"

#include "LayerTemplates.h"
#include "Optimizer.h"
#include "StageArena.h"
#include "moe/Schedule/Dataflow.h"
#include "moe/Schedule/Events.h"
#include "moe/Support/Phase.h"
#include "moe/Support/TrainingProgram.h"

using namespace mlir;
using namespace mlir::moe;
using namespace mlir::moe::sched_lowering;

namespace {

/// Builds the table of one module.
class TableBuilder {
public:
  TableBuilder(ModuleOp module, const ScheduleOptions &options,
               const moert::System &system,
               std::vector<moert::OrderReport> &orders)
      : module(module), options(options), system(system), orders(orders) {}

  FailureOr<moert::Table> run() {
    if (failed(readModule()) || failed(lowerKernels(module, table, kernels)) ||
        failed(lowerLayers()) || failed(orderTemplates()) ||
        failed(collectCells()))
      return failure();
    for (Stage &stage : stages)
      buildStage(stage);
    std::vector<bool> barriers(table.templates.size());
    for (uint32_t index : bucketTemplates)
      barriers[index] = true;
    if (table.streams.size() > 1)
      moert::assignEvents(table, barriers);
    return std::move(table);
  }

private:
  bool serial() const {
    return options.pipeline == moert::PipelineKind::Serial;
  }

  LogicalResult readModule() {
    FailureOr<LayoutAttr> found = getLayout(module);
    if (failed(found))
      return failure();
    layout = *found;
    if (failed(checkTrainingProgram(module)))
      return failure();
    train = *module.getOps<TrainOp>().begin();
    table.model = train.getSymName().str();
    if (auto target = module->getAttrOfType<StringAttr>(kTargetAttr))
      table.target = target.getValue().str();
    table.ranks = layout.getRanks();
    table.microBatches = layout.getMicroBatches();
    table.microBatchSamples = layout.getMicroBatch();
    table.sequence = layout.getSequence();
    table.dataParallel = layout.getDp();
    table.memoryLimit =
        static_cast<int64_t>(options.memoryShare * system.memoryBytes);
    if (auto config = module->getAttrOfType<DictionaryAttr>(kConfigAttr)) {
      if (auto std = config.getAs<FloatAttr>("initializer_range"))
        table.initStd = std.getValueAsDouble();
      if (auto vocabulary = config.getAs<IntegerAttr>("vocab_size"))
        table.vocabulary = vocabulary.getInt();
    }
    table.streams = {{"compute", 0}};
    if (!serial())
      table.streams.push_back({"comm", 1});
    if (!serial())
      table.streams.push_back({"pipeline", 1});
    addCommunicator("dp", layout.getDp(), 1);
    addCommunicator("ep", layout.getEp(), 1);
    addCommunicator("edp", layout.getEdp(), layout.getEp());
    addCommunicator("pp", layout.getPp(), layout.getDp());
    addCommunicator("world", layout.getRanks(), 1);
    return success();
  }

  void addCommunicator(StringRef name, int64_t size, int64_t stride) {
    communicators[name] = table.communicators.size();
    table.communicators.push_back({name.str(), size, stride, 0});
  }

  //===--------------------------------------------------------------------===//
  // Templates
  //===--------------------------------------------------------------------===//

  LogicalResult lowerLayers() {
    llvm::StringSet<> keys;
    for (LayerOp layer : module.getOps<LayerOp>()) {
      FailureOr<LayerTemplates> lowered =
          lowerLayer(layer, table, kernels, communicators, keys);
      if (failed(lowered))
        return failure();
      for (auto &[key, place] : lowered->params) {
        keys.insert(key);
        // The vocabulary bounds random tokens.
        for (auto [dim, role] : llvm::enumerate(place.op.getDims()))
          if (cast<DimRoleAttr>(role).getValue() == DimRole::Vocabulary)
            table.vocabulary = place.op.getType().getDimSize(dim);
      }
      layers[layer.getSymName()] = *lowered;
    }
    return success();
  }

  uint32_t streamOf(const moert::Op &op) const {
    if (serial())
      return 0;
    switch (op.kind) {
    case moert::OpKind::Launch:
      return moert::kCompute;
    case moert::OpKind::Collective:
    case moert::OpKind::HostRead:
      return moert::kComm;
    case moert::OpKind::Send:
    case moert::OpKind::Recv:
      return moert::kPipeline;
    }
    return 0;
  }

  LogicalResult orderTemplates() {
    for (moert::Template &tmpl : table.templates)
      for (moert::Op &op : tmpl.ops)
        op.stream = streamOf(op);
    if (serial())
      return success();
    if (options.pipeline == moert::PipelineKind::Paired)
      for (auto &entry : layers) {
        LayerTemplates &layer = entry.second;
        if (!layer.exchanges)
          continue;
        pairs[layer.name] = table.templates.size();
        table.templates.push_back(moert::mergeTemplates(
            table.templates[layer.forward], table.templates[layer.backward]));
      }
    for (moert::Template &tmpl : table.templates) {
      std::string error;
      moert::OrderReport report =
          moert::scheduleTemplate(table, tmpl, options.captured, system, error);
      if (!error.empty())
        return module.emitError() << "moe-overlap-ep: " << error;
      orders.push_back(report);
      moert::packTemporaries(tmpl, table.streams.size());
    }
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Stages
  //===--------------------------------------------------------------------===//

  LogicalResult collectCells() {
    MicroBatchesOp loop = *train.getBody().getOps<MicroBatchesOp>().begin();
    stages.resize(layout.getPp());
    for (auto [i, stage] : llvm::enumerate(stages))
      stage.index = i;
    for (ApplyOp apply : loop.getBody().getOps<ApplyOp>()) {
      int64_t index = apply.getStage().value_or(0);
      if (index < 0 || index >= layout.getPp())
        return apply.emitOpError()
               << "stage " << index << " of " << layout.getPp();
      Stage &stage = stages[index];
      const LayerTemplates &layer = layers[apply.getLayer()];
      for (int64_t i = apply.getLower();
           i < static_cast<int64_t>(apply.getUpper()); ++i) {
        Cell cell;
        cell.layer = &layer;
        cell.index = i;
        cell.dense = stage.denseElements;
        cell.expert = stage.expertElements;
        stage.denseElements += layer.denseElements;
        stage.expertElements += layer.expertElements;
        stage.cells.push_back(cell);
      }
    }
    for (Stage &stage : stages)
      if (failed(checkTied(stage)))
        return failure();
    for (Stage &stage : stages)
      if (stage.cells.empty())
        return train.emitOpError()
               << "stage " << stage.index << " has no layer";
    return success();
  }

  /// A tied parameter must be held by an earlier cell of its own stage.
  LogicalResult checkTied(const Stage &stage) {
    std::set<std::string> held;
    for (const Cell &cell : stage.cells) {
      for (const auto &[key, place] : cell.layer->params) {
        std::string name = fill(key, cell.index, 0);
        if (place.tied && !held.count(name)) {
          ParamOp op = place.op;
          return op.emitOpError()
                 << "is tied to '" << name << "', which no earlier layer of "
                 << "stage " << stage.index << " holds; tied parameters must "
                 << "be on one stage";
        }
        held.insert(name);
      }
      if (cell.layer->tiedParams > 1)
        return cell.layer->firstTied().emitOpError(
            "a layer with several tied parameters has no lowering yet");
    }
    return success();
  }

  /// The bucket's elements, padded to blocks for each member of its group.
  static int64_t padded(int64_t elements, int64_t size) {
    return alignTo(elements, size * kElementAlignment);
  }

  void buildStage(Stage &stage) {
    program = moert::Program();
    program.name = "stage" + std::to_string(stage.index);
    program.firstRank = stage.index * layout.getDp();
    program.rankCount = layout.getDp();
    stage.slots = moert::inFlight(options.pipeline, layout.getPp(), stage.index,
                                  table.microBatches);
    placeStage(stage);
    addParameters(stage);

    OptimizerTemplates optimizer = addOptimizer(
        table, program, stage, train, stage.index == layout.getPp() - 1,
        /*commStream=*/serial() ? 0 : uint32_t(moert::kComm));
    bucketTemplates.push_back(optimizer.begin);
    bucketTemplates.push_back(optimizer.end);
    program.calls.push_back(optimizer.beginCall);
    for (const moert::PipelineStep &step : moert::pipelineSteps(
             options.pipeline, layout.getPp(), stage.index, table.microBatches))
      addStep(stage, step);
    program.calls.push_back(optimizer.endCall);
    table.programs.push_back(std::move(program));
  }

  int64_t allocate(int64_t bytes) {
    int64_t address = program.arenaBytes;
    program.arenaBytes += alignTo(bytes, kByteAlignment);
    return address;
  }

  int64_t frameBytes(uint32_t tmpl, StringRef name) {
    for (const moert::Frame &frame : table.templates[tmpl].frames)
      if (name == frame.name)
        return frame.bytes;
    return 0;
  }

  void placeStage(Stage &stage) {
    program.flag = allocate(4);
    program.step = allocate(4);
    program.loss = allocate(4);
    program.gradNorm = allocate(4);
    int64_t tokens = table.microBatchSamples * table.sequence;
    program.tokens = allocate(4 * table.microBatches * tokens);
    program.labels = allocate(4 * table.microBatches * tokens);
    stage.losses = allocate(4 * table.microBatches);

    addBucket("dense", "dp", stage.denseElements, stage.denseWeights,
              stage.denseGradients);
    if (stage.expertElements > 0)
      addBucket("experts", "edp", stage.expertElements, stage.expertWeights,
                stage.expertGradients);

    stage.scratch = program.arenaBytes;
    stage.activations.resize(stage.cells.size() + 1);
    stage.activationBytes.resize(stage.cells.size() + 1);
    for (size_t k = 0; k < stage.cells.size(); ++k) {
      const LayerTemplates &layer = *stage.cells[k].layer;
      stage.activationBytes[k] = std::max(
          stage.activationBytes[k], alignTo(layer.inBytes, kByteAlignment));
      stage.activationBytes[k + 1] = alignTo(layer.outBytes, kByteAlignment);
    }
    for (size_t k = 0; k <= stage.cells.size(); ++k) {
      stage.activations[k] = allocate(stage.slots * stage.activationBytes[k]);
      stage.gradientBytes =
          std::max(stage.gradientBytes, stage.activationBytes[k]);
    }
    for (const Cell &cell : stage.cells) {
      stage.saved.push_back(allocate(
          stage.slots * alignTo(cell.layer->savedBytes, kByteAlignment)));
      stage.host.push_back(allocate(
          stage.slots * alignTo(cell.layer->hostBytes, kByteAlignment)));
    }
    stage.innerGradients = allocate(2 * stage.gradientBytes);
    stage.firstGradients = allocate(2 * stage.activationBytes.front());
    stage.lastGradients = allocate(2 * stage.activationBytes.back());

    for (const Cell &cell : stage.cells) {
      raise(stage.forwardTempBytes, cell.layer->forward, frame::temp);
      raise(stage.backwardTempBytes, cell.layer->backward, frame::temp);
      if (auto pair = pairs.find(cell.layer->name); pair != pairs.end()) {
        raise(stage.forwardTempBytes, pair->second, "f.temp");
        raise(stage.backwardTempBytes, pair->second, "b.temp");
      }
    }
    stage.forwardTemp = allocate(2 * stage.forwardTempBytes);
    stage.backwardTemp = allocate(2 * stage.backwardTempBytes);
  }

  void raise(int64_t &bytes, uint32_t tmpl, StringRef name) {
    bytes = std::max(bytes, alignTo(frameBytes(tmpl, name), kByteAlignment));
  }

  void addBucket(StringRef name, StringRef axis, int64_t elements,
                 int64_t &weights, int64_t &gradients) {
    moert::Bucket bucket;
    bucket.name = name.str();
    bucket.communicator = communicators.lookup(axis);
    int64_t size = table.communicators[bucket.communicator].size;
    bucket.elements = padded(elements, size);
    bucket.weights = weights =
        allocate(bucket.elements * moert::elementBytes(parameterType()));
    bucket.gradients = gradients = allocate(bucket.elements * 4);
    bucket.master = allocate(bucket.elements / size * 4);
    bucket.moment1 = allocate(bucket.elements / size * 4);
    bucket.moment2 = allocate(bucket.elements / size * 4);
    program.buckets.push_back(bucket);
  }

  moert::ElementType parameterType() {
    for (auto &entry : layers)
      for (auto &[key, place] : entry.second.params)
        if (place.op.getType().getElementType().isBF16())
          return moert::ElementType::BF16;
    return moert::ElementType::F32;
  }

  /// A pattern with {i} and {e} filled in.
  static std::string fill(StringRef pattern, int64_t index, int64_t expert) {
    std::string name;
    while (!pattern.empty()) {
      if (pattern.consume_front("{i}"))
        name += std::to_string(index);
      else if (pattern.consume_front("{e}"))
        name += std::to_string(expert);
      else {
        name += pattern.front();
        pattern = pattern.drop_front();
      }
    }
    return name;
  }

  void addParameters(Stage &stage) {
    int64_t bytes = moert::elementBytes(parameterType());
    for (const Cell &cell : stage.cells)
      for (auto &[key, place] : cell.layer->params) {
        if (place.tied)
          continue;
        moert::Parameter parameter;
        ParamOp op = place.op;
        parameter.type = parameterType();
        parameter.shape.assign(op.getType().getShape().begin(),
                               op.getType().getShape().end());
        parameter.storedShape = parameter.shape;
        int64_t element =
            (place.expert ? cell.expert : cell.dense) + place.element;
        parameter.address =
            (place.expert ? stage.expertWeights : stage.denseWeights) +
            element * bytes;
        parameter.gradient =
            (place.expert ? stage.expertGradients : stage.denseGradients) +
            element * 4;
        parameter.init = op.getInit() == Init::Ones ? 0 : 1;
        int64_t experts = 1;
        if (place.expert) {
          experts = parameter.shape[0] * layout.getEp();
          parameter.shardedOver = communicators.lookup("ep");
          parameter.storedShape.erase(parameter.storedShape.begin());
        }
        parameter.storedShape[0] /= op.getPatterns().size();
        for (int64_t e = 0; e < experts; ++e)
          for (Attribute pattern : op.getPatterns())
            parameter.names.push_back(
                fill(cast<StringAttr>(pattern).getValue(), cell.index, e));
        addresses[stage.index][parameter.names.front()] = {parameter.address,
                                                           parameter.gradient};
        program.parameters.push_back(std::move(parameter));
      }
  }

  //===--------------------------------------------------------------------===//
  // Calls
  //===--------------------------------------------------------------------===//

  /// Address of a frame of cell `k`'s template for a micro-batch.
  int64_t base(const Stage &stage, size_t k, int64_t mb, StringRef name,
               int64_t tempTurn) {
    const Cell &cell = stage.cells[k];
    int64_t bytes = moert::elementBytes(parameterType());
    int64_t slot = mb % stage.slots;
    int64_t tokens = 4 * table.microBatchSamples * table.sequence;
    auto activation = [&](size_t i) {
      return stage.activations[i] + slot * stage.activationBytes[i];
    };
    // Gradient of activation i.
    auto gradient = [&](size_t i) {
      if (i == 0)
        return stage.firstGradients + mb % 2 * stage.activationBytes.front();
      if (i == stage.cells.size())
        return stage.lastGradients + mb % 2 * stage.activationBytes.back();
      return stage.innerGradients +
             static_cast<int64_t>(i % 2) * stage.gradientBytes;
    };
    if (name == frame::weights)
      return stage.denseWeights + cell.dense * bytes;
    if (name == frame::expertWeights)
      return stage.expertWeights + cell.expert * bytes;
    if (name == frame::gradients)
      return stage.denseGradients + cell.dense * 4;
    if (name == frame::expertGradients)
      return stage.expertGradients + cell.expert * 4;
    if (name == frame::tiedWeights)
      return tiedAddress(stage, cell).first;
    if (name == frame::tiedGradients)
      return tiedAddress(stage, cell).second;
    if (name == frame::saved)
      return stage.saved[k] +
             slot * alignTo(cell.layer->savedBytes, kByteAlignment);
    if (name == frame::host)
      return stage.host[k] +
             slot * alignTo(cell.layer->hostBytes, kByteAlignment);
    if (name == frame::in)
      return activation(k);
    if (name == frame::out)
      return activation(k + 1);
    if (name == frame::din)
      return gradient(k);
    if (name == frame::dout)
      return gradient(k + 1);
    if (name == frame::ids)
      return program.tokens + mb * tokens;
    if (name == frame::labels)
      return program.labels + mb * tokens;
    if (name == frame::loss)
      return stage.losses + mb * 4;
    if (name == frame::flag)
      return program.flag;
    return tempTurn;
  }

  std::pair<int64_t, int64_t> tiedAddress(const Stage &stage,
                                          const Cell &cell) {
    for (auto &[key, place] : cell.layer->params)
      if (place.tied)
        return addresses[stage.index].lookup(fill(key, cell.index, 0));
    return {0, 0};
  }

  void addCall(const Stage &stage, uint32_t tmpl, int64_t forwardCell,
               int64_t forward, int64_t backwardCell, int64_t backward) {
    moert::Call call;
    call.tmpl = tmpl;
    int64_t forwardTemp = stage.forwardTemp;
    int64_t backwardTemp = stage.backwardTemp;
    if (forwardCell >= 0) {
      call.layer = stage.cells[forwardCell].index;
      call.microBatch = forward;
      forwardTemp += forwardTurn * stage.forwardTempBytes;
      forwardTurn ^= 1;
    }
    if (backwardCell >= 0) {
      call.backwardLayer = stage.cells[backwardCell].index;
      call.backwardMicroBatch = backward;
      backwardTemp += backwardTurn * stage.backwardTempBytes;
      backwardTurn ^= 1;
    }
    for (const moert::Frame &frame : table.templates[tmpl].frames) {
      StringRef name = frame.name;
      bool isForward =
          name.consume_front(moert::kForwardPrefix) ||
          (!name.consume_front(moert::kBackwardPrefix) && forwardCell >= 0);
      call.bases.push_back(
          isForward ? base(stage, forwardCell, forward, name, forwardTemp)
                    : base(stage, backwardCell, backward, name, backwardTemp));
    }
    program.calls.push_back(std::move(call));
  }

  /// A template of one send or receive of an activation or its gradient.
  uint32_t transferTemplate(const Stage &stage, moert::StepKind kind) {
    using moert::StepKind;
    bool first =
        kind == StepKind::RecvForward || kind == StepKind::SendBackward;
    bool forward =
        kind == StepKind::RecvForward || kind == StepKind::SendForward;
    bool send = kind == StepKind::SendForward || kind == StepKind::SendBackward;
    const LayerTemplates &layer =
        first ? *stage.cells.front().layer : *stage.cells.back().layer;
    std::string name =
        (Twine(send ? "send_" : "recv_") + (forward ? "forward" : "backward"))
            .str();
    RankedTensorType tensor = first ? layer.inType : layer.outType;
    if (auto it = transfers.find(name); it != transfers.end())
      return it->second;
    moert::Template tmpl;
    tmpl.name = name;
    StringRef frameName = forward ? (first ? frame::in : frame::out)
                                  : (first ? frame::din : frame::dout);
    moert::Op op;
    op.kind = send ? moert::OpKind::Send : moert::OpKind::Recv;
    op.communicator = communicators.lookup("pp");
    op.peer = first ? -1 : 1;
    op.stream = streamOf(op);
    op.half = forward ? "F" : "B";
    op.module = "pipeline";
    op.location = name + " mb {mb}";
    moert::Operand operand;
    operand.type = tensor.getElementType().isBF16() ? moert::ElementType::BF16
                                                    : moert::ElementType::F32;
    operand.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
    operand.effect = send ? moert::Effect::Read : moert::Effect::Write;
    op.bytes = operand.bytes();
    if (auto bytes = train->getAttrOfType<FloatAttr>(kBytesAttr))
      op.bytes = bytes.getValueAsDouble();
    tmpl.frames = {{frameName.str(), moert::FrameKind::Carried,
                    alignTo(operand.bytes(), kByteAlignment)}};
    op.operands = {operand};
    tmpl.ops = {op};
    transfers[name] = table.templates.size();
    table.templates.push_back(tmpl);
    return table.templates.size() - 1;
  }

  void addStep(const Stage &stage, const moert::PipelineStep &step) {
    using moert::StepKind;
    int64_t cells = stage.cells.size();
    auto forward = [&](int64_t k) {
      addCall(stage, stage.cells[k].layer->forward, k, step.forward, -1, -1);
    };
    auto backward = [&](int64_t k) {
      addCall(stage, stage.cells[k].layer->backward, -1, -1, k, step.backward);
    };
    switch (step.kind) {
    case StepKind::RecvForward:
      addCall(stage, transferTemplate(stage, step.kind), 0, step.forward, -1,
              -1);
      return;
    case StepKind::SendForward:
      addCall(stage, transferTemplate(stage, step.kind), cells - 1,
              step.forward, -1, -1);
      return;
    case StepKind::RecvBackward:
      addCall(stage, transferTemplate(stage, step.kind), -1, -1, cells - 1,
              step.backward);
      return;
    case StepKind::SendBackward:
      addCall(stage, transferTemplate(stage, step.kind), -1, -1, 0,
              step.backward);
      return;
    case StepKind::Forward:
      for (int64_t k = 0; k < cells; ++k)
        forward(k);
      return;
    case StepKind::Backward:
      for (int64_t k = cells; k-- > 0;)
        backward(k);
      return;
    case StepKind::Pair:
      break;
    }
    // Layers that exchange rows meet one another; the others come on their
    // own: first where they feed the pairs, last where pairs feed them.
    auto paired = [&](int64_t k) {
      return pairs.count(stage.cells[k].layer->name);
    };
    int64_t f = 0, b = cells - 1;
    while (f < cells || b >= 0) {
      if (f < cells && !paired(f))
        forward(f++);
      else if (b >= 0 && !paired(b))
        backward(b--);
      else if (f < cells && b >= 0 &&
               stage.cells[f].layer == stage.cells[b].layer) {
        addCall(stage, pairs.lookup(stage.cells[f].layer->name), f,
                step.forward, b, step.backward);
        ++f;
        --b;
      } else if (b >= 0)
        backward(b--);
      else
        forward(f++);
    }
  }

  ModuleOp module;
  const ScheduleOptions &options;
  const moert::System &system;
  std::vector<moert::OrderReport> &orders;

  LayoutAttr layout;
  TrainOp train;
  moert::Table table;
  KernelIndex kernels;
  llvm::StringMap<uint32_t> communicators;
  llvm::MapVector<StringRef, LayerTemplates> layers;
  llvm::StringMap<uint32_t> pairs, transfers;
  std::vector<Stage> stages;
  std::vector<uint32_t> bucketTemplates;
  /// Value and gradient of a stored name, per stage.
  llvm::MapVector<int64_t, llvm::StringMap<std::pair<int64_t, int64_t>>>
      addresses;

  /// Of the stage being built.
  moert::Program program;
  int64_t forwardTurn = 0, backwardTurn = 0;
};

} // namespace

FailureOr<moert::Table>
mlir::moe::buildTable(ModuleOp module, const ScheduleOptions &options,
                      const moert::System &system,
                      std::vector<moert::OrderReport> &orders) {
  // A scheduled module keeps the program that it was made from.
  FailureOr<Phase> phase = getPhase(module);
  if (failed(phase) ||
      (*phase != Phase::Sched && failed(expectPhase(module, Phase::Kernels))))
    return failure();
  return TableBuilder(module, options, system, orders).run();
}
