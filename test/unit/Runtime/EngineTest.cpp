//===- EngineTest.cpp - Creation, inputs, parameters ----------------------===//

#include "HandMade.h"
#include "lib/Runtime/EngineImpl.h"

#include <cmath>
#include <fstream>

using namespace moert;
using namespace moert::test;

namespace {

using Floats = std::vector<float>;

std::string createError(const Table &table, EngineOptions options = {}) {
  std::string error;
  EXPECT_EQ(Engine::create(table, options, {}, error), nullptr);
  return error;
}

TEST(Engine, RejectsBadTables) {
  HandMade h(1);
  h.launch("unknown", 0, {h.read(kIn)}, {});
  EXPECT_EQ(createError(h.table), "kernel 'unknown': its code is missing");
  h.table.kernels[0].provider = Provider::Library;
  h.table.kernels[0].op = "nonsense";
  EXPECT_EQ(createError(h.table),
            "kernel 'unknown': the library has no 'nonsense'");
  h.table.kernels[0].op = "add";
  std::string misfit = createError(h.table);
  EXPECT_EQ(misfit.rfind("template 't0', 'unknown0 layer {i} mb {mb}', kernel "
                         "'unknown': ",
                         0),
            0u)
      << misfit;
  h.op(0).stream = 9;
  EXPECT_NE(createError(h.table).find("stream 9"), std::string::npos);
}

TEST(Engine, RejectsBadOptionsAndLargeArenas) {
  HandMade h(4);
  EngineOptions none;
  none.threads = 0;
  EXPECT_EQ(createError(h.table, none), "the engine needs at least one thread");
  h.table.programs[0].arenaBytes = int64_t(1) << 50;
  std::string error = createError(h.table);
  EXPECT_EQ(error.rfind("the arenas of 4 ranks need 4503599627 MB, the machine "
                        "has ",
                        0),
            0u)
      << error;
}

TEST(Engine, RejectsRanksThatAreNotReplicas) {
  HandMade h(2);
  h.table.dataParallel = 3;
  h.table.programs[0].tokens = 16;
  EXPECT_NE(createError(h.table).find("dataParallel is 3"), std::string::npos);
}

TEST(Engine, WritesMicroBatches) {
  // Two replicas, two micro-batches of one sample of two tokens.
  HandMade h(2);
  h.table.sequence = 2;
  h.table.microBatches = 2;
  h.table.vocabulary = 100;
  Program &p = h.table.programs[0];
  p.tokens = 1 * 16;
  p.labels = 2 * 16;
  uint32_t a =
      h.launch("ids", 0, {h.read(1, 4, ElementType::I32), h.write(3)}, {});
  uint32_t b =
      h.launch("ids", 0, {h.read(2, 4, ElementType::I32), h.write(4)}, {a});
  uint32_t c = h.launch("sum", 0, {h.read(4), h.read(4), h.write(5)}, {b});
  h.launch("sum", 0, {h.read(3), h.read(5), h.write(kOut)}, {c});
  auto engine = h.engine();
  // Samples (0, 1, 2), (10, 11, 12), ...: out = token + 2 * label.
  std::vector<int32_t> tokens;
  for (int sample = 0; sample < 4; ++sample)
    for (int i = 0; i < 3; ++i)
      tokens.push_back(10 * sample + i);
  StepResult result;
  std::string error;
  ASSERT_TRUE(engine->step(tokens, result, error)) << error;
  EXPECT_EQ(gradient(*engine, "r0"), Floats({2, 5, 62, 65}));
  EXPECT_EQ(gradient(*engine, "r1"), Floats({32, 35, 92, 95}));

  tokens[5] = 100;
  EXPECT_FALSE(engine->step(tokens, result, error));
  EXPECT_EQ(error, "token 5 is 100, the vocabulary has 100");
  tokens.pop_back();
  EXPECT_FALSE(engine->step(tokens, result, error));
  EXPECT_EQ(error, "a step takes 12 tokens, got 11");
}

TEST(Engine, CountsStepsAndReturnsTheLoss) {
  // The loss is what the step number is, as a float, plus what was there.
  HandMade h(1);
  Program &p = h.table.programs[0];
  p.step = 1 * 16;
  p.loss = 2 * 16;
  p.gradNorm = 3 * 16;
  uint32_t a =
      h.launch("ids", 0, {h.read(1, 4, ElementType::I32), h.write(4)}, {});
  uint32_t b = h.launch("sum", 0, {h.read(2), h.read(4), h.write(2)}, {a});
  h.launch("sum", 0, {h.read(2), h.read(2), h.write(3)}, {b});
  auto engine = h.engine();
  for (int step = 1; step <= 3; ++step) {
    StepResult result;
    std::string error;
    ASSERT_TRUE(engine->step({0, 0}, result, error)) << error;
    EXPECT_EQ(result.loss, step);
    EXPECT_EQ(result.gradNorm, 2 * step);
    // What can't be loaded changes nothing.
    EXPECT_FALSE(engine->loadParameters("", error));
  }
}

TEST(Engine, NeedsValues) {
  HandMade h(2);
  h.launch("copy", 0, {h.read(kIn), h.write(kOut)}, {});
  auto engine = h.engine();
  std::string error;
  EXPECT_FALSE(engine->setParameters({{"r0", {4}, {1, 2, 3, 4}}}, error));
  EXPECT_EQ(error, "parameter 'r1' is missing");
  EXPECT_FALSE(engine->setParameter({"r2", {4}, {1, 2, 3, 4}}, error));
  EXPECT_EQ(error, "the program has no parameter 'r2'");
  EXPECT_FALSE(engine->setParameter({"r0", {2, 2}, {1, 2, 3, 4}}, error));
  EXPECT_EQ(error, "parameter 'r0' has another shape here");
  EXPECT_FALSE(engine->setParameters(
      {{"r0", {4}, {1, 2, 3, 4}}, {"r0", {4}, {1, 2, 3, 4}}}, error));
  EXPECT_EQ(error, "parameter 'r0' is there twice");

  auto fresh = Engine::create(HandMade(2).table, {}, {}, error);
  ASSERT_TRUE(fresh) << error;
  StepResult result;
  EXPECT_FALSE(fresh->step({0, 0}, result, error));
  EXPECT_EQ(error, "parameter 'r0' has no value yet");
  std::string file = testing::TempDir() + "unset.safetensors";
  EXPECT_FALSE(fresh->saveParameters(file, error));
  EXPECT_EQ(error, "parameter 'r0' has no value yet");
  EXPECT_FALSE(std::ifstream(file));
}

//===----------------------------------------------------------------------===//
// Parameters over ranks
//===----------------------------------------------------------------------===//

/// Four ranks: experts over pairs (ep), their replicas over (edp). A dense
/// "d" [3] and experts "e0".."e3" [2] in bf16, two a rank, in one bucket each;
/// nothing runs.
Table sharded(ElementType type) {
  Table table;
  table.ranks = table.dataParallel = 4;
  table.streams = {{"s", 0}};
  table.communicators = {{"dp", 4, 1, 0}, {"ep", 2, 1, 0}, {"edp", 2, 2, 0}};
  Program p;
  p.name = "p";
  p.rankCount = 4;
  p.arenaBytes = 1024;
  Parameter d, e;
  d.names = {"d"};
  d.type = e.type = type;
  d.shape = d.storedShape = {3};
  d.address = 0;
  d.gradient = 64;
  e.names = {"e0", "e1", "e2", "e3"};
  e.shape = {2, 2};
  e.storedShape = {2};
  e.shardedOver = 1;
  e.address = 128;
  e.gradient = 192;
  p.parameters = {d, e};
  p.buckets = {{"dense", 0, 4, 0, 64, 256, 272, 288},
               {"experts", 2, 4, 128, 192, 304, 320, 336}};
  table.programs = {p};
  return table;
}

std::unique_ptr<Engine> makeEngine(const Table &table) {
  std::string error;
  auto engine = Engine::create(table, {}, {}, error);
  EXPECT_TRUE(engine) << error;
  return engine;
}

TEST(Parameters, RoundTripThroughMasterShards) {
  auto engine = makeEngine(sharded(ElementType::BF16));
  // Not representable in bf16: the master keeps them.
  std::vector<NamedTensor> values = {{"d", {3}, {1.001f, 2.002f, 3.003f}},
                                     {"e0", {2}, {0.1f, 0.2f}},
                                     {"e1", {2}, {1.1f, 1.2f}},
                                     {"e2", {2}, {2.1f, 2.2f}},
                                     {"e3", {2}, {3.1f, 3.2f}}};
  std::string error;
  ASSERT_TRUE(engine->setParameters(values, error)) << error;
  EXPECT_EQ(engine->parameterNames(),
            std::vector<std::string>({"d", "e0", "e1", "e2", "e3"}));
  std::vector<NamedTensor> back;
  ASSERT_TRUE(engine->parameters(back, error)) << error;
  ASSERT_EQ(back.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(back[i].name, values[i].name);
    EXPECT_EQ(back[i].shape, values[i].shape);
    EXPECT_EQ(back[i].values, values[i].values);
  }
}

TEST(Parameters, RoundToBfloat16) {
  Table table = sharded(ElementType::BF16);
  table.programs[0].buckets.clear();
  auto engine = makeEngine(table);
  std::string error;
  // A tie goes to even, infinities and signs stay, NaN is no infinity.
  ASSERT_TRUE(engine->setParameter(
      {"d", {3}, {1.00390625f, 1.01171875f, -0.0f}}, error));
  Floats d = parameter(*engine, "d");
  EXPECT_EQ(d, Floats({1.0f, 1.015625f, -0.0f}));
  EXPECT_TRUE(std::signbit(d[2]));
  ASSERT_TRUE(
      engine->setParameter({"d", {3}, {3.4e38f, -INFINITY, NAN}}, error));
  d = parameter(*engine, "d");
  EXPECT_EQ(d[0], INFINITY);
  EXPECT_EQ(d[1], -INFINITY);
  EXPECT_TRUE(std::isnan(d[2]));
}

TEST(Parameters, InitializationDependsOnNameIndexSeedOnly) {
  auto whole = [] {
    Table table = sharded(ElementType::F32);
    table.ranks = table.dataParallel = table.programs[0].rankCount = 1;
    table.communicators = {{"dp", 1, 1, 0}, {"ep", 1, 1, 0}, {"edp", 1, 1, 0}};
    table.programs[0].parameters[1].shape = {4, 2};
    table.programs[0].buckets.clear();
    return table;
  };
  auto one = makeEngine(whole()), four = makeEngine(sharded(ElementType::F32));
  std::string error;
  ASSERT_TRUE(one->initialize(7, error)) << error;
  ASSERT_TRUE(four->initialize(7, error)) << error;
  for (const std::string &name : one->parameterNames())
    EXPECT_EQ(parameter(*one, name), parameter(*four, name));
  EXPECT_NE(parameter(*one, "e0"), parameter(*one, "e1"));
  Floats before = parameter(*one, "d");
  ASSERT_TRUE(one->initialize(8, error)) << error;
  EXPECT_NE(parameter(*one, "d"), before);
}

TEST(Parameters, InitializationIsNormal) {
  Table table = sharded(ElementType::F32);
  table.initStd = 0.5;
  Program &p = table.programs[0];
  p.buckets.clear();
  p.arenaBytes = 1 << 20;
  p.parameters[0].shape = p.parameters[0].storedShape = {100000};
  p.parameters[0].gradient = 1 << 19;
  p.parameters[1].init = 0;
  p.parameters[1].address = (1 << 20) - 64;
  auto engine = makeEngine(table);
  std::string error;
  ASSERT_TRUE(engine->initialize(1, error)) << error;
  double sum = 0, squares = 0, within = 0;
  for (float v : parameter(*engine, "d")) {
    sum += v;
    squares += double(v) * v;
    within += std::abs(v) < 0.5;
  }
  EXPECT_NEAR(sum / 1e5, 0, 0.01);
  EXPECT_NEAR(std::sqrt(squares / 1e5), 0.5, 0.005);
  EXPECT_NEAR(within / 1e5, 0.6827, 0.01);
  EXPECT_EQ(parameter(*engine, "e2"), Floats({1, 1}));
}

TEST(Parameters, GradientsAddOverTheRanksThatHoldThem) {
  // The "gradient" of a parameter that is its own accumulator.
  Table table = sharded(ElementType::F32);
  Program &p = table.programs[0];
  p.buckets.clear();
  for (Parameter &parameter : p.parameters)
    parameter.gradient = parameter.address;
  auto engine = makeEngine(table);
  std::string error;
  ASSERT_TRUE(engine->setParameter({"d", {3}, {1, 2, 3}}, error));
  ASSERT_TRUE(engine->setParameter({"e2", {2}, {5, 6}}, error));
  EXPECT_EQ(gradient(*engine, "d"), Floats({4, 8, 12}));
  EXPECT_EQ(gradient(*engine, "e2"), Floats({10, 12}));
}

TEST(Parameters, RandomTokensAreInTheVocabulary) {
  Table table = sharded(ElementType::F32);
  table.vocabulary = 5;
  table.sequence = 50;
  auto engine = makeEngine(table);
  std::vector<int32_t> tokens = engine->randomTokens(3, 0);
  ASSERT_EQ(int64_t(tokens.size()), 4 * 51);
  std::vector<int> seen(5);
  for (int32_t token : tokens) {
    ASSERT_TRUE(token >= 0 && token < 5);
    ++seen[token];
  }
  for (int count : seen)
    EXPECT_GT(count, 0);
  EXPECT_EQ(engine->randomTokens(3, 0), tokens);
  EXPECT_NE(engine->randomTokens(3, 1), tokens);
  EXPECT_NE(engine->randomTokens(4, 0), tokens);
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

/// A machine that is lost at one access to its memory. It has the first rank;
/// the other processes add nothing.
struct FailingMachine : Engine::Impl, RankMemory {
  using Impl::Impl;

  bool run(const std::vector<int32_t> &tokens, StepResult &result,
           std::string &error) override {
    writeInputs(*this, 0, tokens);
    return true;
  }
  std::string implementation(uint32_t) const override { return ""; }
  bool has(int64_t rank) const override { return rank == 0; }
  void read(int64_t, int64_t address, void *to, int64_t bytes) const override {
    access();
    std::memcpy(to, arena.data() + address, bytes);
  }
  void write(int64_t, int64_t address, const void *from,
             int64_t bytes) override {
    access();
    std::memcpy(arena.data() + address, from, bytes);
  }
  void zero(int64_t, int64_t address, int64_t bytes) override {
    access();
    std::memset(arena.data() + address, 0, bytes);
  }
  void sumOverProcesses(std::vector<float> &) const override { access(); }

  void access() const {
    if (left-- == 0)
      throw std::runtime_error("the device is lost");
  }

  std::vector<char> arena = std::vector<char>(1024);
  mutable int left = -1;
};

TEST(Failures, AreReturnedByEveryCall) {
  Table table = sharded(ElementType::BF16);
  table.programs[0].loss = 512;
  auto owned = std::make_unique<FailingMachine>(table);
  FailingMachine &machine = *owned;
  machine.store = std::make_unique<ParameterStore>(machine.table, machine);
  Engine engine(std::move(owned));
  std::string error, file = testing::TempDir() + "lost.safetensors";
  ASSERT_TRUE(engine.initialize(1, error)) << error;
  ASSERT_TRUE(engine.saveParameters(file, error)) << error;
  NamedTensor tensor;
  std::vector<NamedTensor> tensors, all;
  ASSERT_TRUE(engine.parameters(all, error)) << error;
  StepResult result;
  const std::pair<const char *, std::function<bool()>> calls[] = {
      {"initialize", [&] { return engine.initialize(1, error); }},
      {"setParameters", [&] { return engine.setParameters(all, error); }},
      {"setParameter", [&] { return engine.setParameter(all[1], error); }},
      {"loadParameters", [&] { return engine.loadParameters(file, error); }},
      {"saveParameters", [&] { return engine.saveParameters(file, error); }},
      {"saveGradients", [&] { return engine.saveGradients(file, error); }},
      {"parameter", [&] { return engine.parameter("d", tensor, error); }},
      {"gradient", [&] { return engine.gradient("d", tensor, error); }},
      {"parameters", [&] { return engine.parameters(tensors, error); }},
      {"gradients", [&] { return engine.gradients(tensors, error); }},
      {"step", [&] {
         std::vector<int32_t> tokens(engine.tokenCount());
         return engine.step(tokens, result, error);
       }}};
  for (auto &[name, call] : calls) {
    SCOPED_TRACE(name);
    // Lost at the first access, the second, ..., after the last.
    int access = 0;
    for (;; ++access) {
      machine.left = access;
      if (call())
        break;
      EXPECT_EQ(error, "the device is lost");
    }
    EXPECT_EQ(error, "");
    EXPECT_GT(access, 0);
    EXPECT_GE(machine.left, 0);
  }
  EXPECT_FALSE(engine.parameter("x", tensor, error));
  EXPECT_EQ(error, "the program has no parameter 'x'");
}

} // namespace
