//===- SchedOps.cpp - What a template issues ------------------------------===//

#include "dialects/Sched/SchedOps.h"

#include "dialects/Moe/MoeOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::sched;

//===----------------------------------------------------------------------===//
// Syntax
//===----------------------------------------------------------------------===//

/// `(%x, inout %sum, out %y)`.
static ParseResult
parseBuffers(OpAsmParser &parser,
             SmallVectorImpl<OpAsmParser::UnresolvedOperand> &buffers,
             DenseI32ArrayAttr &effects) {
  SmallVector<int32_t> kinds;
  auto parseOne = [&]() -> ParseResult {
    Effect effect = Effect::Read;
    if (succeeded(parser.parseOptionalKeyword("out")))
      effect = Effect::Write;
    else if (succeeded(parser.parseOptionalKeyword("inout")))
      effect = Effect::ReadWrite;
    kinds.push_back(static_cast<int32_t>(effect));
    return parser.parseOperand(buffers.emplace_back());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  effects = DenseI32ArrayAttr::get(parser.getContext(), kinds);
  return success();
}

static void printBuffers(OpAsmPrinter &printer, Operation *,
                         OperandRange buffers, DenseI32ArrayAttr effects) {
  printer << "(";
  llvm::interleaveComma(
      llvm::zip_equal(buffers, effects.asArrayRef()), printer, [&](auto pair) {
        auto [buffer, effect] = pair;
        if (effect != static_cast<int32_t>(Effect::Read))
          printer << (effect == static_cast<int32_t>(Effect::Write) ? "out "
                                                                    : "inout ");
        printer << buffer;
      });
  printer << ")";
}

/// As many events as results are named: an op prints them only if it has any.
static ParseResult parseEvents(OpAsmParser &parser,
                               SmallVectorImpl<Type> &types) {
  constexpr size_t kMost = 65536;
  if (parser.getNumResults() > kMost)
    return parser.emitError(parser.getNameLoc())
           << "has " << parser.getNumResults() << " events, but " << kMost
           << " at most";
  types.append(parser.getNumResults(), EventType::get(parser.getContext()));
  return success();
}
static void printEvents(OpAsmPrinter &, Operation *, TypeRange) {}

static ParseResult parseEvents(OpAsmParser &parser, Type &type) {
  if (parser.getNumResults() > 1)
    return parser.emitError(parser.getNameLoc(), "has one event at most");
  if (parser.getNumResults())
    type = EventType::get(parser.getContext());
  return success();
}
static void printEvents(OpAsmPrinter &, Operation *, Type) {}

/// `(read, read_write, write)`.
static ParseResult parseEffects(OpAsmParser &parser,
                                DenseI32ArrayAttr &effects) {
  SmallVector<int32_t> kinds;
  auto parseOne = [&]() -> ParseResult {
    StringRef keyword;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return failure();
    std::optional<Effect> effect = symbolizeEffect(keyword);
    if (!effect)
      return parser.emitError(loc, "expected read, write or read_write");
    kinds.push_back(static_cast<int32_t>(*effect));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  effects = DenseI32ArrayAttr::get(parser.getContext(), kinds);
  return success();
}

static void printEffects(OpAsmPrinter &printer, Operation *,
                         DenseI32ArrayAttr effects) {
  printer << "(";
  llvm::interleaveComma(effects.asArrayRef(), printer, [&](int32_t effect) {
    printer << stringifyEffect(static_cast<Effect>(effect));
  });
  printer << ")";
}

#define GET_OP_CLASSES
#include "dialects/Sched/SchedOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Names of results
//===----------------------------------------------------------------------===//

void BufferOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  auto owner = cast<BlockArgument>(getFrame());
  auto parent = cast<TemplateOp>((*this)->getParentOp());
  if (owner.getArgNumber() >= parent.getFrames().size())
    return;
  std::string name =
      parent.getFrame(owner.getArgNumber()).getName().getValue().str();
  if (IntegerAttr offset = getOffsetAttr())
    name += "." + std::to_string(offset.getInt());
  setName(getResult(), name);
}

static void nameEvent(Value event, StringRef name,
                      OpAsmSetValueNameFn setName) {
  if (event)
    setName(event, name);
}
void LaunchOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameEvent(getDone(), getKernel(), setName);
}
void CollectiveOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameEvent(getDone(), stringifyCollectiveKind(getKind()), setName);
}
void SendOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameEvent(getDone(), "sent", setName);
}
void RecvOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameEvent(getDone(), "received", setName);
}
void HostReadOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameEvent(getDone(), "read", setName);
}
void DoneOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "done");
}
void CaptureOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  if (getNumResults())
    setName(getResult(0), getName());
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

