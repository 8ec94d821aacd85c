//===- ValueTest.cpp - Proofs value, memory and capture, and their maps ---===//

#include "TestVerify.h"

using namespace moert;
using namespace moert::test;

namespace {

//===----------------------------------------------------------------------===//
// ValueMap
//===----------------------------------------------------------------------===//

TEST(ValueMap, PiecesAreCanonical) {
  uint64_t a = value::initial("a"), b = value::initial("b");
  ValueMap map;
  map.write({0, 32}, a);
  EXPECT_EQ(map.read({0, 32}), a);
  EXPECT_EQ(map.read({8, 16}), value::slice(a, 8, 8, 32));
  EXPECT_NE(map.read({8, 16}), map.read({16, 24}));
  // Writing a part and the same part back by two routes.
  map.write({8, 16}, b);
  EXPECT_EQ(map.read({8, 16}), b);
  EXPECT_NE(map.read({0, 32}), a);
  ValueMap other;
  other.write({100, 116}, b);
  other.write({108, 140}, a);
  other.write({100, 104}, b);
  EXPECT_EQ(other.read({108, 140}), a);
  EXPECT_EQ(other.read({110, 112}), value::slice(a, 2, 2, 32));
  // In a row.
  map.write({32, 48}, a);
  map.write({48, 56}, b);
  EXPECT_EQ(map.read({32, 56}), value::concat({{a, 16}, {b, 8}}));
  EXPECT_NE(map.read({32, 56}), value::concat({{b, 8}, {a, 16}}));
  // Unwritten bytes are told apart from all values.
  EXPECT_EQ(map.read({200, 204}), map.read({200, 204}));
  EXPECT_NE(map.read({200, 204}), map.read({204, 208}));
}

TEST(ValueMap, ZerosAreAlike) {
  ValueMap map;
  map.write({0, 64}, value::zero());
  EXPECT_EQ(map.read({4, 8}), value::zero());
  map.write({64, 128}, value::zero());
  EXPECT_EQ(map.read({32, 96}), value::zero());
  EXPECT_EQ(value::concat({{value::zero(), 4}, {value::zero(), 8}}),
            value::zero());
  Kernel kernel;
  kernel.op = "zero";
  EXPECT_EQ(value::apply(value::kernelSignature(kernel), {}, 0), value::zero());
}

TEST(ValueMap, SignaturesDiffer) {
  Kernel a, b;
  a.op = b.op = "rms_norm";
  a.attributes["eps"] = 1e-5;
  b.attributes["eps"] = 1e-6;
  EXPECT_NE(value::kernelSignature(a), value::kernelSignature(b));
  b.attributes = a.attributes;
  b.name = "another symbol";
  EXPECT_EQ(value::kernelSignature(a), value::kernelSignature(b));
  EXPECT_NE(value::collectiveSignature(CollectiveKind::AllToAll, "ep"),
            value::collectiveSignature(CollectiveKind::AllToAll, "dp"));
  EXPECT_NE(value::apply(1, {2, 3}, 0), value::apply(1, {3, 2}, 0));
  EXPECT_NE(value::apply(1, {2, 3}, 0), value::apply(1, {2, 3}, 1));
}

//===----------------------------------------------------------------------===//
// Proof value
//===----------------------------------------------------------------------===//

TEST(Value, NoReference) {
  Table table = smallJob();
  VerifyResult result = verify(table, {});
  ASSERT_EQ(result.faults.size(), 1u);
  EXPECT_EQ(result.faults[0].message,
            "value: there is no reference to compare with");
}

// Gradients add up in the order of micro-batches.
TEST(Value, AccumulationOrder) {
  Table table = smallJob({1, 1, 3, 2, 0}), broken = table;
  std::vector<Call> &calls = broken.programs[0].calls;
  int64_t a = callOf(broken, 0, kBackward, 0);
  int64_t b = callOf(broken, 0, kBackward, 1);
  // What the calls bind, but for the events.
  std::swap(calls[a].bases, calls[b].bases);
  std::swap(calls[a - 1].bases, calls[b - 1].bases);
  std::swap(calls[a].microBatch, calls[b].microBatch);
  VerifyResult result = verifyAgainst(table, broken);
  for (const Fault &fault : result.faults)
    EXPECT_EQ(fault.proof, Proof::Value) << fault.message;
  // The first result that the serial program does not have.
  EXPECT_TRUE(find(result, Proof::Value, kHead, 0)) << messages(result);
}

TEST(Value, LostAndTwice) {
  Table table = smallJob(), broken = table;
  // One layer's weight gradient of one micro-batch is left out.
  int64_t call = callOf(broken, 1, kBackward, 1);
  uint32_t copy = specialise(broken, 1, call);
  std::vector<Op> &ops = broken.templates[copy].ops;
  ops.erase(ops.begin() + 4);
  for (Op &op : ops)
    for (Wait &wait : op.waits)
      wait.index -= !wait.isImport && wait.index > 4;
  for (Call &later : broken.programs[1].calls)
    for (EventRef &event : later.imports)
      event.op -= event.call == call && event.op > 4;
  VerifyResult result = verifyAgainst(table, broken);
  EXPECT_FALSE(result.ok());
  for (const Fault &fault : result.faults)
    EXPECT_EQ(fault.proof, Proof::Value) << fault.message;
  // The next micro-batch adds to the wrong sum: the first stray result.
  EXPECT_TRUE(find(result, Proof::Value, kBackward, 4)) << messages(result);

  // And added twice.
  broken = table;
  copy = specialise(broken, 1, callOf(broken, 1, kBackward, 1));
  broken.templates[copy].ops.push_back(broken.templates[copy].ops[4]);
  result = verifyAgainst(table, broken);
  const Fault *fault = find(result, Proof::Value, copy, 8);
  ASSERT_TRUE(fault) << messages(result);
  EXPECT_NE(fault->message.find("experts/wgrad mb 0"), std::string::npos);
}

// The same bytes, in rows that are twice as long.
TEST(Value, OtherRows) {
  Table table = smallJob();
  // An all-to-all and a launch.
  for (int64_t op : {2, 3}) {
    Table broken = table;
    Op &changed = broken.templates[kBackward].ops[op];
    for (Operand &operand : changed.operands)
      if (operand.shape == std::vector<int64_t>{4, 4})
        operand.shape = {2, 8};
    VerifyResult result = verifyAgainst(table, broken);
    for (const Fault &fault : result.faults)
      EXPECT_EQ(fault.proof, Proof::Value) << fault.message;
    EXPECT_TRUE(find(result, Proof::Value, kBackward, op)) << messages(result);
  }
  // What zeros bytes does not look at rows.
  Operand &zeroed = table.templates[kBegin].ops[0].operands[0];
  Table flat = table;
  zeroed.shape = {2, zeroed.elements() / 2};
  EXPECT_TRUE(verifyAgainst(flat, table).ok());
}

TEST(Value, NamesTheLastWriterWithoutKnownValues) {
  Table table = smallJob(), broken = table;
  broken.kernels.push_back(broken.kernels[0]);
  broken.kernels.back().op = "another";
  uint32_t copy = specialise(broken, 0, callOf(broken, 0, kBegin));
  broken.templates[copy].ops[1].kernel = broken.kernels.size() - 1;
  VerifyResult result = verify(broken, valuesAfterStep(table, nullptr));
  ASSERT_EQ(result.faults.size(), 1u) << messages(result);
  EXPECT_EQ(result.faults[0].message,
            "value: 'loss' of program 'stage0', ranks 0 to 1 is not what the "
            "serial program leaves; 'optimizer/loss' on stream comm wrote it");
}

TEST(Value, NamesTheSendOfAnotherValue) {
  Table table = smallJob(), broken = table;
  std::vector<Call> &calls = broken.programs[1].calls;
  calls[callOf(broken, 1, kSendBackward, 1)].bases =
      calls[callOf(broken, 1, kSendBackward, 0)].bases;
  // Still the second micro-batch's place in the order, but the first's value:
  // a known value, so that the first stray result is computed from it.
  VerifyResult result = verifyAgainst(table, broken);
  EXPECT_TRUE(find(result, Proof::Value, kBackward, 2)) << messages(result);
  // What no serial program sends.
  calls[callOf(broken, 1, kSendBackward, 1)].bases[0] -= 32;
  result = verifyAgainst(table, broken);
  EXPECT_TRUE(find(result, Proof::Value, kSendBackward, 0)) << messages(result);
}

TEST(Verify, TooManyStreams) {
  Table table = smallJob();
  table.streams.resize(65);
  VerifyResult result = verifyAgainst(table, table);
  ASSERT_EQ(result.faults.size(), 1u);
  EXPECT_NE(messages(result).find("65 streams"), std::string::npos);
}

TEST(Value, OverflowFlagAfterItsReader) {
  Table table = smallJob({1, 1, 2, 2, 0}), broken = table;
  // The flag is reduced before the last backward.
  Op reduce = broken.templates[kOptimizer].ops[4];
  broken.templates.push_back(
      {"early", broken.templates[kOptimizer].frames, {}, {reduce}, {}});
  std::vector<Call> &calls = broken.programs[0].calls;
  Call early = calls.back();
  early.tmpl = broken.templates.size() - 1;
  early.imports.clear();
  int64_t last = callOf(broken, 0, kBackward, 1);
  calls.insert(calls.begin() + last, early);
  for (Call &call : calls)
    for (EventRef &event : call.imports)
      event.call += event.call >= last;
  VerifyResult result = verifyAgainst(table, broken);
  EXPECT_TRUE(find(result, Proof::Value, kBackward, 2, early.tmpl, 0))
      << messages(result);
}

//===----------------------------------------------------------------------===//
// Proof memory
//===----------------------------------------------------------------------===//

TEST(Memory, PeakAndLimit) {
  Table table;
  table.streams = {{"main", 0}};
  table.kernels.resize(2);
  table.kernels[0].effects = {Effect::Write};
  table.kernels[1].effects = {Effect::Read, Effect::Write};
  Template t;
  t.name = "t";
  t.frames = {{"temp", FrameKind::Temporary, 64}};
  auto at = [](int64_t offset, int64_t n, Effect effect) {
    return Operand{0, offset, ElementType::F32, {n}, effect};
  };
  Op first, second, third;
  first.operands = {at(0, 4, Effect::Write)};
  // While 16 bytes are live, 8 more; then 4 where the first 16 were.
  second.kernel = third.kernel = 1;
  second.operands = {at(0, 4, Effect::Read), at(32, 2, Effect::Write)};
  third.operands = {at(32, 2, Effect::Read), at(0, 1, Effect::Write)};
  t.ops = {first, second, third};
  table.templates = {t};
  Program p;
  p.name = "p";
  p.calls = {{0, {16}, {}, -1, -1, -1, -1}};
  p.arenaBytes = 96;
  p.step = 0;
  table.programs = {p};
  table.memoryLimit = 96;
  VerifyResult result = verifyAgainst(table, table);
  ASSERT_EQ(result.livePeak.size(), 1u);
  EXPECT_EQ(result.highWater[0], 16 + 40);
  EXPECT_EQ(result.livePeak[0], 4 + 16 + 8);
  for (const Fault &fault : result.faults)
    EXPECT_NE(fault.proof, Proof::Memory);
  table.memoryLimit = 95;
  result = verifyAgainst(table, table);
  EXPECT_NE(messages(result).find("memory: the arena has 96 bytes, the limit "
                                  "is 95"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Proof capture
//===----------------------------------------------------------------------===//

TEST(Capture, CountsGraphs) {
  // The captured ops use the weights, saved frame, input and temporary: per
  // stage, layer and micro-batch.
  Table table = smallJob();
  EXPECT_EQ(verifyAgainst(table, table).graphInstances, 2 * 2 * 3);
  // One more call at the same addresses replays a graph.
  std::vector<Call> &calls = table.programs[0].calls;
  calls.push_back(Call(calls[callOf(table, 0, kForward)]));
  EXPECT_EQ(verifyAgainst(table, table).graphInstances, 2 * 2 * 3);
}

TEST(Capture, Illegal) {
  Table table = smallJob(), broken = table;
  for (uint32_t op = 2; op < 6; ++op)
    broken.templates[kForward].ops[op].capture = 0;
  VerifyResult result = verifyAgainst(table, broken);
  // The exchange, host reads, host operands, and the all-to-all.
  EXPECT_TRUE(find(result, Proof::Capture, kForward, 2, kForward, 7))
      << messages(result);
  EXPECT_TRUE(find(result, Proof::Capture, kForward, 3));
  EXPECT_TRUE(find(result, Proof::Capture, kForward, 4));
  EXPECT_TRUE(find(result, Proof::Capture, kForward, 5, kForward, 7));
  EXPECT_NE(messages(result).find("reads host frame 'host'"),
            std::string::npos);
  EXPECT_EQ(result.faults.size(), 5u) << messages(result);
}

TEST(Capture, GroupedProducts) {
  Table table = smallJob();
  // The launch of the gate, which is captured.
  uint32_t kernel = table.templates[kForward].ops[0].kernel;
  table.kernels[kernel].op = "grouped_linear";
  VerifyResult result = verifyAgainst(table, table);
  EXPECT_TRUE(find(result, Proof::Capture, kForward, 0)) << messages(result);
  EXPECT_NE(messages(result).find("the rows that the host knows"),
            std::string::npos);
}

TEST(Capture, CollectivesThatAreNeverEager) {
  Table table = smallJob(), broken = table;
  broken.templates[kSendForward].captures = {{"send"}};
  broken.templates[kSendForward].ops[0].capture = 0;
  VerifyResult result = verifyAgainst(table, broken);
  EXPECT_TRUE(find(result, Proof::Capture, kSendForward, 0));
  for (uint32_t tmpl : {kReceiveForward, kSendBackward, kReceiveBackward}) {
    broken.templates[tmpl].captures = {{"transfer"}};
    broken.templates[tmpl].ops[0].capture = 0;
  }
  result = verifyAgainst(table, broken);
  EXPECT_TRUE(result.ok()) << messages(result);
}

} // namespace
