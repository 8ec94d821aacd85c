#include "moe/Support/Shrink.h"

#include "DimRoles.h"
#include "moe/Support/Grid.h"
#include "moe/Support/KernelTable.h"
#include "moe/Support/Phase.h"
#include "llvm/Support/CheckedArithmetic.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::moe;

int64_t mlir::moe::shrunkenSize(int64_t size, int64_t factor) {
  // Ties go up, so what the first division drops changes nothing.
  return std::max<int64_t>(2, (size / factor + 1) / 2 * 2);
}

namespace {

/// What shrinks, and its name in `moe.config` (empty: it isn't there).
struct Shrinking {
  Extent extent;
  StringLiteral config;
};
constexpr Shrinking kShrinking[] = {
    {Extent::Hidden, "hidden_size"},
    {Extent::HeadDim, "head_dim"},
    {Extent::ExpertWidth, "moe_intermediate_size"},
    {Extent::Vocabulary, "vocab_size"},
    {Extent::Sequence, ""},
};

/// The sizes of a program; 0: it has none of the kind.
class Sizes {
public:
  int64_t &operator[](Extent extent) {
    return sizes[static_cast<unsigned>(extent)];
  }
  int64_t operator[](Extent extent) const {
    return sizes[static_cast<unsigned>(extent)];
  }

  /// Reads them from parameters, attributes and layout. An error at the op
  /// where two differ.
  LogicalResult read(ModuleOp module);

private:
  LogicalResult note(Operation *op, Extent extent, int64_t size);
  LogicalResult note(ParamOp param);

  int64_t sizes[static_cast<unsigned>(Extent::Capacity)] = {};
};

/// Rewrites a module from one set of sizes to another.
class Resizer {
public:
  Resizer(ModuleOp module, const Sizes &from, const Sizes &to)
      : module(module), from(from), to(to), builder(module.getContext()) {}

  LogicalResult run();

private:
  FailureOr<int64_t> resize(Location loc, DimExtent dim, int64_t size);
  FailureOr<Type> resize(const DimRoles &roles, Value value);
  /// Resizes numbers of an op or kernel that has `get(name)` and `set`.
  LogicalResult resizeNumbers(Operation *op, StringRef kernel,
                              function_ref<Attribute(StringRef)> get,
                              function_ref<void(StringRef, double)> set);
  LogicalResult resizeAttributes(Operation *op);
  LogicalResult resizeKernels();
  LogicalResult resizeConfig();

  ModuleOp module;
  const Sizes &from, &to;
  Builder builder;
  LayoutAttr before, after;
};

} // namespace

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

LogicalResult Sizes::note(Operation *op, Extent extent, int64_t size) {
  int64_t &known = (*this)[extent];
  if (known == 0)
    known = size;
  if (known == size)
    return success();
  return op->emitOpError() << "can't be shrunk: " << extentName(extent)
                           << " is " << size << " here and " << known
                           << " elsewhere";
}

LogicalResult Sizes::note(ParamOp param) {
  for (auto [i, attr] : llvm::enumerate(param.getDims())) {
    DimRole role = cast<DimRoleAttr>(attr).getValue();
    int64_t size = param.getType().getDimSize(i);
    // How many heads there are, the parameter does not say.
    if (role == DimRole::Experts || role == DimRole::Heads ||
        role == DimRole::KvHeads)
      continue;
    if (role == DimRole::GateUpWidth) {
      if (size % 2 != 0)
        return param.emitOpError()
               << "can't be shrunk: gate_up_width = " << size << " is odd";
      size /= 2;
    }
    if (failed(note(param, extentOf(role), size)))
      return failure();
  }
  return success();
}

/// A number of an op (i64) or a kernel (f64).
static std::optional<double> numberOf(Attribute attr) {
  if (auto integer = dyn_cast_or_null<IntegerAttr>(attr))
    return integer.getInt();
  if (auto number = dyn_cast_or_null<FloatAttr>(attr))
    return number.getValueAsDouble();
  return std::nullopt;
}

