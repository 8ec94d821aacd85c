#include "DimRoles.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::moe;

StringRef mlir::moe::extentName(Extent extent) {
  static const StringLiteral names[] = {
      "unknown",      "a count",    "hidden",   "head_dim",
      "expert_width", "vocabulary", "sequence", "capacity"};
  return names[static_cast<unsigned>(extent)];
}

Extent mlir::moe::extentOf(DimRole role) {
  switch (role) {
  case DimRole::Hidden:
    return Extent::Hidden;
  case DimRole::HeadDim:
  case DimRole::Heads:
  case DimRole::KvHeads:
    return Extent::HeadDim;
  case DimRole::Experts:
    return Extent::Count;
  case DimRole::ExpertWidth:
  case DimRole::GateUpWidth:
    return Extent::ExpertWidth;
  case DimRole::Vocabulary:
    return Extent::Vocabulary;
  }
  llvm_unreachable("all roles are named");
}

/// What the dimensions of an op's operands and results count, operands before
/// and results after the arrow: one character a dimension. Equal small letters
/// of an op are one kind of dimension; S counts tokens, D head widths, # is a
/// count. `*` stands for as many dimensions as there are, alike in all of the
/// op's `*`; `.` is a `!moe.rows`. Empty: an op that isn't known.
static StringRef signatureOf(StringRef op) {
  return llvm::StringSwitch<StringRef>(op)
      .Case("embedding", "vh,S->Sh")
      .Case("embedding_wgrad", "S,Sh,vh->vh")
      .Case("rms_norm", "Sw,w->Sw")
      .Case("rms_norm_dgrad", "Sw,w,Sw->Sw")
      .Case("rms_norm_wgrad", "Sw,Sw,w->w")
      .Case("linear", "Si,oi->So")
      .Case("linear_dgrad", "So,oi->Si")
      .Case("linear_wgrad", "Si,So,oi->oi")
      .Case("rope", "SD->SD")
      .Case("attention", "SD,SD,SD->SD,S#")
      .Case("attention_grad", "SD,SD,SD,SD,S#,SD->SD,SD,SD")
      .Case("add", "*,*->*")
      .Case("cross_entropy", "Sv,S->#")
      .Case("cross_entropy_grad", "Sv,S->Sv")
      .Case("route", "S#->S#,S#")
      .Case("route_grad", "S#,S#,S#,S#->S#")
      .Case("permutation", "S#->S#,.")
      .Cases({"permute", "unpermute"}, "Sw,S#->Sw")
      .Case("permute_probs", "S#,S#->S")
      .Case("unpermute_probs", "S,S#->S#")
      .Cases({"local_rows", "exchange_counts"}, ".->.")
      .Case("sort_chunks", "*,.->*")
      .Case("grouped_linear", "ri,#oi,.->ro")
      .Case("grouped_linear_dgrad", "ro,#oi,.->ri")
      .Case("grouped_linear_wgrad", "ri,ro,.,#oi->#oi")
      .Case("swiglu", "rf,r,.->rf")
      .Case("swiglu_grad", "rf,r,rf,.->rf,r")
      .Cases({"all_reduce", "reduce_scatter", "all_gather", "slice", "vary"},
             "*->*")
      .Default("");
}

//===----------------------------------------------------------------------===//
// Dimensions that are of one kind
//===----------------------------------------------------------------------===//

unsigned DimRoles::root(unsigned node) const {
  while (nodes[node].parent != node)
    node = nodes[node].parent;
  return node;
}

unsigned DimRoles::nodeOf(Value value, unsigned dim) const {
  return firstNode.lookup(value) + dim;
}

DimExtent DimRoles::get(Value value, unsigned dim) const {
  return nodes[root(nodeOf(value, dim))].dim;
}

