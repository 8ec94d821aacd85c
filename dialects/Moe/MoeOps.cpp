#include "dialects/Moe/MoeOps.h"

#include "dialects/Moe/MoeVerify.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace mlir::moe;

/// `dims [hidden, experts]`.
static ParseResult parseDims(OpAsmParser &parser, ArrayAttr &dims) {
  SmallVector<Attribute> roles;
  auto parseOne = [&]() -> ParseResult {
    StringRef keyword;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return failure();
    auto role = symbolizeDimRole(keyword);
    if (!role)
      return parser.emitError(loc) << "unknown dimension '" << keyword << "'";
    roles.push_back(DimRoleAttr::get(parser.getContext(), *role));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  dims = ArrayAttr::get(parser.getContext(), roles);
  return success();
}

static void printDims(OpAsmPrinter &printer, Operation *, ArrayAttr dims) {
  printer << "[";
  llvm::interleaveComma(dims, printer, [&](Attribute role) {
    printer << stringifyDimRole(cast<DimRoleAttr>(role).getValue());
  });
  printer << "]";
}

static ParseResult parseInitKind(OpAsmParser &parser, InitAttr &init) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  auto kind = symbolizeInit(keyword);
  if (!kind)
    return parser.emitError(loc) << "expected ones or normal";
  init = InitAttr::get(parser.getContext(), *kind);
  return success();
}

static void printInitKind(OpAsmPrinter &printer, Operation *, InitAttr init) {
  printer << stringifyInit(init.getValue());
}

#define GET_OP_CLASSES
#include "dialects/Moe/MoeOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Layer and model
//===----------------------------------------------------------------------===//

template <typename Op>
static ParseResult parseFunction(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments,
                      ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      Op::getFunctionTypeAttrName(result.name), buildType,
      Op::getArgAttrsAttrName(result.name),
      Op::getResAttrsAttrName(result.name));
}

template <typename Op> static void printFunction(Op op, OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(
      printer, op, /*isVariadic=*/false, op.getFunctionTypeAttrName(),
      op.getArgAttrsAttrName(), op.getResAttrsAttrName());
}

template <typename Op>
static void buildFunction(OpBuilder &builder, OperationState &state,
                          StringRef name, FunctionType type) {
  state.addAttribute(SymbolTable::getSymbolAttrName(),
                     builder.getStringAttr(name));
  state.addAttribute(Op::getFunctionTypeAttrName(state.name),
                     TypeAttr::get(type));
  Region *body = state.addRegion();
  Block &block = body->emplaceBlock();
  for (Type input : type.getInputs())
    block.addArgument(input, state.location);
}

void LayerOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                    FunctionType type) {
  buildFunction<LayerOp>(builder, state, name, type);
}
ParseResult LayerOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<LayerOp>(parser, result);
}
void LayerOp::print(OpAsmPrinter &printer) { printFunction(*this, printer); }
ReturnOp LayerOp::getReturn() {
  return cast<ReturnOp>(getBody().front().getTerminator());
}

bool LayerOp::isIndexed() {
  return llvm::any_of(getBody().getOps<ParamOp>(), [](ParamOp param) {
    return param.getKey().contains("{i}");
  });
}

void ModelOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                    FunctionType type) {
  buildFunction<ModelOp>(builder, state, name, type);
}
ParseResult ModelOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<ModelOp>(parser, result);
}
void ModelOp::print(OpAsmPrinter &printer) { printFunction(*this, printer); }
ReturnOp ModelOp::getReturn() {
  return cast<ReturnOp>(getBody().front().getTerminator());
}

LogicalResult ReturnOp::verify() {
  auto function = cast<FunctionOpInterface>((*this)->getParentOp());
  if (TypeRange(getOperandTypes()) != TypeRange(function.getResultTypes()))
    return emitOpError() << "types must be the results' of '"
                         << function.getName() << "'";
  return success();
}

