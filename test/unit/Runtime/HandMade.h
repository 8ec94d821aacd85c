//===- HandMade.h - Tables made by hand, for tests of the engine ----------===//
//
// A rank's arena is an array of floats. Slot s is floats [4s, 4s + 4). One
// template per program, whose frame "data" is the whole arena; "host" is the
// host's part of it. Parameter "r<rank>" is what a rank finds in slot 0 and,
// as its gradient, leaves in slot 15: what tests write and read.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_UNIT_RUNTIME_HANDMADE_H
#define MOE_TEST_UNIT_RUNTIME_HANDMADE_H

#include "moe/Runtime/Engine.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace moert::test {

inline std::vector<float> parameter(const Engine &engine,
                                    const std::string &name) {
  NamedTensor tensor;
  std::string error;
  EXPECT_TRUE(engine.parameter(name, tensor, error)) << error;
  return tensor.values;
}

inline std::vector<float> gradient(const Engine &engine,
                                   const std::string &name) {
  NamedTensor tensor;
  std::string error;
  EXPECT_TRUE(engine.gradient(name, tensor, error)) << error;
  return tensor.values;
}

inline constexpr int64_t kIn = 0, kOut = 15, kHost = 16, kSlots = 20;

class HandMade {
public:
  /// `stages` programs of ranks/stages ranks each.
  explicit HandMade(int64_t ranks, int64_t stages = 1) {
    table.ranks = ranks;
    table.dataParallel = ranks / stages;
    table.streams = {{"compute", 0}, {"comm", 0}, {"copy", 0}};
    table.communicators = {{"world", ranks, 1, 0}};
    Parameter parameter;
    for (int64_t r = 0; r < ranks; ++r)
      parameter.names.push_back("r" + std::to_string(r));
    parameter.shape = parameter.storedShape = {4};
    parameter.shardedOver = 0;
    parameter.address = kIn * 16;
    parameter.gradient = kOut * 16;
    for (int64_t s = 0; s < stages; ++s) {
      Template t;
      t.name = "t" + std::to_string(s);
      t.frames = {{"data", FrameKind::Temporary, kSlots * 16},
                  {"host", FrameKind::Host, (kSlots - kHost) * 16}};
      table.templates.push_back(t);
      Program p;
      p.name = "p" + std::to_string(s);
      p.firstRank = s * table.dataParallel;
      p.rankCount = table.dataParallel;
      p.arenaBytes = kSlots * 16;
      p.parameters = {parameter};
      p.calls = {{uint32_t(s), {0, kHost * 16}, {}, 3, -1, 5, -1}};
      table.programs.push_back(p);
    }
  }

  Operand read(int64_t slot, int64_t n = 4,
               ElementType type = ElementType::F32) {
    return operand(slot, n, type, Effect::Read);
  }
  Operand write(int64_t slot, int64_t n = 4,
                ElementType type = ElementType::F32) {
    return operand(slot, n, type, Effect::Write);
  }
  Operand update(int64_t slot, int64_t n = 4,
                 ElementType type = ElementType::F32) {
    return operand(slot, n, type, Effect::ReadWrite);
  }
  Operand readCounts(int64_t slot, int64_t n) {
    return read(slot, n, ElementType::I32);
  }

  /// Appends an op to a stage and returns its index.
  uint32_t launch(const std::string &kernel, uint32_t stream,
                  std::vector<Operand> operands, std::vector<uint32_t> after,
                  int64_t stage = 0) {
    Op op;
    op.kernel = kernelNamed(kernel, operands);
    return append(op, kernel, stream, operands, after, stage);
  }
  uint32_t collective(CollectiveKind kind, uint32_t stream,
                      std::vector<Operand> operands,
                      std::vector<uint32_t> after, int64_t stage = 0,
                      uint32_t communicator = 0) {
    Op op;
    op.kind = OpKind::Collective;
    op.collective = kind;
    op.communicator = communicator;
    return append(op, "collective", stream, operands, after, stage);
  }
  /// A send if the operand is read, else a receive.
  uint32_t transfer(int32_t peer, uint32_t stream, Operand operand,
                    std::vector<uint32_t> after, int64_t stage,
                    uint32_t communicator = 0) {
    Op op;
    bool sends = operand.effect == Effect::Read;
    op.kind = sends ? OpKind::Send : OpKind::Recv;
    op.peer = peer;
    op.communicator = communicator;
    return append(op, sends ? "send" : "recv", stream, {operand}, after, stage);
  }
  uint32_t hostRead(int64_t from, int64_t to, uint32_t stream,
                    std::vector<uint32_t> after,
                    ElementType type = ElementType::F32) {
    Op op;
    op.kind = OpKind::HostRead;
    return append(op, "host read", stream,
                  {read(from, 4, type), write(to, 4, type)}, after, 0);
  }
  /// Captures ops [first, end) of stage 0.
  void capture(uint32_t first, uint32_t end) {
    Template &t = table.templates[0];
    t.captures.push_back({"graph"});
    for (uint32_t i = first; i < end; ++i)
      t.ops[i].capture = 0;
  }
  Op &op(uint32_t index, int64_t stage = 0) {
    return table.templates[stage].ops[index];
  }

