#include "LayerTemplates.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::moe;
using namespace mlir::moe::sched_lowering;

FailureOr<moert::ElementType> sched_lowering::tableType(Type type,
                                                        Location loc) {
  if (type.isF32())
    return moert::ElementType::F32;
  if (type.isBF16())
    return moert::ElementType::BF16;
  if (type.isInteger(32))
    return moert::ElementType::I32;
  return emitError(loc) << "a schedule has tensors of f32, bf16 and i32, but "
                           "got "
                        << type;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

LogicalResult sched_lowering::lowerKernels(ModuleOp module, moert::Table &table,
                                           KernelIndex &index) {
  for (KernelOp op : module.getOps<KernelOp>()) {
    moert::Kernel kernel;
    kernel.name = op.getSymName().str();
    kernel.op = op.getOp().str();
    kernel.provider = op.getBody().empty() ? moert::Provider::Library
                                           : moert::Provider::Generated;
    kernel.numericClass =
        static_cast<moert::NumericClass>(op.getNumericClass());
    kernel.flops = op.getFlops().convertToDouble();
    kernel.bytes = op.getBytes().convertToDouble();
    for (NamedAttribute number : op.getNumbers())
      kernel.attributes[number.getName().str()] =
          cast<FloatAttr>(number.getValue()).getValueAsDouble();
    kernel.effects.assign(op.getFunctionType().getNumInputs(),
                          moert::Effect::Read);
    if (op.getAccumulates())
      kernel.effects.back() = moert::Effect::ReadWrite;
    else
      kernel.effects.resize(kernel.effects.size() +
                                op.getFunctionType().getNumResults(),
                            moert::Effect::Write);
    index[op.getSymName()] = table.kernels.size();
    table.kernels.push_back(std::move(kernel));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

namespace {

/// A frame by name, and a range of it, whatever template it is used in.
struct Place {
  StringRef frame;
  int64_t offset = 0;
};

/// Builds one template of a layer.
class TemplateBuilder {
public:
  TemplateBuilder(moert::Template &tmpl) : tmpl(tmpl) {}

  moert::Operand operand(Place place, moert::ElementType type,
                         ArrayRef<int64_t> shape, moert::Effect effect) {
    moert::Operand operand;
    operand.frame = frameIndex(place.frame);
    operand.offset = place.offset;
    operand.type = type;
    operand.shape.assign(shape.begin(), shape.end());
    operand.effect = effect;
    moert::Frame &frame = tmpl.frames[operand.frame];
    frame.bytes = std::max(
        frame.bytes, alignTo(operand.offset + operand.bytes(), kByteAlignment));
    return operand;
  }

  Place allocateTemporary(int64_t bytes) {
    Place place{frame::temp, tempBytes};
    tempBytes += alignTo(bytes, kByteAlignment);
    return place;
  }

private:
  static moert::FrameKind kindOf(StringRef name) {
    return llvm::StringSwitch<moert::FrameKind>(name)
        .Cases({frame::weights, frame::expertWeights, frame::tiedWeights},
               moert::FrameKind::Weights)
        .Cases({frame::gradients, frame::expertGradients, frame::tiedGradients},
               moert::FrameKind::Gradients)
        .Case(frame::saved, moert::FrameKind::Saved)
        .Case(frame::host, moert::FrameKind::Host)
        .Case(frame::temp, moert::FrameKind::Temporary)
        .Cases({frame::ids, frame::labels, frame::loss, frame::flag},
               moert::FrameKind::Global)
        .Default(moert::FrameKind::Carried);
  }

  uint32_t frameIndex(StringRef name) {
    for (auto [i, frame] : llvm::enumerate(tmpl.frames))
      if (frame.name == name)
        return i;
    moert::Frame frame;
    frame.name = name.str();
    frame.kind = kindOf(name);
    tmpl.frames.push_back(frame);
    return tmpl.frames.size() - 1;
  }

  moert::Template &tmpl;
  int64_t tempBytes = 0;
};

std::string locationName(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (std::string name = locationName(part); !name.empty())
        return name;
  return "";
}

class LayerLowering {
public:
  LayerLowering(LayerOp layer, moert::Table &table, const KernelIndex &kernels,
                const llvm::StringMap<uint32_t> &communicators,
                const llvm::StringSet<> &earlier)
      : layer(layer), table(table), kernels(kernels),
        communicators(communicators), earlier(earlier) {}

  FailureOr<LayerTemplates> run() {
    result.layer = layer;
    result.name = layer.getSymName().str();
    auto backwards = layer.getBody().getOps<BackwardOp>();
    if (backwards.empty()) {
      layer.emitError("has no moe.backward");
      return failure();
    }
    BackwardOp backward = *backwards.begin();
    if (failed(placeParameters()) || failed(placeForwardValues(backward)) ||
        failed(lowerBlock(layer.getBody().front(), layer.getSymName() + "_fwd",
                          /*isForward=*/true, result.forward)) ||
        failed(placeBackwardValues(backward)) ||
        failed(lowerBlock(backward.getBody().front(),
                          layer.getSymName() + "_bwd",
                          /*isForward=*/false, result.backward)))
      return failure();
    result.hostBytes = hostBytes;
    return result;
  }

private:
  FailureOr<int64_t> bytesOf(Value value) {
    if (auto rows = dyn_cast<RowsType>(value.getType()))
      return 4 * rows.getGroups();
    auto tensor = dyn_cast<RankedTensorType>(value.getType());
    if (!tensor)
      return emitError(value.getLoc())
             << "a schedule has tensors and !moe.rows, but got "
             << value.getType();
    FailureOr<moert::ElementType> type =
        tableType(tensor.getElementType(), value.getLoc());
    if (failed(type))
      return failure();
    return tensor.getNumElements() * moert::elementBytes(*type);
  }

  LogicalResult placeParameters() {
    for (ParamOp param : layer.getBody().getOps<ParamOp>()) {
      if (result.params.count(param.getKey()))
        continue;
      ParamPlace place;
      place.op = param;
      place.expert = param.getKey().contains("{e}");
      place.tied = earlier.contains(param.getKey());
      int64_t &elements =
          place.expert ? result.expertElements : result.denseElements;
      result.tiedParams += place.tied;
      if (!place.tied) {
        place.element = elements;
        elements = alignTo(elements + param.getType().getNumElements(),
                           kElementAlignment);
      }
      result.params.insert({param.getKey(), place});
    }
    return success();
  }

  Place placeOf(const ParamPlace &param, bool gradient, int64_t elementBytes) {
    if (param.tied)
      return {gradient ? frame::tiedGradients : frame::tiedWeights, 0};
    StringRef name =
        param.expert
            ? (gradient ? frame::expertGradients : frame::expertWeights)
            : (gradient ? frame::gradients : frame::weights);
    return {name, param.element * elementBytes};
  }

  LogicalResult placeForwardValues(BackwardOp backward) {
    bool isLoss = false;
    for (auto [i, argument] :
         llvm::enumerate(layer.getBody().front().getArguments())) {
      auto tensor = dyn_cast<RankedTensorType>(argument.getType());
      FailureOr<int64_t> bytes = bytesOf(argument);
      if (failed(bytes))
        return failure();
      if (!tensor)
        return layer.emitError() << "argument #" << i << " must be a tensor";
      bool integers = tensor.getElementType().isInteger(32);
      if (i == 0) {
        places[argument] = {integers ? frame::ids : frame::in, 0};
        result.inBytes = integers ? 0 : *bytes;
        result.inType = tensor;
      } else if (integers) {
        places[argument] = {frame::labels, 0};
      } else {
        return layer.emitError() << "argument #" << i
                                 << " must be i32: only the first is carried";
      }
    }
    ReturnOp ret = layer.getReturn();
    if (ret.getValues().size() != 1)
      return ret.emitOpError("must return exactly the carried value");
    Value carried = ret.getValues()[0];
    if (!carried.getDefiningOp())
      return ret.emitOpError("must return a value that the layer computes");
    if (auto call = carried.getDefiningOp<CallOp>())
      isLoss = SymbolTable::lookupNearestSymbolFrom<KernelOp>(
                   call, call.getKernelAttr())
                   .getOp() == "cross_entropy";
    places[carried] = {isLoss ? frame::loss : frame::out, 0};
    FailureOr<int64_t> outBytes = bytesOf(carried);
    if (failed(outBytes))
      return failure();
    result.outBytes = isLoss ? 0 : *outBytes;
    result.outType = cast<RankedTensorType>(carried.getType());

    for (Value saved : backward.getSaved()) {
      if (places.count(saved) || saved.getDefiningOp<ParamOp>())
        continue;
      FailureOr<int64_t> bytes = bytesOf(saved);
      if (failed(bytes))
        return failure();
      places[saved] = {frame::saved, result.savedBytes};
      result.savedBytes += alignTo(*bytes, kByteAlignment);
    }
    return success();
  }

  LogicalResult placeBackwardValues(BackwardOp backward) {
    for (unsigned i = 0; i < backward.getSaved().size(); ++i) {
      Value saved = backward.getSaved()[i];
      places[backward.getSavedArgument(i)] = places.lookup(saved);
      if (auto host = hostPlaces.find(saved); host != hostPlaces.end())
        hostPlaces[backward.getSavedArgument(i)] = host->second;
      if (Value counts = sums.lookup(saved))
        sums[backward.getSavedArgument(i)] = counts;
    }
    if (backward.getNumCotangents() > 1)
      return backward.emitOpError("must have at most one cotangent");
    if (backward.getNumCotangents() == 1)
      places[backward.getCotangent(0)] = {frame::dout, 0};
    auto cotangents = backward.getReturn().getCotangents();
    if (cotangents.size() > 1)
      return backward.emitOpError("must return at most one cotangent");
    if (!cotangents.empty()) {
      if (!cotangents[0].getDefiningOp() || places.count(cotangents[0]))
        return backward.emitOpError("must return a cotangent that it computes");
      places[cotangents[0]] = {frame::din, 0};
    }
    return success();
  }

  FailureOr<moert::Operand> operandOf(TemplateBuilder &builder, Value value,
                                      moert::Effect effect) {
    SmallVector<int64_t> shape;
    moert::ElementType type = moert::ElementType::I32;
    if (auto rows = dyn_cast<RowsType>(value.getType())) {
      shape.push_back(rows.getGroups());
    } else {
      auto tensor = cast<RankedTensorType>(value.getType());
      shape.assign(tensor.getShape().begin(), tensor.getShape().end());
      FailureOr<moert::ElementType> element =
          tableType(tensor.getElementType(), value.getLoc());
      if (failed(element))
        return failure();
      type = *element;
    }
    Place place;
    if (auto param = value.getDefiningOp<ParamOp>()) {
      place = placeOf(result.params.find(param.getKey())->second,
                      /*gradient=*/false, moert::elementBytes(type));
    } else if (auto grad = value.getDefiningOp<GradOp>()) {
      place = placeOf(result.params.find(grad.getKey())->second,
                      /*gradient=*/true, moert::elementBytes(type));
    } else if (auto it = places.find(value); it != places.end()) {
      place = it->second;
    } else {
      FailureOr<int64_t> bytes = bytesOf(value);
      if (failed(bytes))
        return failure();
      place = builder.allocateTemporary(*bytes);
      places[value] = place;
    }
    return builder.operand(place, type, shape, effect);
  }

  LogicalResult lowerBlock(Block &block, const Twine &name, bool isForward,
                           uint32_t &index) {
    index = table.templates.size();
    moert::Template tmpl;
    tmpl.name = name.str();
    TemplateBuilder builder(tmpl);
    for (Operation &op : block) {
      if (isa<ParamOp, GradOp, BackwardOp, ReturnOp, BackwardReturnOp>(op))
        continue;
      LogicalResult lowered =
          TypeSwitch<Operation *, LogicalResult>(&op)
              .Case([&](CallOp call) {
                return lowerCall(builder, tmpl, call, isForward);
              })
              .Case([&](ExchangeCountsOp exchange) {
                return lowerCollective(builder, tmpl, exchange,
                                       moert::CollectiveKind::ExchangeCounts,
                                       isForward);
              })
              .Case([&](AllToAllOp exchange) {
                return lowerAllToAll(builder, tmpl, exchange, isForward);
              })
              .Default([](Operation *op) {
                return op->emitOpError("has no lowering to a schedule yet");
              });
      if (failed(lowered))
        return failure();
    }
    table.templates.push_back(std::move(tmpl));
    return success();
  }

  moert::Op newOp(Operation *source, Module module, bool isForward,
                  moert::OpKind kind) {
    moert::Op op;
    op.kind = kind;
    op.location = locationName(source->getLoc());
    if (op.location.empty())
      op.location = source->getName().getStringRef().str();
    op.half = isForward ? "F" : "B";
    op.module = stringifyModule(module).str();
    return op;
  }

  LogicalResult lowerCall(TemplateBuilder &builder, moert::Template &tmpl,
                          CallOp call, bool isForward) {
    moert::Op op =
        newOp(call, call.getModule(), isForward, moert::OpKind::Launch);
    op.kernel = kernels.lookup(call.getKernel());
    const moert::Kernel &kernel = table.kernels[op.kernel];
    if (kernel.op == "local_rows")
      sums[call.getOutputs()[0]] = call.getInputs()[0];
    if (isGroupedProduct(kernel) &&
        failed(readRows(builder, tmpl, call, isForward)))
      return failure();
    for (auto [i, input] : llvm::enumerate(call.getInputs())) {
      FailureOr<moert::Operand> operand =
          operandOf(builder, input, kernel.effects[i]);
      if (failed(operand))
        return failure();
      op.operands.push_back(*operand);
    }
    if (kernel.effects.size() == call.getInputs().size()) {
      // In place: the sum is where the accumulator is.
      op.half = "W";
      Value accumulator = call.getInputs().back();
      Place place;
      if (auto grad = accumulator.getDefiningOp<GradOp>())
        place = placeOf(result.params.find(grad.getKey())->second, true, 4);
      else
        place = places.lookup(accumulator);
      places[call.getOutputs()[0]] = place;
    } else {
      for (Value output : call.getOutputs()) {
        FailureOr<moert::Operand> operand =
            operandOf(builder, output, moert::Effect::Write);
        if (failed(operand))
          return failure();
        op.operands.push_back(*operand);
      }
    }
    tmpl.ops.push_back(std::move(op));
    return success();
  }

  /// The host must know the rows of a grouped product: a product for each
  /// expert is launched by them. With an exchange they are sums of its counts.
  LogicalResult readRows(TemplateBuilder &builder, moert::Template &tmpl,
                         CallOp product, bool isForward) {
    for (Value input : product.getInputs())
      if (auto rows = dyn_cast<TypedValue<RowsType>>(input);
          rows && !hostPlaces.count(sums.lookup(rows)) &&
          failed(readToHost(builder, tmpl, product, rows, isForward)))
        return failure();
    return success();
  }

  template <typename CollectiveOp>
  FailureOr<moert::Op> newCollective(CollectiveOp source,
                                     moert::CollectiveKind kind,
                                     bool isForward) {
    moert::Op op =
        newOp(source, source.getModule(), isForward, moert::OpKind::Collective);
    op.collective = kind;
    auto communicator = communicators.find(source.getAxis());
    if (communicator == communicators.end()) {
      source.emitOpError() << "no communicator for axis '" << source.getAxis()
                           << "'";
      return failure();
    }
    op.communicator = communicator->second;
    if (auto bytes = source->template getAttrOfType<FloatAttr>(kBytesAttr))
      op.bytes = bytes.getValueAsDouble();
    else
      op.bytes = cast<CollectiveOpInterface>(source.getOperation()).getBytes();
    return op;
  }

  template <typename CollectiveOp>
  LogicalResult lowerCollective(TemplateBuilder &builder, moert::Template &tmpl,
                                CollectiveOp source, moert::CollectiveKind kind,
                                bool isForward) {
    FailureOr<moert::Op> op = newCollective(source, kind, isForward);
    if (failed(op))
      return failure();
    FailureOr<moert::Operand> x =
        operandOf(builder, source->getOperand(0), moert::Effect::Read);
    FailureOr<moert::Operand> y =
        operandOf(builder, source.getResult(), moert::Effect::Write);
    if (failed(x) || failed(y))
      return failure();
    op->operands = {*x, *y};
    tmpl.ops.push_back(std::move(*op));
    return success();
  }

  /// Where the host has its copy of counts; read back for their first user.
  template <typename UserOp>
  FailureOr<Place> readToHost(TemplateBuilder &builder, moert::Template &tmpl,
                              UserOp user, TypedValue<RowsType> counts,
                              bool isForward) {
    if (auto it = hostPlaces.find(counts); it != hostPlaces.end())
      return it->second;
    int64_t groups = counts.getType().getGroups();
    Place place{frame::host, hostBytes};
    hostBytes += alignTo(4 * groups, kByteAlignment);
    hostPlaces[counts] = place;
    moert::Op read =
        newOp(user, user.getModule(), isForward, moert::OpKind::HostRead);
    read.location += "/counts";
    FailureOr<moert::Operand> source =
        operandOf(builder, counts, moert::Effect::Read);
    if (failed(source))
      return failure();
    read.operands = {*source, builder.operand(place, moert::ElementType::I32,
                                              {groups}, moert::Effect::Write)};
    read.bytes = 4.0 * groups;
    tmpl.ops.push_back(std::move(read));
    return place;
  }

  /// The host's copy of counts, as an operand.
  FailureOr<moert::Operand> hostCopy(TemplateBuilder &builder,
                                     moert::Template &tmpl, AllToAllOp user,
                                     TypedValue<RowsType> counts,
                                     bool isForward) {
    FailureOr<Place> place = readToHost(builder, tmpl, user, counts, isForward);
    if (failed(place))
      return failure();
    return builder.operand(*place, moert::ElementType::I32,
                           {counts.getType().getGroups()}, moert::Effect::Read);
  }

  LogicalResult lowerAllToAll(TemplateBuilder &builder, moert::Template &tmpl,
                              AllToAllOp source, bool isForward) {
    result.exchanges = true;
    FailureOr<moert::Operand> send =
        hostCopy(builder, tmpl, source, source.getSend(), isForward);
    FailureOr<moert::Operand> receive =
        hostCopy(builder, tmpl, source, source.getReceive(), isForward);
    FailureOr<moert::Op> op =
        newCollective(source, moert::CollectiveKind::AllToAll, isForward);
    FailureOr<moert::Operand> x =
        operandOf(builder, source.getInput(), moert::Effect::Read);
    FailureOr<moert::Operand> y =
        operandOf(builder, source.getResult(), moert::Effect::Write);
    if (failed(send) || failed(receive) || failed(op) || failed(x) || failed(y))
      return failure();
    op->operands = {*x, *send, *receive,
                    builder.operand({frame::flag, 0}, moert::ElementType::I32,
                                    {1}, moert::Effect::ReadWrite),
                    *y};
    tmpl.ops.push_back(std::move(*op));
    return success();
  }

  LayerOp layer;
  moert::Table &table;
  const KernelIndex &kernels;
  const llvm::StringMap<uint32_t> &communicators;
  const llvm::StringSet<> &earlier;
  LayerTemplates result;
  DenseMap<Value, Place> places;
  DenseMap<Value, Place> hostPlaces;
  /// Rows that local_rows makes, and the counts that they are sums of.
  DenseMap<Value, Value> sums;
  int64_t hostBytes = 0;
};

} // namespace

FailureOr<LayerTemplates>
sched_lowering::lowerLayer(LayerOp layer, moert::Table &table,
                           const KernelIndex &kernels,
                           const llvm::StringMap<uint32_t> &communicators,
                           const llvm::StringSet<> &earlier) {
  return LayerLowering(layer, table, kernels, communicators, earlier).run();
}
