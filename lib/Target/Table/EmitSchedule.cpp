//===- EmitSchedule.cpp - From a table to sched IR ------------------------===//

#include "moe/Target/Table.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Distinct names, as the job's symbols need them.
LogicalResult checkNames(ModuleOp module, const moert::Table &table) {
  llvm::StringMap<StringRef> kinds;
  LogicalResult result = success();
  auto add = [&](const auto &objects, StringRef kind) {
    for (const auto &object : objects) {
      auto [it, isNew] = kinds.try_emplace(object.name, kind);
      if (object.name.empty())
        result = emitError(module.getLoc()) << "a " << kind << " has no name";
      else if (!isNew)
        result = emitError(module.getLoc())
                 << "a " << it->second << " and a " << kind
                 << " are both named '" << object.name
                 << "'; the names of a schedule must differ";
    }
  };
  add(table.streams, "stream");
  add(table.communicators, "communicator");
  add(table.kernels, "kernel");
  add(table.templates, "template");
  add(table.programs, "program");
  return result;
}

class Emitter {
public:
  Emitter(ModuleOp module, const moert::Table &table)
      : builder(OpBuilder::atBlockEnd(module.getBody())), table(table),
        yields(table.templates.size()) {}

  void run() {
    Location loc = builder.getUnknownLoc();
    auto job = sched::JobOp::create(builder, loc, table.model, table.target,
                                    table.ranks, table.microBatches,
                                    table.microBatchSamples, table.sequence,
                                    table.dataParallel, table.vocabulary,
                                    APFloat(table.initStd), table.memoryLimit);
    builder.createBlock(&job.getBody());
    for (const moert::Stream &s : table.streams)
      sched::StreamOp::create(builder, loc, s.name, s.priority);
    for (const moert::Communicator &c : table.communicators)
      sched::CommunicatorOp::create(builder, loc, c.name, c.size, c.stride,
                                    c.smBudget);
    for (const moert::Kernel &k : table.kernels)
      emitKernel(k);
    collectYields();
    for (size_t t = 0; t < table.templates.size(); ++t)
      emitTemplate(table.templates[t], yields[t]);
    for (const moert::Program &p : table.programs)
      emitProgram(p);
  }

private:
  /// What differs among the ops that a template issues.
  static SmallVector<int32_t> effects(const std::vector<moert::Operand> &list) {
    SmallVector<int32_t> result;
    for (const moert::Operand &operand : list)
      result.push_back(static_cast<int32_t>(operand.effect));
    return result;
  }
  FlatSymbolRefAttr ref(StringRef name) {
    return FlatSymbolRefAttr::get(builder.getContext(), name);
  }
  /// Null for -1, which stands for "none".
  IntegerAttr optional(int64_t value) {
    return value == -1 ? nullptr : builder.getI64IntegerAttr(value);
  }
  Type element(moert::ElementType type) {
    switch (type) {
    case moert::ElementType::F32:
      return builder.getF32Type();
    case moert::ElementType::BF16:
      return builder.getBF16Type();
    case moert::ElementType::I32:
      break;
    }
    return builder.getI32Type();
  }

  void emitKernel(const moert::Kernel &kernel);
  void collectYields();
  void emitTemplate(const moert::Template &tmpl, ArrayRef<uint32_t> yielded);
  void emitBuffers(const moert::Template &tmpl, sched::TemplateOp op);
  Value emitOp(const moert::Op &op, ValueRange waits, bool hasEvent);
  void emitProgram(const moert::Program &program);

  OpBuilder builder;
  const moert::Table &table;
  /// Per template: ops that calls wait for, sorted.
  std::vector<SmallVector<uint32_t>> yields;
  /// Buffers of the current template: one op for equal operands.
  using BufferKey =
      std::tuple<uint32_t, int64_t, moert::ElementType, std::vector<int64_t>>;
  static BufferKey key(const moert::Operand &o) {
    return {o.frame, o.offset, o.type, o.shape};
  }
  std::map<BufferKey, Value> buffers;
};

void Emitter::emitKernel(const moert::Kernel &kernel) {
  SmallVector<int32_t> kinds;
  for (moert::Effect effect : kernel.effects)
    kinds.push_back(static_cast<int32_t>(effect));
  DictionaryAttr numbers;
  if (!kernel.attributes.empty()) {
    NamedAttrList list;
    for (auto &[name, value] : kernel.attributes)
      list.append(name, builder.getF64FloatAttr(value));
    numbers = list.getDictionary(builder.getContext());
  }
  sched::KernelOp::create(
      builder, builder.getUnknownLoc(), kernel.name, kernel.op,
      kernel.provider == moert::Provider::Generated, kinds,
      static_cast<sched::NumericClass>(kernel.numericClass),
      APFloat(kernel.flops), APFloat(kernel.bytes), numbers);
}

