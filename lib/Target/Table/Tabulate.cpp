//===- Tabulate.cpp - From sched IR to a table ----------------------------===//

#include "Plan.h"
#include "moe/Schedule/Dataflow.h"
#include "moe/Target/Table.h"

using namespace mlir;
using namespace mlir::moe;

// Errors at a module or job are given by location: printing all of it, as
// Operation::emitError may, would bury them.
static FailureOr<sched::JobOp> findJob(ModuleOp module) {
  auto jobs = llvm::to_vector(module.getOps<sched::JobOp>());
  if (jobs.size() == 1)
    return jobs.front();
  if (jobs.empty())
    return emitError(module.getLoc(),
                     "has no sched.job; run moe-opt to schedule it");
  InFlightDiagnostic diagnostic =
      emitError(jobs[1].getLoc(), "is a second sched.job");
  diagnostic.attachNote(jobs[0].getLoc()) << "the first one";
  return diagnostic;
}

static double number(Attribute attribute) {
  if (auto value = dyn_cast<FloatAttr>(attribute))
    return value.getValueAsDouble();
  return static_cast<double>(cast<IntegerAttr>(attribute).getInt());
}

static std::map<std::string, double> numbers(DictionaryAttr attributes) {
  std::map<std::string, double> result;
  if (attributes)
    for (NamedAttribute attribute : attributes)
      result[attribute.getName().str()] = number(attribute.getValue());
  return result;
}

static moert::ElementType elementType(Type type) {
  if (type.isBF16())
    return moert::ElementType::BF16;
  return type.isF32() ? moert::ElementType::F32 : moert::ElementType::I32;
}

static std::vector<moert::Effect> tableEffects(ArrayRef<int32_t> effects) {
  std::vector<moert::Effect> result;
  for (int32_t effect : effects)
    result.push_back(static_cast<moert::Effect>(effect));
  return result;
}

moert::Kernel moe::tableKernel(KernelOp op) {
  moert::Kernel kernel;
  kernel.name = op.getSymName().str();
  kernel.op = op.getOp().str();
  if (!op.getBody().empty())
    kernel.provider = moert::Provider::Generated;
  kernel.numericClass = static_cast<moert::NumericClass>(op.getNumericClass());
  kernel.effects = tableEffects(sched::kernelEffects(op));
  kernel.attributes = numbers(op.getNumbers());
  kernel.flops = op.getFlops().convertToDouble();
  kernel.bytes = op.getBytes().convertToDouble();
  return kernel;
}

static moert::Kernel tableKernel(sched::KernelOp op) {
  moert::Kernel kernel;
  kernel.name = op.getSymName().str();
  kernel.op = op.getOp().str();
  if (op.getGenerated())
    kernel.provider = moert::Provider::Generated;
  kernel.numericClass = static_cast<moert::NumericClass>(op.getNumericClass());
  kernel.effects = tableEffects(op.getEffects());
  kernel.attributes = numbers(op.getNumbersAttr());
  kernel.flops = op.getFlops().convertToDouble();
  kernel.bytes = op.getBytes().convertToDouble();
  return kernel;
}

namespace {

class Tabulator {
public:
  explicit Tabulator(sched::JobOp job) : job(job) {}

  FailureOr<moert::Table> run() {
    addHeader();
    // Objects first: ops may refer to what comes later.
    for (auto op : job.getOps<sched::StreamOp>())
      streams[op.getSymNameAttr()] = add(table.streams, stream(op));
    for (auto op : job.getOps<sched::CommunicatorOp>())
      communicators[op.getSymNameAttr()] =
          add(table.communicators, communicator(op));
    for (auto op : job.getOps<sched::KernelOp>())
      kernels[op] = add(table.kernels, ::tableKernel(op));
    for (auto op : job.getOps<sched::TemplateOp>())
      if (failed(addTemplate(op)))
        return failure();
    for (auto op : job.getOps<sched::ProgramOp>())
      addProgram(op);
    if (table.programs.empty())
      addDefaultProgram();

    std::vector<std::string> problems = moert::checkTable(table);
    for (const std::string &problem : problems)
      emitError(job.getLoc(), problem);
    if (!problems.empty())
      return failure();
    return std::move(table);
  }

private:
  template <typename T> static uint32_t add(std::vector<T> &list, T item) {
    list.push_back(std::move(item));
    return list.size() - 1;
  }

