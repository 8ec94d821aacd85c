#include "Optimizer.h"

using namespace mlir;
using namespace mlir::moe;
using namespace mlir::moe::sched_lowering;

namespace {

using moert::Effect;
using moert::ElementType;

/// Builds one template over absolute addresses: each range is a frame.
class BucketTemplate {
public:
  BucketTemplate(moert::Table &table, moert::Program &program, StringRef name,
                 int64_t scratch)
      : table(table), program(program), scratch(scratch) {
    tmpl.name = (name + "_" + program.name).str();
  }

  /// The range at `address`; equal ranges share a frame.
  moert::Operand at(int64_t address, ElementType type, int64_t elements,
                    Effect effect) {
    moert::Operand operand;
    operand.type = type;
    operand.shape = {elements};
    operand.effect = effect;
    auto [it, added] = frames.try_emplace(address, tmpl.frames.size());
    operand.frame = it->second;
    if (added) {
      tmpl.frames.push_back(
          {"f" + std::to_string(it->second), moert::FrameKind::Global, 0});
      call.bases.push_back(address);
    }
    int64_t &bytes = tmpl.frames[operand.frame].bytes;
    bytes = std::max(bytes, operand.bytes());
    return operand;
  }

  /// Scratch for `elements` f32, beyond the weights' and gradients' regions.
  int64_t allocate(int64_t elements) {
    int64_t address = scratch;
    scratch += alignTo(4 * elements, kByteAlignment);
    program.arenaBytes = std::max(program.arenaBytes, scratch);
    return address;
  }

  void launch(StringRef kernel, std::map<std::string, double> attributes,
              std::vector<moert::Operand> operands, uint32_t stream) {
    moert::Op op;
    op.kind = moert::OpKind::Launch;
    op.stream = stream;
    op.kernel = kernelIndex(kernel, attributes, operands);
    op.operands = std::move(operands);
    finish(std::move(op), kernel);
  }

  void collective(moert::CollectiveKind kind, StringRef name,
                  uint32_t communicator, std::vector<moert::Operand> operands,
                  uint32_t stream) {
    moert::Op op;
    op.kind = moert::OpKind::Collective;
    op.stream = stream;
    op.collective = kind;
    op.communicator = communicator;
    op.bytes = operands.front().bytes();
    op.operands = std::move(operands);
    finish(std::move(op), name);
  }

  uint32_t add() {
    call.tmpl = table.templates.size();
    table.templates.push_back(std::move(tmpl));
    return call.tmpl;
  }

  moert::Call call;

private:
  void finish(moert::Op op, StringRef name) {
    op.location = ("optimizer/" + name).str();
    op.half = "O";
    op.module = "optimizer";
    tmpl.ops.push_back(std::move(op));
  }

  uint32_t kernelIndex(StringRef name,
                       const std::map<std::string, double> &attributes,
                       const std::vector<moert::Operand> &operands) {
    moert::Kernel kernel;
    kernel.op = name.str();
    kernel.attributes = attributes;
    kernel.numericClass = moert::NumericClass::Deterministic;
    for (const moert::Operand &operand : operands) {
      kernel.effects.push_back(operand.effect);
      kernel.bytes +=
          operand.bytes() * (operand.effect == Effect::ReadWrite ? 2 : 1);
      kernel.flops += operand.elements();
    }
    kernel.name =
        tmpl.name + "_" + name.str() + "_" + std::to_string(tmpl.ops.size());
    table.kernels.push_back(std::move(kernel));
    return table.kernels.size() - 1;
  }

  moert::Table &table;
  moert::Program &program;
  moert::Template tmpl;
  std::map<int64_t, uint32_t> frames;
  int64_t scratch;
};

uint32_t communicatorIndex(const moert::Table &table, StringRef name) {
  for (auto [i, communicator] : llvm::enumerate(table.communicators))
    if (name == communicator.name)
      return i;
  llvm_unreachable("every table has its communicators");
}

} // namespace