LogicalResult Sizes::read(ModuleOp module) {
  FailureOr<LayoutAttr> layout = getLayout(module);
  if (failed(layout))
    return failure();
  (*this)[Extent::Sequence] = layout->getSequence();
  WalkResult result = module.walk([&](Operation *op) {
    if (auto param = dyn_cast<ParamOp>(op))
      return WalkResult(note(param));
    auto numbers = isa<ComputeOpInterface>(op) ? op->getAttrDictionary()
                   : isa<KernelOp>(op)         ? cast<KernelOp>(op).getNumbers()
                                               : DictionaryAttr();
    for (Extent extent : {Extent::HeadDim, Extent::Sequence})
      if (auto size = numbers ? numberOf(numbers.get(extentName(extent)))
                              : std::nullopt)
        if (failed(note(op, extent, *size)))
          return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Types and attributes
//===----------------------------------------------------------------------===//

FailureOr<int64_t> Resizer::resize(Location loc, DimExtent dim, int64_t size) {
  if (dim.extent == Extent::Count)
    return size;
  if (dim.extent == Extent::Capacity) {
    int64_t tokens = before.getTokens(), k = dim.copies / tokens;
    if (dim.copies % tokens != 0 ||
        size != capacityRows(before, tokens, k, dim.experts))
      return emitError(loc) << "can't be shrunk: " << size
                            << " rows are not the layout's capacity";
    return capacityRows(after, after.getTokens(), k, dim.experts);
  }
  int64_t old = from[dim.extent];
  if (old == 0)
    return emitError(loc) << "can't be shrunk: no parameter or attribute says "
                             "what "
                          << extentName(dim.extent) << " is";
  int64_t common = std::gcd(old, to[dim.extent]);
  if (size % (old / common) != 0)
    return emitError(loc) << "can't be shrunk: a dimension of " << size
                          << " is no multiple of " << extentName(dim.extent)
                          << " = " << old;
  std::optional<int64_t> resized =
      llvm::checkedMul(size / (old / common), to[dim.extent] / common);
  if (!resized)
    return emitError(loc) << "can't be resized: a dimension would be too large";
  return *resized;
}

FailureOr<Type> Resizer::resize(const DimRoles &roles, Value value) {
  Location loc = value.getLoc();
  if (auto rows = dyn_cast<RowsType>(value.getType())) {
    FailureOr<int64_t> mean = resize(loc, {Extent::Sequence}, rows.getMean());
    if (failed(mean))
      return failure();
    return Type(RowsType::get(rows.getContext(), rows.getGroups(), *mean));
  }
  auto tensor = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(tensor.getShape());
  for (auto [i, size] : llvm::enumerate(shape)) {
    FailureOr<int64_t> resized = resize(loc, roles.get(value, i), size);
    if (failed(resized))
      return failure();
    size = *resized;
  }
  return Type(tensor.clone(shape));
}

LogicalResult
Resizer::resizeNumbers(Operation *op, StringRef kernel,
                       function_ref<Attribute(StringRef)> get,
                       function_ref<void(StringRef, double)> set) {
  for (Extent extent : {Extent::HeadDim, Extent::Sequence})
    if (get(extentName(extent)))
      set(extentName(extent), to[extent]);
  std::optional<double> scale = numberOf(get("scale"));
  if (!scale)
    return success();
  // What it usually is, at either size; an unusual one keeps its ratio to that.
  double usual, resized;
  if (kernel.starts_with("attention")) {
    usual = std::pow(static_cast<double>(from[Extent::HeadDim]), -0.5);
    resized = std::pow(static_cast<double>(to[Extent::HeadDim]), -0.5);
  } else if (kernel.starts_with("cross_entropy")) {
    double batch = before.getGlobalBatch();
    usual = 1.0 / (batch * static_cast<double>(from[Extent::Sequence]));
    resized = 1.0 / (batch * static_cast<double>(to[Extent::Sequence]));
  } else {
    return op->emitOpError() << "can't be shrunk: nothing says how 'scale' of '"
                             << kernel << "' depends on sizes";
  }
  set("scale", *scale / usual * resized);
  return success();
}

LogicalResult Resizer::resizeAttributes(Operation *op) {
  return resizeNumbers(
      op, op->getName().stripDialect(),
      [&](StringRef name) { return op->getAttr(name); },
      [&](StringRef name, double value) {
        if (isa<IntegerAttr>(op->getAttr(name)))
          op->setAttr(name, builder.getI64IntegerAttr(value));
        else
          op->setAttr(name, builder.getF64FloatAttr(value));
      });
}

/// Calls of one kernel may differ in type now, and those of two be alike.
LogicalResult Resizer::resizeKernels() {
  SmallVector<std::pair<CallOp, KernelOp>> calls;
  module.walk([&](CallOp call) {
    calls.emplace_back(call, SymbolTable::lookupNearestSymbolFrom<KernelOp>(
                                 call, call.getKernelAttr()));
  });
  SmallVector<KernelOp> old(module.getOps<KernelOp>());
  KernelTable table(module);
  for (auto &entry : calls) {
    CallOp call = entry.first;
    KernelOp kernel = entry.second;
    if (!kernel.getBody().empty())
      return kernel.emitOpError("can't be shrunk: it has a body already");
    NamedAttrList numbers(kernel.getNumbers());
    if (failed(resizeNumbers(
            kernel, kernel.getOp(),
            [&](StringRef name) { return kernel.getNumbers().get(name); },
            [&](StringRef name, double value) {
              numbers.set(name, builder.getF64FloatAttr(value));
            })))
      return failure();
    KernelKey key{kernel.getOp(),
                  builder.getFunctionType(call.getInputs().getTypes(),
                                          call.getOutputs().getTypes()),
                  numbers.getDictionary(module.getContext()),
                  kernel.getFlopsAttr(), kernel.getBytesAttr()};
    KernelOp resized = table.getOrCreate(
        call.getLoc(), key, kernel.getNumericClass(), kernel.getAccumulates());
    call.setKernel(resized.getSymName());
  }
  for (KernelOp kernel : old)
    kernel.erase();
  return success();
}

LogicalResult Resizer::resizeConfig() {
  auto config = module->getAttrOfType<DictionaryAttr>(kConfigAttr);
  if (!config)
    return success();
  NamedAttrList entries(config);
  for (const Shrinking &entry : kShrinking) {
    auto size = config.getAs<IntegerAttr>(entry.config);
    if (!size || from[entry.extent] == 0)
      continue;
    if (size.getInt() != from[entry.extent])
      return module.emitError()
             << "can't be shrunk: " << kConfigAttr << " has " << entry.config
             << " = " << size.getInt() << ", but " << extentName(entry.extent)
             << " is " << from[entry.extent];
    entries.set(entry.config, builder.getI64IntegerAttr(to[entry.extent]));
  }
  module->setAttr(kConfigAttr, entries.getDictionary(module.getContext()));
  return success();
}

template <typename Op> static void updateType(Op function) {
  function.setFunctionType(FunctionType::get(
      function.getContext(), function.getBody().front().getArgumentTypes(),
      function.getReturn()->getOperandTypes()));
}

LogicalResult Resizer::run() {
  FailureOr<LayoutAttr> layout = getLayout(module);
  DimRoles roles;
  if (failed(layout) || failed(roles.run(module)))
    return failure();
  before = *layout;
  after = LayoutAttr::get(module.getContext(), before.getDp(), before.getEp(),
                          before.getPp(), before.getMicroBatch(),
                          before.getGlobalBatch(), to[Extent::Sequence],
                          before.getCapacity(), before.getLayers());
  for (Value value : roles.getValues()) {
    FailureOr<Type> type = resize(roles, value);
    if (failed(type))
      return failure();
    value.setType(*type);
  }
  WalkResult result = module.walk(
      [&](ComputeOpInterface op) { return WalkResult(resizeAttributes(op)); });
  if (result.wasInterrupted() || failed(resizeKernels()) ||
      failed(resizeConfig()))
    return failure();
  llvm::for_each(module.getOps<LayerOp>(), updateType<LayerOp>);
  llvm::for_each(module.getOps<ModelOp>(), updateType<ModelOp>);
  module->setAttr(kLayoutAttr, after);
  return success();
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

static bool isProgram(Operation &op) {
  return isa<LayerOp, ModelOp, TrainOp, KernelOp>(op);
}

LogicalResult mlir::moe::shrinkProgram(ModuleOp module, int64_t factor) {
  FailureOr<Phase> phase = getPhase(module);
  if (failed(phase))
    return failure();
  if (factor < 1)
    return module.emitError() << "can't be shrunk by " << factor
                              << ": the factor must be at "
                                 "least 1";
  if (factor == 1)
    return success();
  for (Operation &op : *module.getBody())
    if (!isProgram(op) && *phase != Phase::Sched)
      return op.emitOpError("can't be shrunk: it is no part of a program");
  Sizes from, to;
  if (failed(from.read(module)))
    return failure();
  Builder builder(module.getContext());
  NamedAttrList original;
  for (const Shrinking &entry : kShrinking) {
    int64_t size = from[entry.extent];
    if (size == 0)
      continue;
    if (size < 2)
      return module.emitError()
             << "can't be shrunk: " << extentName(entry.extent) << " = " << size
             << " is less than 2, the smallest size";
    to[entry.extent] = shrunkenSize(size, factor);
    original.set(extentName(entry.extent), builder.getI64IntegerAttr(size));
  }
  if (failed(Resizer(module, from, to).run()))
    return failure();
  if (!module->hasAttr(kOriginalAttr))
    module->setAttr(kOriginalAttr, original.getDictionary(module.getContext()));
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> mlir::moe::originalProgram(ModuleOp module) {
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(module->cloneWithoutRegions());
  copy->getBodyRegion().emplaceBlock();
  OpBuilder builder = OpBuilder::atBlockBegin(copy->getBody());
  for (Operation &op : *module.getBody())
    if (isProgram(op))
      builder.clone(op);
  auto original = module->getAttrOfType<DictionaryAttr>(kOriginalAttr);
  if (!original)
    return std::move(copy);
  Sizes from, to;
  if (failed(from.read(*copy)))
    return failure();
  for (const Shrinking &entry : kShrinking) {
    auto size = original.getAs<IntegerAttr>(extentName(entry.extent));
    if (!size && from[entry.extent] != 0)
      return module.emitError()
             << kOriginalAttr << " has no '" << extentName(entry.extent) << "'";
    to[entry.extent] = size ? size.getInt() : 0;
  }
  if (failed(Resizer(*copy, from, to).run()))
    return failure();
  (*copy)->removeAttr(kOriginalAttr);
  return std::move(copy);
}
