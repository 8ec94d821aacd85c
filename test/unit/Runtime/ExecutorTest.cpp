//===- ExecutorTest.cpp - Streams, events, hosts, captures ----------------===//

#include "HandMade.h"

using namespace moert;
using namespace moert::test;

namespace {

using Floats = std::vector<float>;

::testing::AssertionResult contains(const std::string &text,
                                    const std::string &part) {
  if (!part.empty() && text.find(part) != std::string::npos)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << part << "' not in: " << text;
}

/// in -> x2 (compute) -> x2 (comm) -> sum of both (compute) -> out.
HandMade diamond(bool firstWait, bool secondWait) {
  HandMade h(2);
  uint32_t a = h.launch("twice", 0, {h.read(kIn), h.write(1)}, {});
  uint32_t b =
      h.launch("twice", 1, {h.read(1), h.write(2)},
               firstWait ? std::vector<uint32_t>{a} : std::vector<uint32_t>{});
  h.launch("sum", 0, {h.read(1), h.read(2), h.write(kOut)},
           secondWait ? std::vector<uint32_t>{b} : std::vector<uint32_t>{});
  return h;
}

const Floats diamondResult = {6, 12, 18, 24, 66, 72, 78, 84};

TEST(Executor, StreamsAndEventsOrderOps) {
  HandMade h = diamond(true, true);
  EXPECT_EQ(h.outputs(1), diamondResult);
  EXPECT_EQ(h.outputs(4), diamondResult);
  EXPECT_EQ(h.seedsThatDiffer(diamondResult), 0);
}

TEST(Executor, MissingEventsShowUnderSomeSeed) {
  EXPECT_EQ(diamond(false, true).outputs(), diamondResult);
  EXPECT_GT(diamond(false, true).seedsThatDiffer(diamondResult, 1), 0);
  EXPECT_GT(diamond(true, false).seedsThatDiffer(diamondResult, 1), 0);
}

TEST(Executor, EventsOfEarlierCalls) {
  HandMade h(1);
  h.launch("twice", 0, {h.read(kIn), h.write(1)}, {});
  Template later;
  later.name = "later";
  later.frames = h.table.templates[0].frames;
  later.imports = {"e"};
  later.ops = {h.op(0)};
  later.ops[0].stream = 1;
  later.ops[0].waits = {{true, 0}};
  later.ops[0].operands = {h.read(1), h.write(kOut)};
  h.table.templates.push_back(later);
  h.table.programs[0].calls.push_back(
      {1, {0, kHost * 16}, {{0, 0}}, -1, -1, -1, -1});
  Floats expected = {4, 8, 12, 16};
  EXPECT_EQ(h.seedsThatDiffer(expected), 0);
  h.table.programs[0].calls[1].imports[0].call = -1;
  EXPECT_GT(h.seedsThatDiffer(expected, 1), 0);
}

/// compute: twice; copy: host read of it; comm: copies what the host holds,
/// without an event.
HandMade readBack() {
  HandMade h(2);
  uint32_t a = h.launch("twice", 0, {h.read(kIn), h.write(1)}, {});
  h.hostRead(1, kHost, 2, {a});
  h.launch("copy", 1, {h.read(kHost), h.write(kOut)}, {});
  return h;
}

TEST(Executor, HostReadHoldsUpWhatIsIssuedLater) {
  HandMade h = readBack();
  Floats expected = {2, 4, 6, 8, 22, 24, 26, 28};
  EXPECT_EQ(h.outputs(3), expected);
  EXPECT_EQ(h.seedsThatDiffer(expected), 0);
  // Issued before the read, the same op races with it.
  std::swap(h.op(1), h.op(2));
  EXPECT_GT(h.seedsThatDiffer(expected, 1), 0);
}

TEST(Executor, HostOperandsAreReadAtIssue) {
  // The next read may overwrite what the host has passed on already.
  HandMade h = readBack();
  h.hostRead(kIn, kHost, 2, {});
  EXPECT_EQ(h.seedsThatDiffer({2, 4, 6, 8, 22, 24, 26, 28}), 0);
}

TEST(Executor, CapturedHostValuesFreeze) {
  HandMade eager = readBack(), captured = readBack();
  captured.capture(2, 3);
  auto twoSteps = [](HandMade &h) {
    auto engine = h.engine();
    h.step(*engine);
    HandMade::setInput(*engine, 0, {7, 7, 7, 7});
    return h.step(*engine).first;
  };
  EXPECT_EQ(twoSteps(eager), Floats({14, 14, 14, 14, 22, 24, 26, 28}));
  EXPECT_EQ(twoSteps(captured), Floats({2, 4, 6, 8, 22, 24, 26, 28}));
}

TEST(Executor, CapturedHostReadHoldsUpNobody) {
  HandMade h = readBack();
  h.capture(1, 3);
  EXPECT_GT(h.seedsThatDiffer({2, 4, 6, 8, 22, 24, 26, 28}, 1), 0);
}

TEST(Executor, DeadlockNamesWhoWaitsForWhom) {
  // Two communicators, which the stages use in opposite orders.
  HandMade h(2, 2);
  h.table.communicators.push_back({"other", 2, 1, 0});
  for (int64_t stage : {0, 1}) {
    uint32_t first = stage == 0 ? 0 : 1;
    uint32_t a = h.collective(CollectiveKind::AllReduceSum, 0,
                              {h.read(kIn), h.write(1)}, {}, stage, first);
    h.collective(CollectiveKind::AllReduceSum, 1, {h.read(1), h.write(kOut)},
                 {a}, stage, 1 - first);
  }
  for (int threads : {1, 3}) {
    std::string error = h.error(threads);
    EXPECT_TRUE(contains(error, "deadlock"));
    EXPECT_TRUE(contains(error, "'collective0 layer 3 mb 5' (rank 0, stream "
                                "compute) waits for ranks 1 of communicator "
                                "'world'"));
    EXPECT_TRUE(contains(error, "'collective0 layer 3 mb 5' (rank 1, stream "
                                "compute) waits for ranks 0 of communicator "
                                "'other'"));
    EXPECT_TRUE(contains(error, "'collective1 layer 3 mb 5' (rank 0, stream "
                                "comm) waits for 'collective0 layer 3 mb 5' "
                                "(rank 0, stream compute)"));
  }
}

TEST(Executor, CommunicatorsRunInIssueOrder) {
  // Streams would permit either; the communicator's order decides.
  HandMade h(2);
  h.collective(CollectiveKind::AllReduceSum, 0, {h.read(kIn), h.write(1)}, {});
  h.collective(CollectiveKind::AllReduceSum, 1, {h.read(1), h.write(kOut)}, {});
  EXPECT_EQ(h.seedsThatDiffer({24, 28, 32, 36, 24, 28, 32, 36}), 0);
}

TEST(Executor, ManyThreadsGiveTheSame) {
  // Many independent chains, so that threads compete.
  HandMade h(8);
  for (int i = 0; i < 50; ++i) {
    uint32_t a = h.launch("sum", i % 3, {h.read(kIn), h.read(kIn), h.write(1)},
                          i ? std::vector<uint32_t>{uint32_t(2 * i - 1)}
                            : std::vector<uint32_t>{});
    h.launch("copy", (i + 1) % 3, {h.read(1), h.write(kOut)}, {a});
  }
  Floats expected = h.outputs(1);
  EXPECT_EQ(expected[0], 2);
  for (int threads : {2, 4, 7})
    EXPECT_EQ(h.outputs(threads), expected);
  EXPECT_EQ(h.seedsThatDiffer(expected), 0);
}

TEST(Executor, TilesRunOnceOnAnyThread) {
  HandMade h(1);
  constexpr int64_t n = 1 << 18;
  Operand x{0, 0, ElementType::F32, {n / 64, 64}, Effect::Read}, y = x;
  y.offset = n * 4;
  y.effect = Effect::Write;
  h.launch("add", 0, {x, x, y}, {});
  h.table.kernels[0].provider = Provider::Library;
  h.table.kernels[0].op = "add";
  h.table.templates[0].frames[0].bytes = n * 8;
  Program &p = h.table.programs[0];
  p.arenaBytes = n * 8;
  p.calls[0].bases[1] = 0;
  p.parameters[0].shape = p.parameters[0].storedShape = {n};
  p.parameters[0].gradient = n * 4;
  for (int threads : {1, 2, 5})
    for (uint64_t seed : {0, 1}) {
      std::string error;
      EngineOptions options;
      options.threads = threads;
      options.orderSeed = seed;
      auto engine = Engine::create(h.table, options, {}, error);
      ASSERT_TRUE(engine) << error;
      EXPECT_TRUE(engine->initialize(1, error)) << error;
      StepResult result;
      ASSERT_TRUE(engine->step({0, 0}, result, error)) << error;
      Floats in = parameter(*engine, "r0");
      for (float &v : in)
        v += v;
      EXPECT_EQ(gradient(*engine, "r0"), in);
    }
}

TEST(Executor, AFailingKernelIsNamed) {
  HandMade h(3);
  h.launch("throw", 0, {h.read(kIn)}, {});
  for (int threads : {1, 3})
    EXPECT_TRUE(contains(h.error(threads), "stream compute): broken"));
}

} // namespace