void DimRoles::collect(Operation *op) {
  auto add = [&](Value value) {
    if (!isa<RankedTensorType, RowsType>(value.getType()) ||
        !values.insert(value))
      return;
    firstNode[value] = nodes.size();
    if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
      for (int64_t i = 0; i < tensor.getRank(); ++i)
        nodes.push_back({static_cast<unsigned>(nodes.size()), {}});
  };
  llvm::for_each(op->getResults(), add);
  for (Region &region : op->getRegions())
    for (Block &block : region)
      llvm::for_each(block.getArguments(), add);
}

LogicalResult DimRoles::constrain(Operation *op, unsigned node, DimExtent dim) {
  DimExtent &known = nodes[root(node)].dim;
  if (known.extent == Extent::Unknown)
    known = dim;
  if (dim.extent == Extent::Unknown ||
      (dim.extent == known.extent && dim.copies == known.copies &&
       dim.experts == known.experts))
    return success();
  return op->emitOpError() << "can't be shrunk: it takes one dimension for "
                           << extentName(known.extent) << " and for "
                           << extentName(dim.extent);
}

LogicalResult DimRoles::unite(Operation *op, unsigned a, unsigned b) {
  a = root(a);
  b = root(b);
  if (a == b)
    return success();
  if (failed(constrain(op, a, nodes[b].dim)))
    return failure();
  nodes[b].parent = a;
  return success();
}