  /// An engine with rank r's input {10r+1, 10r+2, ...}.
  std::unique_ptr<Engine> engine(int threads = 1, uint64_t orderSeed = 0) {
    std::string error;
    EngineOptions options;
    options.threads = threads;
    options.orderSeed = orderSeed;
    auto engine = Engine::create(table, options, kernels(), error);
    EXPECT_EQ(error, "");
    for (int64_t r = 0; engine && r < table.ranks; ++r) {
      float v = 10.0f * r;
      setInput(*engine, r, {v + 1, v + 2, v + 3, v + 4});
    }
    return engine;
  }
  static void setInput(Engine &engine, int64_t rank,
                       const std::vector<float> &values) {
    std::string error;
    EXPECT_TRUE(
        engine.setParameter({"r" + std::to_string(rank), {4}, values}, error))
        << error;
  }
  /// Runs a step; returns the outputs of all ranks, or the error.
  static std::pair<std::vector<float>, std::string>
  step(Engine &engine, const std::vector<int32_t> &tokens) {
    StepResult result;
    std::string error;
    std::vector<NamedTensor> gradients;
    std::vector<float> all;
    if (engine.step(tokens, result, error) &&
        engine.gradients(gradients, error))
      for (const NamedTensor &tensor : gradients)
        all.insert(all.end(), tensor.values.begin(), tensor.values.end());
    return {all, error};
  }
  static std::pair<std::vector<float>, std::string> step(Engine &engine) {
    return step(engine, std::vector<int32_t>(engine.tokenCount()));
  }
  std::vector<float> outputs(int threads = 1, uint64_t orderSeed = 0) {
    auto [values, error] = step(*engine(threads, orderSeed));
    EXPECT_EQ(error, "");
    return values;
  }
  std::string error(int threads = 1) { return step(*engine(threads)).second; }

  /// How many of 20 order seeds give other outputs, or fail. With one thread
  /// ops that race do so in turns, which a thread sanitizer leaves alone.
  int seedsThatDiffer(const std::vector<float> &expected, int threads = 2) {
    int count = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed)
      count += step(*engine(threads, seed)).first != expected;
    return count;
  }

  Table table;

private:
  Operand operand(int64_t slot, int64_t n, ElementType type, Effect effect) {
    bool isHost = slot >= kHost;
    return {isHost, (isHost ? slot - kHost : slot) * 16, type, {n}, effect};
  }

  uint32_t append(Op op, const std::string &name, uint32_t stream,
                  const std::vector<Operand> &operands,
                  const std::vector<uint32_t> &after, int64_t stage) {
    std::vector<Op> &ops = table.templates[stage].ops;
    op.stream = stream;
    op.operands = operands;
    for (uint32_t index : after)
      op.waits.push_back({false, index});
    op.location = name + std::to_string(ops.size()) + " layer {i} mb {mb}";
    ops.push_back(op);
    return ops.size() - 1;
  }

  uint32_t kernelNamed(const std::string &name,
                       const std::vector<Operand> &operands) {
    for (uint32_t i = 0; i < table.kernels.size(); ++i)
      if (table.kernels[i].name == name)
        return i;
    Kernel kernel;
    kernel.name = name;
    kernel.provider = Provider::Generated;
    for (const Operand &operand : operands)
      kernel.effects.push_back(operand.effect);
    table.kernels.push_back(kernel);
    return table.kernels.size() - 1;
  }

  /// "copy": x -> y; "twice": x -> y; "sum": a, b -> y; four floats each.
  /// "ids": i32[4] -> f32[4]. "throw": x -> nothing.
  static std::map<std::string, GeneratedKernel> kernels() {
    return {{"throw", [](void **) { throw std::runtime_error("broken"); }},
            {"copy",
             [](void **p) {
               for (int i = 0; i < 4; ++i)
                 f(p[1])[i] = f(p[0])[i];
             }},
            {"twice",
             [](void **p) {
               for (int i = 0; i < 4; ++i)
                 f(p[1])[i] = 2 * f(p[0])[i];
             }},
            {"sum",
             [](void **p) {
               for (int i = 0; i < 4; ++i)
                 f(p[2])[i] = f(p[0])[i] + f(p[1])[i];
             }},
            {"ids", [](void **p) {
               for (int i = 0; i < 4; ++i)
                 f(p[1])[i] = float(static_cast<int32_t *>(p[0])[i]);
             }}};
  }
  static float *f(void *p) { return static_cast<float *>(p); }
};

} // namespace moert::test

#endif // MOE_TEST_UNIT_RUNTIME_HANDMADE_H