SmallVector<int32_t> sched::kernelEffects(Operation *kernel) {
  if (auto own = dyn_cast<KernelOp>(kernel))
    return llvm::to_vector(own.getEffects());
  auto model = cast<moe::KernelOp>(kernel);
  FunctionType type = model.getFunctionType();
  SmallVector<int32_t> effects(type.getNumInputs(),
                               static_cast<int32_t>(Effect::Read));
  if (model.getAccumulates())
    effects.back() = static_cast<int32_t>(Effect::ReadWrite);
  else
    effects.append(type.getNumResults(), static_cast<int32_t>(Effect::Write));
  return effects;
}

Operation *sched::lookupKernel(LaunchOp launch,
                               SymbolTableCollection &symbols) {
  StringAttr name = launch.getKernelAttr().getAttr();
  auto job = launch->getParentOfType<JobOp>();
  if (!job)
    return nullptr;
  if (Operation *own = symbols.lookupSymbolIn(job, name))
    return isa<KernelOp>(own) ? own : nullptr;
  return symbols.lookupSymbolIn<moe::KernelOp>(job->getParentOp(), name);
}

/// The symbol of the op's job with this name, which must be an `Op`.
template <typename Op>
static LogicalResult expectSymbol(Operation *op, FlatSymbolRefAttr name,
                                  SymbolTableCollection &symbols) {
  if (symbols.lookupNearestSymbolFrom<Op>(op, name))
    return success();
  return op->emitOpError() << "'" << name.getValue() << "' is no "
                           << Op::getOperationName() << " of the job";
}

/// How a buffer holds a value: rows are their counts.
static Type bufferType(Type type) {
  auto rows = dyn_cast<moe::RowsType>(type);
  return rows ? RankedTensorType::get({rows.getGroups()},
                                      IntegerType::get(type.getContext(), 32))
              : type;
}

/// A kernel may be compiled for the shapes it says.
static LogicalResult verifyShapes(LaunchOp launch, moe::KernelOp kernel) {
  FunctionType type = kernel.getFunctionType();
  SmallVector<Type> wanted(type.getInputs());
  // An accumulator is one buffer.
  if (!kernel.getAccumulates())
    llvm::append_range(wanted, type.getResults());
  for (auto [i, buffer, want] : llvm::enumerate(launch.getBuffers(), wanted)) {
    auto definition = buffer.getDefiningOp<BufferOp>();
    if (definition && definition.getShape() != bufferType(want))
      return launch.emitOpError()
             << "buffer " << i << " is " << definition.getShape()
             << ", but its kernel takes " << bufferType(want);
  }
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(expectSymbol<StreamOp>(*this, getStreamAttr(), symbols)))
    return failure();
  Operation *kernel = lookupKernel(*this, symbols);
  if (!kernel)
    return emitOpError() << "'" << getKernel()
                         << "' is no sched.kernel of the job and no "
                            "moe.kernel of the module";
  SmallVector<int32_t> effects = kernelEffects(kernel);
  if (effects.size() != getEffects().size())
    return emitOpError() << "has " << getEffects().size()
                         << " buffers, but its kernel takes " << effects.size();
  for (auto [i, want] : llvm::enumerate(effects))
    if (getEffects()[i] != want)
      return emitOpError() << "buffer " << i << " must be "
                           << stringifyEffect(static_cast<Effect>(want))
                           << ", as its kernel says";
  auto typed = dyn_cast<moe::KernelOp>(kernel);
  return typed ? verifyShapes(*this, typed) : success();
}