void Emitter::collectYields() {
  for (const moert::Program &program : table.programs)
    for (const moert::Call &call : program.calls)
      for (const moert::EventRef &event : call.imports)
        if (event.call >= 0)
          yields[program.calls[event.call].tmpl].push_back(event.op);
  for (SmallVector<uint32_t> &list : yields) {
    llvm::sort(list);
    list.erase(llvm::unique(list), list.end());
  }
}

void Emitter::emitBuffers(const moert::Template &tmpl, sched::TemplateOp op) {
  buffers.clear();
  for (const moert::Op &issued : tmpl.ops)
    for (const moert::Operand &operand : issued.operands)
      buffers[key(operand)];
  for (auto &[bufferKey, value] : buffers) {
    auto &[frame, offset, type, shape] = bufferKey;
    value = sched::BufferOp::create(
        builder, op.getLoc(), builder.getType<sched::BufferType>(),
        op.getFrameArguments()[frame], builder.getI64IntegerAttr(offset),
        TypeAttr::get(RankedTensorType::get(shape, element(type))));
  }
}

Value Emitter::emitOp(const moert::Op &op, ValueRange waits, bool hasEvent) {
  Location loc = NameLoc::get(builder.getStringAttr(op.location));
  SmallVector<Value> used;
  for (const moert::Operand &operand : op.operands)
    used.push_back(buffers.at(key(operand)));
  Type event = hasEvent ? builder.getType<sched::EventType>() : Type();
  FlatSymbolRefAttr stream = ref(table.streams[op.stream].name);
  auto communicator = [&] {
    return ref(table.communicators[op.communicator].name);
  };
  auto create = [&](auto tag, auto... specific) -> Value {
    return decltype(tag)::create(
               builder, loc, event, specific..., stream, used,
               builder.getDenseI32ArrayAttr(effects(op.operands)), waits,
               builder.getStringAttr(op.half), builder.getStringAttr(op.module),
               builder.getF64FloatAttr(op.bytes),
               builder.getStringAttr(op.location))
        .getDone();
  };
  switch (op.kind) {
  case moert::OpKind::Launch:
    return create(sched::LaunchOp(), ref(table.kernels[op.kernel].name));
  case moert::OpKind::Collective:
    return create(sched::CollectiveOp(),
                  sched::CollectiveKindAttr::get(
                      builder.getContext(),
                      static_cast<sched::CollectiveKind>(op.collective)),
                  communicator());
  case moert::OpKind::Send:
    return create(sched::SendOp(), builder.getI32IntegerAttr(op.peer),
                  communicator());
  case moert::OpKind::Recv:
    return create(sched::RecvOp(), builder.getI32IntegerAttr(op.peer),
                  communicator());
  case moert::OpKind::HostRead:
    break;
  }
  return create(sched::HostReadOp());
}

void Emitter::emitTemplate(const moert::Template &tmpl,
                           ArrayRef<uint32_t> yielded) {
  OpBuilder::InsertionGuard guard(builder);
  Location loc = NameLoc::get(builder.getStringAttr(tmpl.name));
  SmallVector<Attribute> frames;
  SmallVector<Type> types(tmpl.frames.size(),
                          builder.getType<sched::FrameType>());
  for (const moert::Frame &frame : tmpl.frames)
    frames.push_back(sched::FrameAttr::get(
        builder.getContext(), builder.getStringAttr(frame.name),
        static_cast<sched::FrameKind>(frame.kind), frame.bytes));
  types.append(tmpl.imports.size(), builder.getType<sched::EventType>());
  SmallVector<StringRef> imports(tmpl.imports.begin(), tmpl.imports.end());
  auto op = sched::TemplateOp::create(builder, loc, tmpl.name,
                                      builder.getArrayAttr(frames),
                                      builder.getStrArrayAttr(imports));
  builder.createBlock(&op.getBody(), {}, types,
                      SmallVector<Location>(types.size(), loc));
  emitBuffers(tmpl, op);

  // Whether an op needs an event, and whether it leaves its capture.
  size_t count = tmpl.ops.size();
  std::vector<bool> waited(count), leaves(count);
  for (const moert::Op &issued : tmpl.ops)
    for (const moert::Wait &wait : issued.waits)
      if (!wait.isImport) {
        waited[wait.index] = true;
        if (tmpl.ops[wait.index].capture != issued.capture)
          leaves[wait.index] = true;
      }
  for (uint32_t index : yielded)
    waited[index] = leaves[index] = true;

  std::vector<Value> inside(count), outside(count);
  std::vector<bool> emitted(tmpl.captures.size());
  auto emitRange = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      SmallVector<Value> waits;
      for (const moert::Wait &wait : tmpl.ops[i].waits)
        waits.push_back(wait.isImport ? op.getImportArguments()[wait.index]
                        : outside[wait.index] ? outside[wait.index]
                                              : inside[wait.index]);
      inside[i] = emitOp(tmpl.ops[i], waits, waited[i]);
    }
  };
  for (size_t begin = 0, end = 0; begin < count; begin = end) {
    int32_t capture = tmpl.ops[begin].capture;
    for (end = begin; end < count && tmpl.ops[end].capture == capture;)
      ++end;
    if (capture < 0) {
      emitRange(begin, end);
      continue;
    }
    emitted[capture] = true;
    SmallVector<uint32_t> events;
    for (size_t i = begin; i < end; ++i)
      if (leaves[i])
        events.push_back(i);
    auto captureOp = sched::CaptureOp::create(
        builder, loc,
        SmallVector<Type>(events.size(), builder.getType<sched::EventType>()),
        tmpl.captures[capture].name);
    OpBuilder::InsertionGuard inner(builder);
    builder.createBlock(&captureOp.getBody());
    emitRange(begin, end);
    SmallVector<Value> left;
    for (auto [index, result] :
         llvm::zip_equal(events, captureOp.getResults())) {
      left.push_back(inside[index]);
      outside[index] = result;
    }
    sched::YieldOp::create(builder, loc, left);
  }
  for (size_t c = 0; c < emitted.size(); ++c) {
    if (emitted[c])
      continue;
    auto captureOp = sched::CaptureOp::create(builder, loc, TypeRange(),
                                              tmpl.captures[c].name);
    OpBuilder::InsertionGuard inner(builder);
    builder.createBlock(&captureOp.getBody());
    sched::YieldOp::create(builder, loc);
  }
  SmallVector<Value> events;
  for (uint32_t index : yielded)
    events.push_back(outside[index] ? outside[index] : inside[index]);
  sched::YieldOp::create(builder, loc, events);
}

