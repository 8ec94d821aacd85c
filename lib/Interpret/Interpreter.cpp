#include "moe/Interpret/Interpreter.h"

#include "Parameters.h"
#include "moe/Runtime/Random.h"
#include "moe/Support/Phase.h"
#include <cmath>

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

double mlir::moe::roundTo(Type element, double value) {
  if (element.isF32())
    return static_cast<float>(value);
  if (!element.isBF16() || !std::isfinite(value))
    return value;
  // Eight bits of significand, exponents from -126: the spacing of bf16 here.
  int exponent;
  std::frexp(value, &exponent);
  double spacing = std::ldexp(1.0, std::max(exponent - 8, -133));
  double rounded = std::nearbyint(value / spacing) * spacing;
  return std::abs(rounded) < 0x1p128 ? rounded
                                     : std::copysign(INFINITY, rounded);
}

Tensor mlir::moe::emptyTensor(Type type) {
  Tensor tensor;
  if (auto rows = dyn_cast<RowsType>(type))
    tensor.shape = {rows.getGroups()};
  else
    tensor.shape = cast<RankedTensorType>(type).getShape().vec();
  int64_t count = 1;
  for (int64_t n : tensor.shape)
    count *= n;
  tensor.values.assign(count, NAN);
  return tensor;
}

void mlir::moe::roundTensor(Type type, Tensor &tensor) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked || !isa<FloatType>(ranked.getElementType()))
    return;
  for (double &value : tensor.values)
    value = roundTo(ranked.getElementType(), value);
}

//===----------------------------------------------------------------------===//
// The interpreter
//===----------------------------------------------------------------------===//

namespace {
using Environment = DenseMap<Value, RankTensors>;

/// Values of a range of layers, by layer and then number.
using RangeTensors = std::vector<std::vector<RankTensors>>;

/// Values of a program: tensors, what forward saved, gradient sums.
struct Program {
  Environment tensors;
  DenseMap<Value, RangeTensors> ranges;
};
} // namespace

struct Interpreter::Impl {
  ModuleOp module;
  LayoutAttr layout;
  Phase phase = Phase::Model;
  Grid grid;
  Parameters parameters;
  SymbolTableCollection tables;

  LogicalResult declareParameters();
  int64_t microBatches() const {
    return layout.getGlobalBatch() / (layout.getMicroBatch() * grid.dp);
  }
  LogicalResult checkTokens(ArrayRef<int32_t> tokens);
  /// Token ids (shift 0) or labels (shift 1) of a micro-batch.
  RankTensors tokensOf(ArrayRef<int32_t> tokens, int64_t microBatch,
                       int64_t shift) const;

  LogicalResult runOps(Block &block, int64_t index, Environment &env);
  LogicalResult runOp(Operation *op, int64_t index, Environment &env);
  LogicalResult runLayer(LayerOp layer, int64_t index,
                         ArrayRef<RankTensors> arguments,
                         std::vector<RankTensors> &results,
                         std::vector<RankTensors> &saved);
  LogicalResult runBackward(LayerOp layer, int64_t index,
                            ArrayRef<RankTensors> cotangents,
                            ArrayRef<RankTensors> saved,
                            std::vector<RankTensors> &results,
                            std::vector<RankTensors> &grads);

  LayerOp layerOf(Operation *op, FlatSymbolRefAttr name) {
    return tables.lookupNearestSymbolFrom<LayerOp>(op, name);
  }
  LogicalResult apply(ApplyOp op, Program &program);
  LogicalResult applyBackward(ApplyBackwardOp op, Program &program);
  RangeTensors zeroGrads(ZeroGradsOp op);
  /// The loss of a value: over ranks, unless they hold the same.
  double lossOf(Value value, const RankTensors &parts) const;