LogicalResult DimRoles::unite(Operation *op, ValueRange a, ValueRange b) {
  if (a.size() != b.size())
    return op->emitOpError() << "can't be shrunk: it has " << a.size()
                             << " values where " << b.size() << " are expected";
  for (auto [x, y] : llvm::zip_equal(a, b)) {
    auto left = dyn_cast<RankedTensorType>(x.getType());
    auto right = dyn_cast<RankedTensorType>(y.getType());
    if (!left && !right)
      continue;
    if (!left || !right || left.getRank() != right.getRank())
      return op->emitOpError() << "can't be shrunk: it passes " << x.getType()
                               << " as " << y.getType();
    for (int64_t i = 0; i < left.getRank(); ++i)
      if (failed(unite(op, nodeOf(x, i), nodeOf(y, i))))
        return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Matches values with comma-separated patterns of a signature.
LogicalResult DimRoles::match(Operation *op, StringRef patterns,
                              ValueRange values,
                              DenseMap<char, unsigned> &letters) {
  SmallVector<StringRef> each;
  patterns.split(each, ',');
  auto misfit = [&] {
    return op->emitOpError() << "can't be shrunk: its operands and results "
                                "are not those of the op of its name";
  };
  if (each.size() != values.size())
    return misfit();
  for (auto [pattern, value] : llvm::zip_equal(each, values)) {
    auto tensor = dyn_cast<RankedTensorType>(value.getType());
    if (!tensor) {
      if (pattern != ".")
        return misfit();
      continue;
    }
    bool any = pattern == "*";
    if (pattern == "." ||
        (!any && pattern.size() != static_cast<size_t>(tensor.getRank())))
      return misfit();
    for (int64_t i = 0; i < tensor.getRank(); ++i) {
      // Dimensions of a `*` are told apart by their number.
      char letter = any ? static_cast<char>(i) : pattern[i];
      unsigned node = nodeOf(value, i);
      LogicalResult result = success();
      if (letter == '#')
        result = constrain(op, node, {Extent::Count});
      else if (letter == 'S')
        result = constrain(op, node, {Extent::Sequence});
      else if (letter == 'D')
        result = constrain(op, node, {Extent::HeadDim});
      else if (auto [first, isNew] = letters.try_emplace(letter, node); !isNew)
        result = unite(op, node, first->second);
      if (failed(result))
        return failure();
    }
  }
  return success();
}

LogicalResult DimRoles::visitKernel(Operation *op, StringRef kernel) {
  StringRef signature = signatureOf(kernel);
  if (signature.empty())
    return op->emitOpError() << "can't be shrunk: nothing says what the "
                                "dimensions of '"
                             << kernel << "' count";
  auto [operands, results] = signature.split("->");
  DenseMap<char, unsigned> letters;
  if (failed(match(op, operands, op->getOperands(), letters)))
    return failure();
  return match(op, results, op->getResults(), letters);
}

LogicalResult DimRoles::visitParam(ParamOp op) {
  for (auto [i, role] : llvm::enumerate(op.getDims())) {
    Extent extent = extentOf(cast<DimRoleAttr>(role).getValue());
    if (failed(constrain(op, nodeOf(op, i), {extent})))
      return failure();
  }
  return success();
}

LogicalResult DimRoles::visitGrad(GradOp op) {
  auto layer = op->getParentOfType<LayerOp>();
  for (ParamOp param : layer.getBody().getOps<ParamOp>())
    if (param.getPatterns() == op.getPatterns())
      return unite(op, op.getResult(), param.getResult());
  return op.emitOpError("is of no parameter of the layer");
}

/// Whether a value is a layer's loss, which has no cotangent.
static bool isLoss(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto call = dyn_cast_or_null<CallOp>(op))
    return SymbolTable::lookupNearestSymbolFrom<KernelOp>(call,
                                                          call.getKernelAttr())
               .getOp() == "cross_entropy";
  return isa_and_nonnull<CrossEntropyOp>(op);
}

static bool isFloat(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && isa<FloatType>(tensor.getElementType());
}

LogicalResult DimRoles::visitBackward(BackwardOp op) {
  auto layer = cast<LayerOp>(op->getParentOp());
  SmallVector<Value> results, arguments;
  llvm::copy_if(layer.getReturn()->getOperands(), std::back_inserter(results),
                [](Value value) { return isFloat(value) && !isLoss(value); });
  llvm::copy_if(layer.getBody().getArguments(), std::back_inserter(arguments),
                isFloat);
  SmallVector<Value> grads(
      llvm::map_range(op.getBody().getOps<GradOp>(),
                      [](GradOp grad) { return grad.getResult(); }));
  ValueRange block(op.getBody().getArguments());
  unsigned cotangents = op.getNumCotangents();
  BackwardReturnOp end = op.getReturn();
  return success(
      succeeded(unite(op, block.take_front(cotangents), results)) &&
      succeeded(unite(op, block.drop_front(cotangents), op.getSaved())) &&
      succeeded(unite(end, end.getCotangents(), arguments)) &&
      succeeded(unite(end, end.getGrads(), grads)));
}

LogicalResult DimRoles::visitTokens(Operation *op, ValueRange tokens) {
  for (Value value : tokens) {
    auto tensor = dyn_cast<RankedTensorType>(value.getType());
    if (tensor && tensor.getRank() == 1 &&
        failed(constrain(op, nodeOf(value, 0), {Extent::Sequence})))
      return failure();
  }
  return success();
}

LogicalResult DimRoles::visit(Operation *op) {
  auto layerOf = [](auto apply) {
    return SymbolTable::lookupNearestSymbolFrom<LayerOp>(apply,
                                                         apply.getLayerAttr());
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<ParamOp>([&](ParamOp op) { return visitParam(op); })
      .Case<GradOp>([&](GradOp op) { return visitGrad(op); })
      .Case<BackwardOp>([&](BackwardOp op) { return visitBackward(op); })
      .Case<ModelOp>([&](ModelOp op) {
        return visitTokens(op, op.getBody().getArguments());
      })
      .Case<MicroBatchesOp>([&](MicroBatchesOp op) {
        ValueRange tokens(op.getBody().getArguments());
        Value loss = cast<YieldOp>(op.getBody().front().back()).getLoss();
        return success(succeeded(visitTokens(op, tokens.take_front(2))) &&
                       succeeded(unite(op, op.getLoss(), loss)));
      })
      .Case<ApplyOp>([&](ApplyOp op) {
        LayerOp layer = layerOf(op);
        ValueRange results(layer.getReturn()->getOperands());
        ValueRange outputs(op.getOutputs());
        return success(
            succeeded(
                unite(op, op.getInputs(), layer.getBody().getArguments())) &&
            succeeded(unite(op, outputs.take_front(results.size()), results)));
      })
      .Case<ApplyBackwardOp>([&](ApplyBackwardOp op) {
        BackwardOp backward =
            *layerOf(op).getBody().template getOps<BackwardOp>().begin();
        ValueRange arguments(backward.getBody().getArguments());
        return success(succeeded(unite(op, op.getCotangents(),
                                       arguments.take_front(
                                           backward.getNumCotangents()))) &&
                       succeeded(unite(op, op.getResults(),
                                       backward.getReturn().getCotangents())));
      })
      .Case<AllToAllOp>([&](AllToAllOp op) {
        auto type = cast<RankedTensorType>(op.getInput().getType());
        for (int64_t i = 1; i < type.getRank(); ++i)
          if (failed(unite(op, nodeOf(op.getInput(), i),
                           nodeOf(op.getResult(), i))))
            return failure();
        exchanges.push_back(op);
        return success();
      })
      .Case<CallOp>([&](CallOp op) {
        return visitKernel(op, SymbolTable::lookupNearestSymbolFrom<KernelOp>(
                                   op, op.getKernelAttr())
                                   .getOp());
      })
      .Case<LayerOp, TrainOp, ReturnOp, BackwardReturnOp, YieldOp, ZeroGradsOp,
            OptimizerOp>([](Operation *) { return success(); })
      .Default([&](Operation *op) {
        // Ops of other dialects keep their whole name, which none here has.
        return visitKernel(op, isa_and_nonnull<MoeDialect>(op->getDialect())
                                   ? op->getName().stripDialect()
                                   : op->getName().getStringRef());
      });
}

/// One side of an exchange is each rank's copies of its own tokens, in a row
/// each; the other, of the layout's capacity, what it receives.
LogicalResult DimRoles::resolveExchanges() {
  for (AllToAllOp op : exchanges) {
    DimExtent in = get(op.getInput(), 0), out = get(op.getResult(), 0);
    if (in.extent != Extent::Sequence && out.extent != Extent::Sequence)
      return op.emitOpError("can't be shrunk: neither its input nor its result "
                            "are copies of tokens");
    auto result = cast<RankedTensorType>(op.getResult().getType());
    auto input = cast<RankedTensorType>(op.getInput().getType());
    bool sends = in.extent == Extent::Sequence;
    Value received = sends ? op.getResult() : op.getInput();
    int64_t copies = (sends ? input : result).getDimSize(0);
    RowsType rows = op.getSend().getType();
    if (rows.getMean() != copies)
      return op.emitOpError()
             << "can't be shrunk: it exchanges " << copies
             << " copies of tokens, but its counts expect " << rows.getMean();
    if (failed(constrain(op, nodeOf(received, 0),
                         {Extent::Capacity, copies, rows.getGroups()})))
      return failure();
  }
  return success();
}

LogicalResult DimRoles::run(ModuleOp module) {
  SmallVector<Operation *> ops;
  for (Operation &top : *module.getBody())
    if (isa<LayerOp, ModelOp, TrainOp>(top))
      top.walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops)
    collect(op);
  for (Operation *op : ops)
    if (failed(visit(op)))
      return failure();
  if (failed(resolveExchanges()))
    return failure();
  for (Value value : values) {
    auto tensor = dyn_cast<RankedTensorType>(value.getType());
    for (int64_t i = 0; tensor && i < tensor.getRank(); ++i)
      if (get(value, i).extent == Extent::Unknown)
        return emitError(value.getLoc())
               << "can't be shrunk: nothing says what dimension #" << i
               << " of a " << tensor << " counts";
  }
  return success();
}