void Emitter::emitProgram(const moert::Program &program) {
  OpBuilder::InsertionGuard guard(builder);
  Location loc = NameLoc::get(builder.getStringAttr(program.name));
  auto op = sched::ProgramOp::create(
      builder, loc, builder.getStringAttr(program.name),
      builder.getI64IntegerAttr(program.firstRank),
      builder.getI64IntegerAttr(program.rankCount),
      builder.getI64IntegerAttr(program.arenaBytes), optional(program.tokens),
      optional(program.labels), optional(program.loss),
      optional(program.gradNorm), optional(program.flag),
      optional(program.step));
  builder.createBlock(&op.getBody());
  for (const moert::Parameter &p : program.parameters) {
    SmallVector<StringRef> names(p.names.begin(), p.names.end());
    FlatSymbolRefAttr over;
    if (p.shardedOver >= 0)
      over = ref(table.communicators[p.shardedOver].name);
    sched::ParameterOp::create(
        builder, loc, builder.getStrArrayAttr(names),
        TypeAttr::get(RankedTensorType::get(p.shape, element(p.type))),
        builder.getDenseI64ArrayAttr(p.storedShape), over,
        builder.getI64IntegerAttr(p.address),
        builder.getI64IntegerAttr(p.gradient),
        sched::InitAttr::get(builder.getContext(),
                             static_cast<sched::Init>(p.init)));
  }
  for (const moert::Bucket &b : program.buckets)
    sched::BucketOp::create(
        builder, loc, b.name, table.communicators[b.communicator].name,
        b.elements, b.weights, b.gradients, b.master, b.moment1, b.moment2);

  Value done;
  std::vector<sched::CallOp> calls;
  calls.reserve(program.calls.size());
  for (const moert::Call &call : program.calls) {
    SmallVector<Value> imports;
    for (const moert::EventRef &event : call.imports) {
      if (event.call < 0) {
        if (!done) {
          OpBuilder::InsertionGuard inner(builder);
          if (!calls.empty())
            builder.setInsertionPoint(calls.front());
          done = sched::DoneOp::create(builder, loc,
                                       builder.getType<sched::EventType>());
        }
        imports.push_back(done);
        continue;
      }
      ArrayRef<uint32_t> list = yields[program.calls[event.call].tmpl];
      imports.push_back(calls[event.call].getResult(
          llvm::lower_bound(list, event.op) - list.begin()));
    }
    SmallVector<Type> types(yields[call.tmpl].size(),
                            builder.getType<sched::EventType>());
    calls.push_back(sched::CallOp::create(
        builder, loc, types, ref(table.templates[call.tmpl].name),
        builder.getDenseI64ArrayAttr(call.bases), imports, optional(call.layer),
        optional(call.microBatch), optional(call.backwardLayer),
        optional(call.backwardMicroBatch)));
  }
}

} // namespace

LogicalResult moe::emitSchedule(ModuleOp module, const moert::Table &table) {
  if (failed(checkNames(module, table)))
    return failure();
  for (auto job : llvm::make_early_inc_range(module.getOps<sched::JobOp>()))
    job.erase();
  Emitter(module, table).run();
  return success();
}