  FailureOr<double> runModel(ModelOp model, ArrayRef<int32_t> tokens);
  /// Runs the loop; `backward` false: the forwards only.
  FailureOr<double> runLoop(MicroBatchesOp loop, ArrayRef<int32_t> tokens,
                            bool backward, Program &program);
  LogicalResult collectGradients(OptimizerOp optimizer, Program &program);
  template <typename Op> FailureOr<Op> single(Region &region);
};

/// The backward of a layer, null if it has none.
static BackwardOp backwardOf(LayerOp layer) {
  auto backwards = layer.getBody().getOps<BackwardOp>();
  return backwards.empty() ? BackwardOp() : *backwards.begin();
}

LogicalResult Interpreter::Impl::declareParameters() {
  WalkResult result = module.walk([&](ApplyOp apply) {
    LayerOp layer = layerOf(apply, apply.getLayerAttr());
    for (int64_t i = apply.getLower(); i < int64_t(apply.getUpper()); ++i)
      for (ParamOp param : layer.getBody().getOps<ParamOp>())
        if (failed(parameters.declare(param, i, grid)))
          return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult Interpreter::Impl::checkTokens(ArrayRef<int32_t> tokens) {
  int64_t wanted = layout.getGlobalBatch() * (layout.getSequence() + 1);
  if (int64_t(tokens.size()) != wanted)
    return module.emitError()
           << "a step takes " << wanted << " tokens, got " << tokens.size();
  std::string unset = parameters.unset();
  if (!unset.empty())
    return module.emitError() << "parameter '" << unset << "' has no value yet";
  return success();
}

RankTensors Interpreter::Impl::tokensOf(ArrayRef<int32_t> tokens,
                                        int64_t microBatch,
                                        int64_t shift) const {
  int64_t length = layout.getSequence(), samples = layout.getMicroBatch();
  RankTensors result;
  for (int64_t rank = 0; rank < grid.dp; ++rank) {
    Tensor &tensor = result.emplace_back();
    tensor.shape = {samples * length};
    for (int64_t j = 0; j < samples; ++j) {
      int64_t sample = (microBatch * grid.dp + rank) * samples + j;
      auto from = tokens.begin() + sample * (length + 1) + shift;
      tensor.values.insert(tensor.values.end(), from, from + length);
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

LogicalResult Interpreter::Impl::runOp(Operation *op, int64_t index,
                                       Environment &env) {
  if (auto param = dyn_cast<ParamOp>(op)) {
    env[param] = parameters.local(param, index, grid);
    return success();
  }
  SmallVector<const RankTensors *> operands;
  for (Value operand : op->getOperands())
    operands.push_back(&env.find(operand)->second);
  std::vector<RankTensors> results(op->getNumResults());
  for (auto [i, type] : llvm::enumerate(op->getResultTypes()))
    results[i].assign(grid.dp, emptyTensor(type));

  if (isa<CollectiveOpInterface>(op)) {
    if (failed(evaluateCollective(op, grid, index, operands, results[0])))
      return failure();
  } else {
    bool dense = isDense(op);
    if (!dense && !isRouting(op))
      return op->emitOpError("can't be interpreted");
    for (int64_t rank = 0; rank < grid.dp; ++rank) {
      SmallVector<const Tensor *> in;
      for (const RankTensors *operand : operands)
        in.push_back(&(*operand)[rank]);
      std::vector<Tensor> out;
      for (RankTensors &result : results)
        out.push_back(std::move(result[rank]));
      if (failed(dense ? evaluateDense(op, in, out)
                       : evaluateRouting(op, in, out)))
        return failure();
      for (size_t i = 0; i < out.size(); ++i)
        results[i][rank] = std::move(out[i]);
    }
  }
  for (auto [i, value] : llvm::enumerate(op->getResults())) {
    for (Tensor &tensor : results[i])
      roundTensor(value.getType(), tensor);
    env[value] = std::move(results[i]);
  }
  return success();
}

LogicalResult Interpreter::Impl::runOps(Block &block, int64_t index,
                                        Environment &env) {
  for (Operation &op : block.without_terminator())
    if (!isa<BackwardOp, GradOp>(op) && failed(runOp(&op, index, env)))
      return failure();
  return success();
}

static std::vector<RankTensors> lookUp(const Environment &env,
                                       OperandRange values) {
  std::vector<RankTensors> result;
  for (Value value : values)
    result.push_back(env.find(value)->second);
  return result;
}

LogicalResult Interpreter::Impl::runLayer(LayerOp layer, int64_t index,
                                          ArrayRef<RankTensors> arguments,
                                          std::vector<RankTensors> &results,
                                          std::vector<RankTensors> &saved) {
  Environment env;
  for (auto [argument, value] :
       llvm::zip_equal(layer.getBody().getArguments(), arguments))
    env[argument] = value;
  if (failed(runOps(layer.getBody().front(), index, env)))
    return failure();
  results = lookUp(env, layer.getReturn()->getOperands());
  saved.clear();
  if (BackwardOp backward = backwardOf(layer))
    saved = lookUp(env, backward->getOperands());
  return success();
}

LogicalResult Interpreter::Impl::runBackward(LayerOp layer, int64_t index,
                                             ArrayRef<RankTensors> cotangents,
                                             ArrayRef<RankTensors> saved,
                                             std::vector<RankTensors> &results,
                                             std::vector<RankTensors> &grads) {
  BackwardOp backward = backwardOf(layer);
  if (!backward)
    return layer.emitOpError("has no moe.backward");
  Environment env;
  for (auto [i, value] : llvm::enumerate(cotangents))
    env[backward.getCotangent(i)] = value;
  for (auto [i, value] : llvm::enumerate(saved))
    env[backward.getSavedArgument(i)] = value;
  for (auto [grad, value] :
       llvm::zip_equal(backward.getBody().getOps<GradOp>(), grads))
    env[grad.getResult()] = value;
  if (failed(runOps(backward.getBody().front(), index, env)))
    return failure();
  BackwardReturnOp terminator = backward.getReturn();
  results = lookUp(env, terminator.getCotangents());
  grads = lookUp(env, terminator.getGrads());
  return success();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

LogicalResult Interpreter::Impl::apply(ApplyOp op, Program &program) {
  LayerOp layer = layerOf(op, op.getLayerAttr());
  int64_t lower = op.getLower(), upper = op.getUpper();
  if (lower == upper || (upper - lower > 1 && layer.getNumResults() > 1))
    return op.emitOpError("can't be interpreted: expected one index, or a "
                          "layer with one result");
  std::vector<RankTensors> arguments = lookUp(program.tensors, op.getInputs());
  RangeTensors saved(upper - lower);
  std::vector<RankTensors> results;
  for (int64_t i = lower; i < upper; ++i) {
    if (i > lower)
      arguments[0] = results[0];
    if (failed(runLayer(layer, i, arguments, results, saved[i - lower])))
      return failure();
  }
  for (auto [value, result] : llvm::zip(op.getOutputs(), results))
    program.tensors[value] = result;
  if (op.getNumResults() > results.size())
    program.ranges[op.getOutputs().back()] = std::move(saved);
  return success();
}

LogicalResult Interpreter::Impl::applyBackward(ApplyBackwardOp op,
                                               Program &program) {
  LayerOp layer = layerOf(op, op.getLayerAttr());
  int64_t lower = op.getLower(), upper = op.getUpper();
  std::vector<RankTensors> cotangents =
      lookUp(program.tensors, op.getCotangents());
  RangeTensors saved = program.ranges.lookup(op.getSaved());
  RangeTensors sums = program.ranges.lookup(op.getGrads());
  if (int64_t(saved.size()) != upper - lower || sums.size() != saved.size())
    return op.emitOpError("has another range than its saved values or sums");
  std::vector<RankTensors> results, total;
  for (int64_t i = upper - 1; i >= lower; --i) {
    if (i < upper - 1)
      cotangents[0] = results[0];
    if (failed(runBackward(layer, i, cotangents, saved[i - lower], results,
                           sums[i - lower])))
      return failure();
    if (total.empty())
      total = results;
    // What all layers share gets a cotangent from each.
    for (size_t j = 1; j < total.size() && i < upper - 1; ++j)
      for (int64_t rank = 0; rank < grid.dp; ++rank) {
        for (auto [sum, part] :
             llvm::zip(total[j][rank].values, results[j][rank].values))
          sum += part;
        roundTensor(op.getResults()[j].getType(), total[j][rank]);
      }
  }
  if (!results.empty())
    total[0] = results[0];
  for (auto [value, result] : llvm::zip_equal(op.getResults(), total))
    program.tensors[value] = result;
  program.ranges[op.getSums()] = std::move(sums);
  program.ranges.erase(op.getSaved());
  return success();
}

RangeTensors Interpreter::Impl::zeroGrads(ZeroGradsOp op) {
  LayerOp layer = layerOf(op, op.getType().getLayer());
  std::vector<RankTensors> zeros;
  for (GradOp grad : backwardOf(layer).getBody().getOps<GradOp>()) {
    Tensor tensor = emptyTensor(grad.getType());
    std::fill(tensor.values.begin(), tensor.values.end(), 0);
    zeros.emplace_back(grid.dp, tensor);
  }
  return RangeTensors(op.getUpper() - op.getLower(), zeros);
}

double Interpreter::Impl::lossOf(Value value, const RankTensors &parts) const {
  DistAttr dist = getDist(value);
  double loss = 0;
  for (int64_t rank = 0; rank < grid.dp; ++rank)
    if (rank == 0 || (dist && (dist.has(DistKind::PartialSum) ||
                               dist.has(DistKind::Varying))))
      loss += parts[rank].values[0];
  return loss;
}

FailureOr<double> Interpreter::Impl::runModel(ModelOp model,
                                              ArrayRef<int32_t> tokens) {
  double loss = 0;
  for (int64_t m = 0; m < microBatches(); ++m) {
    Program program;
    for (auto [i, argument] : llvm::enumerate(model.getBody().getArguments()))
      program.tensors[argument] = tokensOf(tokens, m, i);
    for (Operation &op : model.getBody().front().without_terminator()) {
      auto applied = dyn_cast<ApplyOp>(op);
      if (!applied)
        return op.emitOpError("can't be interpreted between layers");
      if (failed(apply(applied, program)))
        return failure();
    }
    Value result = model.getReturn()->getOperand(0);
    loss += lossOf(result, program.tensors[result]);
  }
  return loss;
}

FailureOr<double> Interpreter::Impl::runLoop(MicroBatchesOp loop,
                                             ArrayRef<int32_t> tokens,
                                             bool backward, Program &program) {
  Block &body = loop.getBody().front();
  auto yield = cast<YieldOp>(body.getTerminator());
  ValueRange carried(body.getArguments().drop_front(2));
  auto pass = [&](ValueRange from, ValueRange to) {
    if (!backward)
      return;
    for (auto [source, target] : llvm::zip_equal(from, to)) {
      RangeTensors values = program.ranges.lookup(source);
      program.ranges[target] = std::move(values);
    }
  };
  pass(loop.getInitial(), carried);
  double loss = 0;
  for (int64_t m = 0; m < int64_t(loop.getCount()); ++m) {
    for (int64_t i = 0; i < 2; ++i)
      program.tensors[body.getArgument(i)] = tokensOf(tokens, m, i);
    for (Operation &op : body.without_terminator()) {
      LogicalResult status = success();
      if (auto forward = dyn_cast<ApplyOp>(op))
        status = apply(forward, program);
      else if (auto reverse = dyn_cast<ApplyBackwardOp>(op))
        status = backward ? applyBackward(reverse, program) : success();
      else
        status = op.emitOpError("can't be interpreted between layers");
      if (failed(status))
        return failure();
    }
    loss += lossOf(yield.getLoss(), program.tensors[yield.getLoss()]);
    pass(yield.getSums(), carried);
  }
  pass(carried, loop.getSums());
  return loss;
}

LogicalResult Interpreter::Impl::collectGradients(OptimizerOp optimizer,
                                                  Program &program) {
  parameters.zeroGradients();
  for (Value sums : optimizer.getGrads()) {
    LayerOp layer =
        layerOf(optimizer, cast<GradsType>(sums.getType()).getLayer());
    // Which range the sums are of, their start says.
    auto loop = sums.getDefiningOp<MicroBatchesOp>();
    unsigned number = loop ? cast<OpResult>(sums).getResultNumber() - 1 : 0;
    auto zero = loop ? loop.getInitial()[number].getDefiningOp<ZeroGradsOp>()
                     : ZeroGradsOp();
    if (!zero)
      return optimizer.emitOpError("takes sums that no loop over micro-batches "
                                   "began at moe.zero_grads");
    DenseMap<Attribute, ParamOp> params;
    for (ParamOp param : layer.getBody().getOps<ParamOp>())
      params.try_emplace(param.getPatterns(), param);
    RangeTensors &range = program.ranges[sums];
    for (auto [i, layerSums] : llvm::enumerate(range))
      for (auto [grad, values] : llvm::zip_equal(
               backwardOf(layer).getBody().getOps<GradOp>(), layerSums)) {
        ParamOp param = params.lookup(grad.getPatterns());
        if (!param)
          return grad.emitOpError("is of no parameter of the layer");
        parameters.addGradient(param, grad, values, zero.getLower() + i, grid);
      }
  }
  return success();
}

template <typename Op> FailureOr<Op> Interpreter::Impl::single(Region &region) {
  auto ops = llvm::to_vector(region.getOps<Op>());
  if (ops.size() == 1)
    return ops.front();
  return module.emitError() << "expected exactly one " << Op::getOperationName()
                            << ", but there are " << ops.size();
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

Interpreter::Interpreter(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Interpreter::~Interpreter() = default;

FailureOr<std::unique_ptr<Interpreter>> Interpreter::create(ModuleOp module) {
  auto impl = std::make_unique<Impl>();
  FailureOr<Phase> phase = getPhase(module);
  FailureOr<LayoutAttr> layout = getLayout(module);
  if (failed(phase) || failed(layout))
    return failure();
  if (*phase > Phase::Training) {
    module.emitError() << "only the phases model, spmd and training can be "
                          "interpreted, but this is "
                       << phaseName(*phase);
    return failure();
  }
  impl->module = module;
  impl->phase = *phase;
  impl->layout = *layout;
  // Model IR says what one rank would compute; so do one after the other.
  if (*phase != Phase::Model)
    impl->grid = {layout->getDp(), layout->getEp()};
  if (failed(impl->declareParameters()))
    return failure();
  return std::unique_ptr<Interpreter>(new Interpreter(std::move(impl)));
}

std::vector<std::string> Interpreter::parameterNames() const {
  return impl->parameters.names();
}

const StoredTensor *Interpreter::parameter(StringRef name) const {
  return impl->parameters.find(name);
}

LogicalResult Interpreter::setParameter(StringRef name, ArrayRef<int64_t> shape,
                                        ArrayRef<double> values) {
  const StoredTensor *stored = parameter(name);
  if (!stored)
    return impl->module.emitError()
           << "the program has no parameter '" << name << "'";
  if (ArrayRef<int64_t>(stored->shape) != shape ||
      stored->values.size() != values.size())
    return impl->module.emitError()
           << "parameter '" << name << "' has another shape here";
  impl->parameters.set(name, values);
  return success();
}

LogicalResult
Interpreter::setParameters(const std::vector<moert::NamedTensor> &tensors) {
  for (const moert::NamedTensor &tensor : tensors) {
    std::vector<double> values(tensor.values.begin(), tensor.values.end());
    if (failed(setParameter(tensor.name, tensor.shape, values)))
      return failure();
  }
  std::string unset = impl->parameters.unset();
  if (unset.empty())
    return success();
  return impl->module.emitError() << "parameter '" << unset << "' is missing";
}

LogicalResult Interpreter::initialize(uint64_t seed) {
  auto config = impl->module->getAttrOfType<DictionaryAttr>(kConfigAttr);
  auto deviation =
      config ? config.getAs<FloatAttr>("initializer_range") : FloatAttr();
  if (!deviation)
    return impl->module.emitError()
           << "module has no initializer_range in '" << kConfigAttr << "'";
  impl->parameters.initialize(seed, deviation.getValueAsDouble());
  return success();
}

int64_t Interpreter::tokenCount() const {
  return impl->layout.getGlobalBatch() * (impl->layout.getSequence() + 1);
}

FailureOr<std::vector<int32_t>> Interpreter::randomTokens(uint64_t seed,
                                                          int64_t step) const {
  auto config = impl->module->getAttrOfType<DictionaryAttr>(kConfigAttr);
  auto vocabulary =
      config ? config.getAs<IntegerAttr>("vocab_size") : IntegerAttr();
  if (!vocabulary || vocabulary.getInt() < 1) {
    impl->module.emitError()
        << "module has no vocab_size in '" << kConfigAttr << "'";
    return failure();
  }
  return moert::randomTokens(seed, step, tokenCount(), vocabulary.getInt());
}

FailureOr<double> Interpreter::forward(ArrayRef<int32_t> tokens) {
  if (failed(impl->checkTokens(tokens)))
    return failure();
  Region &body = impl->module.getBodyRegion();
  if (impl->phase != Phase::Training) {
    FailureOr<ModelOp> model = impl->single<ModelOp>(body);
    return failed(model) ? FailureOr<double>() : impl->runModel(*model, tokens);
  }
  FailureOr<TrainOp> train = impl->single<TrainOp>(body);
  if (failed(train))
    return failure();
  auto loop = impl->single<MicroBatchesOp>(train->getBody());
  if (failed(loop))
    return failure();
  Program program;
  return impl->runLoop(*loop, tokens, /*backward=*/false, program);
}

FailureOr<InterpretedStep> Interpreter::step(ArrayRef<int32_t> tokens) {
  if (failed(expectPhase(impl->module, Phase::Training)) ||
      failed(impl->checkTokens(tokens)))
    return failure();
  auto train = impl->single<TrainOp>(impl->module.getBodyRegion());
  if (failed(train))
    return failure();
  auto loop = impl->single<MicroBatchesOp>(train->getBody());
  auto optimizer = impl->single<OptimizerOp>(train->getBody());
  if (failed(loop) || failed(optimizer))
    return failure();
  Program program;
  for (ZeroGradsOp zero : train->getBody().getOps<ZeroGradsOp>())
    program.ranges[zero] = impl->zeroGrads(zero);
  FailureOr<double> loss =
      impl->runLoop(*loop, tokens, /*backward=*/true, program);
  if (failed(loss) || failed(impl->collectGradients(*optimizer, program)))
    return failure();
  InterpretedStep result{*loss, impl->parameters.gradNorm()};
  impl->parameters.update(*optimizer);
  return result;
}

const std::map<std::string, StoredTensor> &Interpreter::gradients() const {
  return impl->parameters.gradients();
}

LogicalResult Interpreter::runLayer(LayerOp layer, int64_t index,
                                    ArrayRef<RankTensors> arguments,
                                    std::vector<RankTensors> &results,
                                    std::vector<RankTensors> &saved) {
  return impl->runLayer(layer, index, arguments, results, saved);
}

LogicalResult Interpreter::runBackward(LayerOp layer, int64_t index,
                                       ArrayRef<RankTensors> cotangents,
                                       ArrayRef<RankTensors> saved,
                                       std::vector<RankTensors> &results,
                                       std::vector<RankTensors> &grads) {
  return impl->runBackward(layer, index, cotangents, saved, results, grads);
}
