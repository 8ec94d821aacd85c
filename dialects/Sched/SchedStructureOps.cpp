//===- SchedStructureOps.cpp - Kernels and templates ----------------------===//

#include "dialects/Sched/SchedOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::sched;

LogicalResult KernelOp::verify() {
  for (int32_t effect : getEffects())
    if (!symbolizeEffect(effect))
      return emitOpError("has an unknown effect ") << effect;
  if (getNumbers())
    for (NamedAttribute number : getNumbersAttr())
      if (!isa<FloatAttr, IntegerAttr>(number.getValue()))
        return emitOpError()
               << "'" << number.getName().getValue() << "' must be a number";
  return success();
}

//===----------------------------------------------------------------------===//
// Template
//===----------------------------------------------------------------------===//

YieldOp TemplateOp::getYield() {
  return cast<YieldOp>(getBody().front().getTerminator());
}

void TemplateOp::getAsmBlockArgumentNames(Region &region,
                                          OpAsmSetValueNameFn setName) {
  if (region.empty() ||
      region.getNumArguments() != getFrames().size() + getImports().size())
    return;
  for (auto [frame, argument] :
       llvm::zip(getFrames().getAsRange<FrameAttr>(), getFrameArguments()))
    setName(argument, frame.getName().getValue());
  for (auto [name, argument] : llvm::zip(
           getImports().getAsValueRange<StringAttr>(), getImportArguments()))
    setName(argument, name);
}

/// An argument and its name: `%x`, or `%y "other name"`.
static ParseResult parseNamed(OpAsmParser &parser,
                              OpAsmParser::Argument &argument,
                              StringAttr &name) {
  if (parser.parseArgument(argument))
    return failure();
  std::string spelled;
  if (failed(parser.parseOptionalString(&spelled)))
    spelled = argument.ssaName.name.drop_front().str();
  name = parser.getBuilder().getStringAttr(spelled);
  return success();
}

static void printNamed(OpAsmPrinter &printer, Value argument, StringRef name) {
  std::string spelled;
  llvm::raw_string_ostream os(spelled);
  printer.printOperand(argument, os);
  printer << spelled;
  if (StringRef(spelled).drop_front() != name) {
    printer << " ";
    printer.printString(name);
  }
}

ParseResult TemplateOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> frames, imports;

  auto parseFrame = [&]() -> ParseResult {
    StringAttr name;
    StringRef kind;
    int64_t bytes = -1;
    OpAsmParser::Argument &argument = arguments.emplace_back();
    argument.type = builder.getType<FrameType>();
    if (parseNamed(parser, argument, name) || parser.parseColon())
      return failure();
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&kind))
      return failure();
    std::optional<FrameKind> frameKind = symbolizeFrameKind(kind);
    if (!frameKind)
      return parser.emitError(loc) << "unknown kind of frame '" << kind << "'";
    if (succeeded(parser.parseOptionalLess()) &&
        (parser.parseInteger(bytes) || parser.parseGreater()))
      return failure();
    auto frame =
        FrameAttr::getChecked([&] { return parser.emitError(loc); },
                              parser.getContext(), name, *frameKind, bytes);
    frames.push_back(frame);
    return success(bool(frame));
  };
  auto parseImport = [&]() -> ParseResult {
    StringAttr name;
    OpAsmParser::Argument &argument = arguments.emplace_back();
    argument.type = builder.getType<EventType>();
    if (parseNamed(parser, argument, name))
      return failure();
    imports.push_back(name);
    return success();
  };

  StringAttr name;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(),
                             result.attributes) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseFrame))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("imports")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseImport))
    return failure();
  result.addAttribute(getFramesAttrName(result.name),
                      builder.getArrayAttr(frames));
  result.addAttribute(getImportsAttrName(result.name),
                      builder.getArrayAttr(imports));
  Region *body = result.addRegion();
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseRegion(*body, arguments))
    return failure();
  ensureTerminator(*body, builder, result.location);
  return success();
}

void TemplateOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printSymbolName(getSymName());
  printer << "(";
  llvm::interleaveComma(
      llvm::zip_equal(getFrames().getAsRange<FrameAttr>(), getFrameArguments()),
      printer, [&](auto pair) {
        auto [frame, argument] = pair;
        printNamed(printer, argument, frame.getName());
        printer << ": " << stringifyFrameKind(frame.getKind());
        if (frame.hasBytes())
          printer << "<" << frame.getBytes() << ">";
      });
  printer << ")";
  if (!getImports().empty()) {
    printer << " imports(";
    llvm::interleaveComma(
        llvm::zip_equal(getImports().getAsValueRange<StringAttr>(),
                        getImportArguments()),
        printer, [&](auto pair) {
          auto [name, argument] = pair;
          printNamed(printer, argument, name);
        });
    printer << ")";
  }
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {getSymNameAttrName(), getFramesAttrName(), getImportsAttrName()});
  printer << " ";
  printer.printRegion(
      getBody(), /*printEntryBlockArgs=*/false,
      /*printBlockTerminators=*/!getYield().getEvents().empty());
}

LogicalResult TemplateOp::verify() {
  unsigned frames = getFrames().size();
  if (getBody().getNumArguments() != frames + getImports().size())
    return emitOpError("needs one argument per frame and import");
  for (BlockArgument argument : getBody().getArguments())
    if (argument.getArgNumber() < frames ? !isa<FrameType>(argument.getType())
                                         : !isa<EventType>(argument.getType()))
      return emitOpError() << "argument " << argument.getArgNumber()
                           << " has the wrong type";
  for (Operation &op : getBody().front().without_terminator())
    if (!isa<IssuedOpInterface, BufferOp, CaptureOp>(op))
      return op.emitOpError("can't be in a sched.template");
  return success();
}