/// The stream, and for those that have one the communicator.
template <typename Op>
static LogicalResult verifyCommunication(Op op,
                                         SymbolTableCollection &symbols) {
  if (failed(
          expectSymbol<CommunicatorOp>(op, op.getCommunicatorAttr(), symbols)))
    return failure();
  return expectSymbol<StreamOp>(op, op.getStreamAttr(), symbols);
}
LogicalResult CollectiveOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyCommunication(*this, symbols);
}
LogicalResult SendOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyCommunication(*this, symbols);
}
LogicalResult RecvOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyCommunication(*this, symbols);
}
LogicalResult HostReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return expectSymbol<StreamOp>(*this, getStreamAttr(), symbols);
}
LogicalResult BucketOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return expectSymbol<CommunicatorOp>(*this, getCommunicatorAttr(), symbols);
}
LogicalResult ParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!getCommunicatorAttr())
    return success();
  return expectSymbol<CommunicatorOp>(*this, getCommunicatorAttr(), symbols);
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(expectSymbol<TemplateOp>(*this, getCalleeAttr(), symbols)))
    return failure();
  auto callee =
      symbols.lookupNearestSymbolFrom<TemplateOp>(*this, getCalleeAttr());
  auto expect = [&](size_t got, size_t want, StringRef what) -> LogicalResult {
    if (got == want)
      return success();
    return emitOpError() << "has " << got << " " << what
                         << ", but its template has " << want;
  };
  if (getBases() &&
      failed(expect(getBases()->size(), callee.getFrames().size(), "frames")))
    return failure();
  if (failed(
          expect(getImports().size(), callee.getImports().size(), "imports")))
    return failure();
  return expect(getNumResults(), callee.getYield().getEvents().size(),
                "events");
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

static LogicalResult verifyShape(Operation *op, Type type) {
  auto shape = cast<RankedTensorType>(type);
  if (!shape.hasStaticShape() || shape.getEncoding())
    return op->emitOpError("needs a static shape without encoding");
  int64_t bytes = 4;
  for (int64_t dim : shape.getShape())
    if (llvm::MulOverflow(bytes, dim, bytes) || bytes > kMaxBytes)
      return op->emitOpError("has a shape that is too large");
  return success();
}

LogicalResult BufferOp::verify() {
  auto argument = dyn_cast<BlockArgument>(getFrame());
  if (!argument)
    return emitOpError("must name a frame of its template");
  if (getOffsetAttr() && getOffsetAttr().getInt() < 0)
    return emitOpError("can't have a negative offset");
  if (getOffset().value_or(0) > kMaxBytes)
    return emitOpError("has an offset that is too large");
  return verifyShape(*this, getShape());
}
LogicalResult ParameterOp::verify() { return verifyShape(*this, getShape()); }

/// The buffers of `op` must be used like this, in this order.
static LogicalResult expectEffects(IssuedOpInterface op,
                                   ArrayRef<Effect> effects, StringRef form) {
  auto same = [](int32_t got, Effect want) {
    return got == static_cast<int32_t>(want);
  };
  if (llvm::equal(op.getEffects(), effects, same))
    return success();
  return op->emitOpError() << "needs buffers " << form;
}

LogicalResult CollectiveOp::verify() {
  if (getKind() == CollectiveKind::AllToAll)
    return expectEffects(*this,
                         {Effect::Read, Effect::Read, Effect::Read,
                          Effect::ReadWrite, Effect::Write},
                         "(x, send counts, receive counts, inout flag, out y)");
  return expectEffects(*this, {Effect::Read, Effect::Write}, "(x, out y)");
}
LogicalResult SendOp::verify() {
  return expectEffects(*this, {Effect::Read}, "(x)");
}
LogicalResult RecvOp::verify() {
  return expectEffects(*this, {Effect::Write}, "(out x)");
}
LogicalResult HostReadOp::verify() {
  return expectEffects(*this, {Effect::Read, Effect::Write}, "(x, out y)");
}

LogicalResult CaptureOp::verify() {
  for (Operation &op : getBody().front().without_terminator())
    if (!isa<IssuedOpInterface>(op))
      return op.emitOpError("can't be in a capture");
  auto yield = cast<YieldOp>(getBody().front().getTerminator());
  if (yield.getEvents().size() != getNumResults())
    return emitOpError() << "has " << getNumResults() << " results, but yields "
                         << yield.getEvents().size() << " events";
  return success();
}