LogicalResult ParamOp::verify() {
  if (getPatterns().empty())
    return emitOpError("needs at least one name pattern");
  if (getDims().size() != static_cast<size_t>(getType().getRank()))
    return emitOpError() << "names " << getDims().size()
                         << " dimensions of a tensor of rank "
                         << getType().getRank();
  return success();
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

LogicalResult BackwardOp::verify() {
  Block &body = getBody().front();
  if (body.getNumArguments() < getSaved().size())
    return emitOpError() << "has " << body.getNumArguments()
                         << " block arguments for " << getSaved().size()
                         << " saved values and the cotangents before them";
  for (auto [i, value] : llvm::enumerate(getSaved()))
    if (getSavedArgument(i).getType() != value.getType())
      return emitOpError() << "saved value #" << i << " has type "
                           << value.getType() << ", its block argument "
                           << getSavedArgument(i).getType();
  if (body.empty() || !isa<BackwardReturnOp>(body.back()))
    return emitOpError("must end in moe.backward_return");
  return success();
}

BackwardReturnOp BackwardOp::getReturn() {
  return cast<BackwardReturnOp>(getBody().front().getTerminator());
}

LogicalResult BackwardReturnOp::verify() {
  auto backward = cast<BackwardOp>((*this)->getParentOp());
  SmallVector<GradOp> grads(backward.getBody().getOps<GradOp>());
  if (grads.size() != getGrads().size())
    return emitOpError() << "returns " << getGrads().size()
                         << " gradient sums for " << grads.size()
                         << " moe.grad";
  for (auto [i, grad] : llvm::enumerate(grads))
    if (grad.getType() != getGrads()[i].getType())
      return emitOpError() << "gradient sum #" << i << " has type "
                           << getGrads()[i].getType() << ", its moe.grad "
                           << grad.getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Finds the layer of an apply and checks the range.
template <typename Op>
static FailureOr<LayerOp> lookupLayer(Op op, SymbolTableCollection &tables) {
  auto layer = tables.lookupNearestSymbolFrom<LayerOp>(op, op.getLayerAttr());
  if (!layer) {
    op.emitOpError() << "'" << op.getLayer() << "' is not a moe.layer";
    return failure();
  }
  if (op.getLower() < 0 || op.getUpper() < op.getLower()) {
    op.emitOpError() << "range [" << op.getLower() << " to " << op.getUpper()
                     << "] is not ascending";
    return failure();
  }
  return layer;
}

LogicalResult ApplyOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<LayerOp> layer = lookupLayer(*this, tables);
  if (failed(layer))
    return failure();
  if (getInputs().getTypes() != TypeRange(layer->getArgumentTypes()))
    return emitOpError() << "operand types must be those of '" << getLayer()
                         << "'";
  SmallVector<Type> results(layer->getResultTypes());
  if (getNumResults() == results.size() + 1)
    results.push_back(SavedType::get(getContext(), getLayerAttr()));
  if (getResultTypes() != TypeRange(results))
    return emitOpError() << "result types must be those of '" << getLayer()
                         << "' (and !moe.saved<@" << getLayer() << ">)";
  if (getUpper() - getLower() > 1 &&
      (results.empty() || getInputs().empty() ||
       results.front() != getInputs().front().getType()))
    return emitOpError() << "repeats '" << getLayer()
                         << "', whose first argument and result differ";
  return success();
}

LogicalResult ApplyBackwardOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<LayerOp> layer = lookupLayer(*this, tables);
  if (failed(layer))
    return failure();
  auto backwards = layer->getBody().getOps<BackwardOp>();
  if (backwards.empty())
    return emitOpError() << "'" << getLayer() << "' has no moe.backward";
  if (getSaved().getType().getLayer() != getLayerAttr() ||
      getGrads().getType().getLayer() != getLayerAttr())
    return emitOpError() << "saved values and gradients must be those of '"
                         << getLayer() << "'";
  BackwardOp backward = *backwards.begin();
  if (getCotangents().size() != backward.getNumCotangents())
    return emitOpError() << "has " << getCotangents().size() << " cotangents, '"
                         << getLayer() << "' wants "
                         << backward.getNumCotangents();
  if (getResults().size() != backward.getReturn().getCotangents().size())
    return emitOpError() << "has " << getResults().size() << " results, '"
                         << getLayer() << "' returns "
                         << backward.getReturn().getCotangents().size();
  return success();
}

LogicalResult MicroBatchesOp::verify() {
  if (getCount() < 1)
    return emitOpError() << "count must be at least 1, but is " << getCount();
  Block &body = getBody().front();
  if (body.getNumArguments() != getInitial().size() + 2)
    return emitOpError() << "body must have arguments for ids, labels and "
                         << getInitial().size() << " gradients, but has "
                         << body.getNumArguments();
  if (body.empty() || !isa<YieldOp>(body.back()))
    return emitOpError("must end in moe.yield");
  auto yield = cast<YieldOp>(body.back());
  if (yield.getSums().getTypes() != getInitial().getTypes() ||
      getSums().getTypes() != getInitial().getTypes())
    return emitOpError("gradients in, yielded and out must have one type each");
  return success();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

SmallVector<Type> KernelOp::getBodyArgumentTypes() {
  SmallVector<Type> types;
  auto append = [&](TypeRange range) {
    for (Type type : range)
      if (auto rows = dyn_cast<RowsType>(type))
        types.push_back(MemRefType::get(rows.getGroups(),
                                        IntegerType::get(getContext(), 32)));
      else if (auto tensor = dyn_cast<RankedTensorType>(type))
        types.push_back(
            MemRefType::get(tensor.getShape(), tensor.getElementType()));
      else
        types.push_back(type);
  };
  append(getFunctionType().getInputs());
  if (!getAccumulates())
    append(getFunctionType().getResults());
  return types;
}

LogicalResult KernelOp::verify() {
  for (const APFloat &cost : {getFlops(), getBytes()})
    if (!cost.isFinite() || (cost.isNegative() && !cost.isZero()))
      return emitOpError("flops and bytes must be finite and at least 0");
  if (getAccumulates()) {
    FunctionType type = getFunctionType();
    if (type.getNumResults() != 1 || type.getNumInputs() < 1 ||
        type.getInputs().back() != type.getResult(0))
      return emitOpError("accumulates, so its last input and only result must "
                         "have one type");
  }
  for (NamedAttribute attribute : getNumbers())
    if (!isa<FloatAttr>(attribute.getValue()))
      return emitOpError() << "number '" << attribute.getName()
                           << "' must be a number (f64)";
  if (!getBody().empty() && TypeRange(getBody().getArgumentTypes()) !=
                                TypeRange(getBodyArgumentTypes()))
    return emitOpError() << "arguments of the body must be "
                         << getBodyArgumentTypes();
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto kernel =
      tables.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "'" << getKernel() << "' is not a moe.kernel";
  FunctionType type = kernel.getFunctionType();
  if (TypeRange(type.getInputs()) != getInputs().getTypes() ||
      TypeRange(type.getResults()) != getOutputs().getTypes())
    return emitOpError() << "types must be those of '" << getKernel() << "', "
                         << type;
  return success();
}