OptimizerTemplates sched_lowering::addOptimizer(moert::Table &table,
                                                moert::Program &program,
                                                const Stage &stage,
                                                TrainOp train, bool holdsLoss,
                                                uint32_t commStream) {
  constexpr uint32_t compute = 0;
  uint32_t world = communicatorIndex(table, "world");
  OptimizerOp optimizer = *train.getBody().getOps<OptimizerOp>().begin();
  OptimizerTemplates result;

  BucketTemplate begin(table, program, "begin", stage.scratch);
  for (const moert::Bucket &bucket : program.buckets)
    begin.launch("zero", {},
                 {begin.at(bucket.gradients, ElementType::F32, bucket.elements,
                           Effect::Write)},
                 compute);
  result.begin = begin.add();
  result.beginCall = std::move(begin.call);

  BucketTemplate end(table, program, "optimizer", stage.scratch);
  auto f32 = [&](int64_t address, int64_t elements, Effect effect) {
    return end.at(address, ElementType::F32, elements, effect);
  };
  auto i32 = [&](int64_t address, Effect effect) {
    return end.at(address, ElementType::I32, 1, effect);
  };

  // Loss: this stage's part, then the sum over all ranks.
  int64_t loss = end.allocate(1);
  if (holdsLoss)
    end.launch("sum", {},
               {f32(stage.losses, table.microBatches, Effect::Read),
                f32(loss, 1, Effect::Write)},
               compute);
  else
    end.launch("zero", {}, {f32(loss, 1, Effect::Write)}, compute);
  end.collective(
      moert::CollectiveKind::AllReduceSum, "loss", world,
      {f32(loss, 1, Effect::Read), f32(program.loss, 1, Effect::Write)},
      commStream);

  // Overflow anywhere stops the commit everywhere.
  int64_t flag = end.allocate(1);
  end.collective(moert::CollectiveKind::AllReduceMax, "overflow", world,
                 {i32(program.flag, Effect::Read), i32(flag, Effect::Write)},
                 commStream);

  // Shards of the summed gradients; the norm over all of them.
  int64_t squares = end.allocate(program.buckets.size());
  SmallVector<int64_t> shards;
  for (auto [i, bucket] : llvm::enumerate(program.buckets)) {
    int64_t size = table.communicators[bucket.communicator].size;
    int64_t shard = bucket.gradients;
    if (size > 1) {
      shard = end.allocate(bucket.elements / size);
      end.collective(moert::CollectiveKind::ReduceScatter,
                     bucket.name + "/gradients", bucket.communicator,
                     {f32(bucket.gradients, bucket.elements, Effect::Read),
                      f32(shard, bucket.elements / size, Effect::Write)},
                     commStream);
    }
    shards.push_back(shard);
    moert::Operand square = f32(squares, 1, Effect::Write);
    square.offset = 4 * i;
    end.launch("sum_squares", {},
               {f32(shard, bucket.elements / size, Effect::Read), square},
               compute);
  }
  int64_t local = end.allocate(1), total = end.allocate(1);
  end.launch("sum", {},
             {f32(squares, program.buckets.size(), Effect::Read),
              f32(local, 1, Effect::Write)},
             compute);
  end.collective(moert::CollectiveKind::AllReduceSum, "norm", world,
                 {f32(local, 1, Effect::Read), f32(total, 1, Effect::Write)},
                 commStream);
  end.launch(
      "grad_norm", {},
      {f32(total, 1, Effect::Read), f32(program.gradNorm, 1, Effect::Write)},
      compute);

  std::map<std::string, double> numbers = {
      {"lr", optimizer.getLr().convertToDouble()},
      {"beta1", optimizer.getBeta1().convertToDouble()},
      {"beta2", optimizer.getBeta2().convertToDouble()},
      {"eps", optimizer.getEps().convertToDouble()},
      {"weight_decay", optimizer.getWeightDecay().convertToDouble()},
      {"clip", optimizer.getClip().convertToDouble()}};
  ElementType type = program.parameters.empty()
                         ? ElementType::F32
                         : program.parameters.front().type;
  for (auto [i, bucket] : llvm::enumerate(program.buckets)) {
    int64_t size = table.communicators[bucket.communicator].size;
    int64_t elements = bucket.elements / size;
    int64_t updated = size > 1 ? end.allocate(elements) : bucket.weights;
    end.launch("adamw", numbers,
               {f32(shards[i], elements, Effect::Read),
                f32(program.gradNorm, 1, Effect::Read),
                i32(program.step, Effect::Read), i32(flag, Effect::Read),
                f32(bucket.master, elements, Effect::ReadWrite),
                f32(bucket.moment1, elements, Effect::ReadWrite),
                f32(bucket.moment2, elements, Effect::ReadWrite),
                end.at(updated, type, elements, Effect::Write)},
               compute);
    if (size > 1)
      end.collective(
          moert::CollectiveKind::AllGather, bucket.name + "/parameters",
          bucket.communicator,
          {end.at(updated, type, elements, Effect::Read),
           end.at(bucket.weights, type, bucket.elements, Effect::Write)},
          commStream);
  }
  result.end = end.add();
  result.endCall = std::move(end.call);
  return result;
}