  void addHeader() {
    table.model = job.getModel().str();
    table.target = job.getTarget().str();
    table.ranks = job.getRanks();
    table.microBatches = job.getMicroBatches();
    table.microBatchSamples = job.getMicroBatchSamples();
    table.sequence = job.getSequence();
    table.dataParallel = job.getDataParallel();
    table.vocabulary = job.getVocabulary();
    table.initStd = job.getInitStd().convertToDouble();
    table.memoryLimit = job.getMemoryLimit();
  }

  static moert::Stream stream(sched::StreamOp op) {
    return {op.getSymName().str(), static_cast<int32_t>(op.getPriority())};
  }
  static moert::Communicator communicator(sched::CommunicatorOp op) {
    return {op.getSymName().str(), static_cast<int64_t>(op.getSize()),
            static_cast<int64_t>(op.getStride()),
            static_cast<int64_t>(op.getSms())};
  }

  LogicalResult addTemplate(sched::TemplateOp op);
  moert::Op issued(sched::IssuedOpInterface op);
  void addProgram(sched::ProgramOp op);
  moert::Call call(sched::CallOp op,
                   const DenseMap<Value, moert::EventRef> &events);
  void addDefaultProgram();

  sched::JobOp job;
  moert::Table table;
  SymbolTableCollection symbols;
  DenseMap<StringAttr, uint32_t> streams, communicators, templates;
  DenseMap<Operation *, uint32_t> kernels;
  /// Per template: op index of each event that it yields.
  std::vector<SmallVector<uint32_t>> yields;
  /// Of the current template.
  DenseMap<Value, moert::Wait> events;
  DenseMap<Value, moert::Operand> buffers;
};

/// All but operands and capture.
moert::Op Tabulator::issued(sched::IssuedOpInterface op) {
  moert::Op result;
  result.stream = streams.at(StringAttr::get(op.getContext(), op.getStream()));
  auto communicate = [&](auto communication) {
    result.communicator =
        communicators.at(communication.getCommunicatorAttr().getAttr());
  };
  if (auto launch = dyn_cast<sched::LaunchOp>(op.getOperation())) {
    Operation *kernel = sched::lookupKernel(launch, symbols);
    auto [it, isNew] = kernels.try_emplace(kernel, table.kernels.size());
    if (isNew)
      table.kernels.push_back(moe::tableKernel(cast<KernelOp>(kernel)));
    result.kernel = it->second;
  } else if (auto collective =
                 dyn_cast<sched::CollectiveOp>(op.getOperation())) {
    result.kind = moert::OpKind::Collective;
    result.collective =
        static_cast<moert::CollectiveKind>(collective.getKind());
    communicate(collective);
  } else if (auto send = dyn_cast<sched::SendOp>(op.getOperation())) {
    result.kind = moert::OpKind::Send;
    result.peer = send.getPeer();
    communicate(send);
  } else if (auto recv = dyn_cast<sched::RecvOp>(op.getOperation())) {
    result.kind = moert::OpKind::Recv;
    result.peer = recv.getPeer();
    communicate(recv);
  } else {
    result.kind = moert::OpKind::HostRead;
  }
  for (Value wait : op.getWaits())
    result.waits.push_back(events.at(wait));
  result.half = op.getHalf().str();
  result.module = op.getModule().str();
  result.location = op.getLocation().str();
  result.bytes = op.getBytes().convertToDouble();
  return result;
}

LogicalResult Tabulator::addTemplate(sched::TemplateOp op) {
  moert::Template tmpl;
  events.clear();
  buffers.clear();
  tmpl.name = op.getSymName().str();
  for (auto frame : op.getFrames().getAsRange<sched::FrameAttr>())
    tmpl.frames.push_back({frame.getName().str(),
                           static_cast<moert::FrameKind>(frame.getKind()),
                           frame.getBytes()});
  for (auto [i, name] :
       llvm::enumerate(op.getImports().getAsValueRange<StringAttr>())) {
    tmpl.imports.push_back(name.str());
    events[op.getImportArguments()[i]] = {true, static_cast<uint32_t>(i)};
  }

  auto ops = llvm::to_vector(op.getOps<sched::BufferOp>());
  for (sched::BufferOp buffer : ops) {
    auto shape = cast<RankedTensorType>(buffer.getShape());
    moert::Operand operand;
    operand.frame = cast<BlockArgument>(buffer.getFrame()).getArgNumber();
    operand.offset = buffer.getOffset().value_or(0);
    operand.type = elementType(shape.getElementType());
    operand.shape.assign(shape.getShape().begin(), shape.getShape().end());
    buffers[buffer] = operand;
  }
  moert::FramePlan plan(tmpl.frames.size());
  for (sched::BufferOp buffer : ops)
    plan.add(buffers[buffer], buffer.getOffset().has_value());
  plan.run(tmpl.frames);

  auto issue = [&](sched::IssuedOpInterface issuedOp, int32_t capture) {
    if (Value done = issuedOp.getDone())
      events[done] = {false, static_cast<uint32_t>(tmpl.ops.size())};
    moert::Op result = issued(issuedOp);
    result.capture = capture;
    for (auto [buffer, effect] :
         llvm::zip_equal(issuedOp.getBuffers(), issuedOp.getEffects())) {
      result.operands.push_back(buffers.at(buffer));
      result.operands.back().effect = static_cast<moert::Effect>(effect);
    }
    tmpl.ops.push_back(std::move(result));
  };
  for (Operation &inner : op.getBody().front().without_terminator()) {
    if (auto issuedOp = dyn_cast<sched::IssuedOpInterface>(inner)) {
      issue(issuedOp, -1);
    } else if (auto capture = dyn_cast<sched::CaptureOp>(inner)) {
      int32_t index = add(tmpl.captures, {capture.getName().str()});
      Block &body = capture.getBody().front();
      for (Operation &captured : body.without_terminator())
        issue(cast<sched::IssuedOpInterface>(captured), index);
      for (auto [result, event] : llvm::zip_equal(
               capture.getResults(), body.getTerminator()->getOperands()))
        events[result] = events.at(event);
    }
  }

  if (plan.openTemporaries(tmpl.frames))
    moert::packTemporaries(tmpl, table.streams.size());

  yields.emplace_back();
  for (Value event : op.getYield().getEvents()) {
    moert::Wait wait = events.at(event);
    if (wait.isImport)
      return op.getYield().emitOpError(
          "can only yield events of the template's own ops");
    yields.back().push_back(wait.index);
  }
  templates[op.getSymNameAttr()] = add(table.templates, std::move(tmpl));
  return success();
}

moert::Call Tabulator::call(sched::CallOp op,
                            const DenseMap<Value, moert::EventRef> &happened) {
  moert::Call call;
  call.tmpl = templates.at(op.getCalleeAttr().getAttr());
  if (auto bases = op.getBases())
    call.bases.assign(bases->begin(), bases->end());
  for (Value import : op.getImports())
    call.imports.push_back(happened.lookup(import));
  call.layer = op.getLayer().value_or(-1);
  call.microBatch = op.getMicroBatch().value_or(-1);
  call.backwardLayer = op.getBackwardLayer().value_or(-1);
  call.backwardMicroBatch = op.getBackwardMicroBatch().value_or(-1);
  return call;
}

void Tabulator::addProgram(sched::ProgramOp op) {
  moert::Program program;
  program.name = op.getSymName().str();
  program.firstRank = op.getFirstRank();
  program.rankCount = op.getRankCount();
  program.arenaBytes = op.getArena().value_or(0);
  program.tokens = op.getTokens().value_or(-1);
  program.labels = op.getLabels().value_or(-1);
  program.loss = op.getLoss().value_or(-1);
  program.gradNorm = op.getGradNorm().value_or(-1);
  program.flag = op.getFlag().value_or(-1);
  program.step = op.getStep().value_or(-1);
  // Events that sched.done gives are not in the map: done already.
  DenseMap<Value, moert::EventRef> happened;
  std::vector<size_t> open;
  for (Operation &inner : op.getBody().front()) {
    if (auto callOp = dyn_cast<sched::CallOp>(inner)) {
      if (!callOp.getBases())
        open.push_back(program.calls.size());
      moert::Call made = call(callOp, happened);
      int64_t index = program.calls.size();
      for (auto [result, local] :
           llvm::zip_equal(callOp.getResults(), yields[made.tmpl]))
        happened[result] = {index, local};
      program.calls.push_back(std::move(made));
    } else if (auto parameterOp = dyn_cast<sched::ParameterOp>(inner)) {
      moert::Parameter parameter;
      for (StringRef name :
           parameterOp.getNames().getAsValueRange<StringAttr>())
        parameter.names.push_back(name.str());
      auto shape = cast<RankedTensorType>(parameterOp.getShape());
      parameter.type = elementType(shape.getElementType());
      parameter.shape = shape.getShape().vec();
      parameter.storedShape = parameterOp.getStored().vec();
      if (auto communicator = parameterOp.getCommunicatorAttr())
        parameter.shardedOver = communicators.at(communicator.getAttr());
      parameter.address = parameterOp.getAddress();
      parameter.gradient = parameterOp.getGradient();
      parameter.init = static_cast<int32_t>(parameterOp.getInit());
      program.parameters.push_back(std::move(parameter));
    } else if (auto bucketOp = dyn_cast<sched::BucketOp>(inner)) {
      moert::Bucket bucket;
      bucket.name = bucketOp.getName().str();
      bucket.communicator =
          communicators.at(bucketOp.getCommunicatorAttr().getAttr());
      bucket.elements = bucketOp.getElements();
      bucket.weights = bucketOp.getWeights();
      bucket.gradients = bucketOp.getGradients();
      bucket.master = bucketOp.getMaster();
      bucket.moment1 = bucketOp.getMoment1();
      bucket.moment2 = bucketOp.getMoment2();
      program.buckets.push_back(std::move(bucket));
    }
  }
  moert::planCalls(table, program, open, op.getArena().has_value(),
                   /*inputs=*/false);
  table.programs.push_back(std::move(program));
}

void Tabulator::addDefaultProgram() {
  moert::Program program;
  program.name = "all";
  program.rankCount = table.ranks;
  std::vector<size_t> open;
  for (uint32_t t = 0; t < table.templates.size(); ++t) {
    moert::Call call;
    call.tmpl = t;
    call.imports.resize(table.templates[t].imports.size());
    open.push_back(t);
    program.calls.push_back(std::move(call));
  }
  moert::planCalls(table, program, open, /*arenaGiven=*/false, /*inputs=*/true);
  table.programs.push_back(std::move(program));
}

} // namespace

FailureOr<moert::Table> moe::tabulate(ModuleOp module) {
  FailureOr<sched::JobOp> job = findJob(module);
  if (failed(job))
    return failure();
  return Tabulator(*job).run();
}

Operation *moe::findIssuedOp(ModuleOp module, int64_t tmpl, int64_t op) {
  if (tmpl < 0 || op < 0)
    return nullptr;
  for (auto job : module.getOps<sched::JobOp>())
    for (auto templateOp : job.getOps<sched::TemplateOp>()) {
      if (tmpl-- > 0)
        continue;
      Operation *found = nullptr;
      templateOp.walk<WalkOrder::PreOrder>(
          [&](sched::IssuedOpInterface issued) {
            if (op-- > 0)
              return WalkResult::advance();
            found = issued;
            return WalkResult::interrupt();
          });
      return found;
    }
  return nullptr;
}
