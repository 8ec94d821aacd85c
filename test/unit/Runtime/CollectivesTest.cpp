//===- CollectivesTest.cpp - Data between ranks ---------------------------===//

#include "lib/Runtime/Collectives.h"
#include "HandMade.h"

using namespace moert;
using namespace moert::test;

namespace {

using Floats = std::vector<float>;

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

TEST(Collectives, AllReduceSumInGroups) {
  // Groups {0, 2} and {1, 3}.
  HandMade h(4);
  h.table.communicators.push_back({"dp", 2, 2, 0});
  h.collective(CollectiveKind::AllReduceSum, 0, {h.read(kIn), h.write(kOut)},
               {}, 0, 1);
  EXPECT_EQ(h.outputs(), Floats({22, 24, 26, 28, 42, 44, 46, 48, //
                                 22, 24, 26, 28, 42, 44, 46, 48}));
}

TEST(Collectives, AllReduceInPlaceAddsInMemberOrder) {
  HandMade h(3);
  h.launch("copy", 0, {h.read(kIn), h.write(kOut)}, {});
  h.collective(CollectiveKind::AllReduceSum, 0, {h.read(kOut), h.write(kOut)},
               {});
  auto engine = h.engine();
  // (1e8 + 1) - 1e8 is 0 in f32; another order gives 1.
  HandMade::setInput(*engine, 0, {1e8f, 0, 0, 0});
  HandMade::setInput(*engine, 1, {1, 0, 0, 0});
  HandMade::setInput(*engine, 2, {-1e8f, 0, 0, 0});
  EXPECT_EQ(h.step(*engine).first, Floats(12, 0));
}

TEST(Collectives, AllReduceMaxOfIntegers) {
  // Positive floats order as their bits do.
  HandMade h(2);
  h.collective(
      CollectiveKind::AllReduceMax, 0,
      {h.read(kIn, 4, ElementType::I32), h.write(kOut, 4, ElementType::I32)},
      {});
  EXPECT_EQ(h.outputs(), Floats({11, 12, 13, 14, 11, 12, 13, 14}));
}

TEST(Collectives, ReduceScatterAndAllGather) {
  HandMade h(2);
  uint32_t a = h.collective(CollectiveKind::ReduceScatter, 0,
                            {h.read(kIn), h.write(1, 2)}, {});
  h.collective(CollectiveKind::AllGather, 0, {h.read(1, 2), h.write(kOut)},
               {a});
  EXPECT_EQ(h.outputs(), Floats({12, 14, 16, 18, 12, 14, 16, 18}));
  // Each alone, in place.
  HandMade scatter(2);
  scatter.launch("copy", 0, {h.read(kIn), h.write(kOut)}, {});
  scatter.collective(CollectiveKind::ReduceScatter, 0,
                     {h.read(kOut), h.write(kOut, 2)}, {});
  Floats out = scatter.outputs();
  EXPECT_EQ(Floats(out.begin(), out.begin() + 2), Floats({12, 14}));
}

TEST(Collectives, ExchangeCounts) {
  HandMade h(2);
  h.collective(
      CollectiveKind::ExchangeCounts, 0,
      {h.read(kIn, 4, ElementType::I32), h.write(kOut, 4, ElementType::I32)},
      {});
  EXPECT_EQ(h.outputs(), Floats({1, 2, 11, 12, 3, 4, 13, 14}));
}

/// Each rank sends rows (floats) of its input by the counts that it is given;
/// the capacity is `capacity` rows.
HandMade allToAll(int64_t capacity) {
  HandMade h(2);
  // Counts are read as what the host holds; tests write them as tokens.
  h.table.sequence = 4;
  h.table.microBatches = 1;
  h.table.vocabulary = 100;
  h.table.programs[0].tokens = 1 * 16;
  h.table.programs[0].flag = 6 * 16;
  // Tokens: [sends of experts 0, 1 | ...]: two experts, one per rank.
  uint32_t a = h.collective(
      CollectiveKind::ExchangeCounts, 0,
      {h.read(1, 2, ElementType::I32), h.write(2, 2, ElementType::I32)}, {});
  uint32_t b = h.hostRead(1, kHost, 0, {}, ElementType::I32);
  h.hostRead(2, kHost + 1, 0, {a, b}, ElementType::I32);
  h.collective(CollectiveKind::AllToAll, 1,
               {h.read(kIn), h.readCounts(kHost, 2), h.readCounts(kHost + 1, 2),
                h.update(6, 1, ElementType::I32), h.write(kOut, capacity)},
               {});
  return h;
}

std::pair<Floats, std::string> exchange(HandMade &h, Engine &engine,
                                        std::vector<int32_t> counts) {
  // Five tokens a sample: four are the rank's tokens.
  std::vector<int32_t> tokens = {counts[0], counts[1], 0, 0, 0,
                                 counts[2], counts[3], 0, 0, 0};
  return HandMade::step(engine, tokens);
}

TEST(Collectives, AllToAllMovesRowsByCounts) {
  HandMade h = allToAll(4);
  auto engine = h.engine(2);
  // What is not received stays as it was: poison first.
  auto [ones, error] = exchange(h, *engine, {2, 2, 2, 2});
  EXPECT_EQ(error, "");
  EXPECT_EQ(ones, Floats({1, 2, 11, 12, 3, 4, 13, 14}));
  EXPECT_EQ(exchange(h, *engine, {1, 3, 1, 0}).first,
            Floats({1, 11, 11, 12, 2, 3, 4, 14}));
  EXPECT_EQ(exchange(h, *engine, {0, 0, 0, 0}).first,
            Floats({1, 11, 11, 12, 2, 3, 4, 14}));
}

TEST(Collectives, AllToAllOverflowNamesLayerAndRows) {
  HandMade h = allToAll(3);
  auto engine = h.engine(2);
  std::string error = exchange(h, *engine, {0, 4, 1, 2}).second;
  EXPECT_TRUE(contains(error, "'collective3 layer 3 mb 5' (rank 1, stream "
                              "comm) overflows: layer 3 needs 6 rows, its "
                              "capacity is 3"))
      << error;
  // The next step is none the worse for it.
  EXPECT_EQ(exchange(h, *engine, {1, 1, 1, 1}).second, "");
}

TEST(Collectives, OverflowSetsTheFlagAndWritesNothingPastTheCapacity) {
  HandMade h = allToAll(3);
  float x[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, y[2][4] = {};
  int32_t send[2][2] = {{0, 4}, {1, 2}}, recv[2][2] = {{0, 1}, {4, 2}};
  int32_t flags[2] = {};
  std::vector<void *> pointers[2];
  std::vector<Part> parts;
  for (int m : {0, 1}) {
    pointers[m] = {x[m], send[m], recv[m], &flags[m], y[m]};
    parts.push_back({&h.op(3), pointers[m].data(), 3});
  }
  size_t member = 0;
  EXPECT_EQ(runCollective(parts, member),
            "overflows: layer 3 needs 6 rows, its capacity is 3");
  EXPECT_EQ(member, 1u);
  EXPECT_EQ(flags[0], 0);
  EXPECT_EQ(flags[1], 4);
  EXPECT_EQ(Floats(y[0], y[0] + 4), Floats({5, 0, 0, 0}));
  EXPECT_EQ(Floats(y[1], y[1] + 4), Floats({1, 2, 3, 0}));
}

TEST(Collectives, AllToAllChecksCounts) {
  HandMade h = allToAll(4);
  auto engine = h.engine();
  EXPECT_TRUE(contains(exchange(h, *engine, {3, 2, 0, 0}).second,
                       "(rank 0, stream comm) sends 5 rows of 4"));
  // Both sides take what they send for what they receive.
  h.op(3).operands[2] = h.readCounts(kHost, 2);
  engine = h.engine();
  EXPECT_TRUE(contains(exchange(h, *engine, {1, 2, 1, 2}).second,
                       "(rank 0, stream comm) sends 2 rows to member 1, which "
                       "expects 1"));
  // Poison.
  h.op(3).operands[1] = h.readCounts(kHost + 2, 2);
  engine = h.engine();
  EXPECT_TRUE(contains(exchange(h, *engine, {1, 2, 1, 2}).second,
                       "has a negative count"));
}

TEST(Collectives, DisagreementNamesBothOps) {
  HandMade h(2, 2);
  h.collective(CollectiveKind::AllReduceSum, 0, {h.read(kIn), h.write(kOut)},
               {}, 0);
  h.launch("copy", 0, {h.read(kIn), h.write(kOut)}, {}, 1);
  h.collective(CollectiveKind::ReduceScatter, 0, {h.read(kIn), h.write(1, 2)},
               {}, 1);
  std::string kinds = h.error();
  EXPECT_TRUE(contains(kinds, "disagree on communicator 'world'")) << kinds;
  EXPECT_TRUE(contains(kinds, "'collective0 layer 3 mb 5' (rank 0")) << kinds;
  EXPECT_TRUE(contains(kinds, "'collective1 layer 3 mb 5' (rank 1")) << kinds;
  h.op(1, 1).collective = CollectiveKind::AllReduceSum;
  h.op(1, 1).operands = {h.read(kIn, 2), h.write(1, 2)};
  EXPECT_TRUE(contains(h.error(), "disagree"));
  h.op(1, 1).operands = h.op(0, 0).operands;
  EXPECT_EQ(h.error(), "");
}

/// Stage 0 sends twice its input to stage 1, which sends back twice that.
HandMade pingPong() {
  HandMade h(4, 2);
  h.table.communicators.push_back({"pp", 2, 2, 0});
  uint32_t a = h.launch("twice", 0, {h.read(kIn), h.write(1)}, {}, 0);
  uint32_t s = h.transfer(1, 1, h.read(1), {a}, 0, 1);
  h.transfer(1, 1, h.write(kOut), {s}, 0, 1);
  uint32_t r = h.transfer(-1, 1, h.write(2), {}, 1, 1);
  uint32_t b = h.launch("twice", 0, {h.read(2), h.write(3)}, {r}, 1);
  h.launch("copy", 0, {h.read(3), h.write(kOut)}, {}, 1);
  h.transfer(-1, 1, h.read(3), {b}, 1, 1);
  return h;
}

TEST(Collectives, SendAndReceiveAcrossPrograms) {
  HandMade h = pingPong();
  EXPECT_EQ(h.seedsThatDiffer({4, 8, 12, 16, 44, 48, 52, 56, //
                               4, 8, 12, 16, 44, 48, 52, 56}),
            0);
}

TEST(Collectives, SendsAreRendezvous) {
  HandMade h = pingPong();
  // Stage 1 sends before it receives.
  h.op(0, 1).kind = OpKind::Send;
  h.op(0, 1).operands[0].effect = Effect::Read;
  std::string error = h.error(2);
  EXPECT_TRUE(contains(error, "deadlock")) << error;
  EXPECT_TRUE(contains(error, "'send1 layer 3 mb 5' (rank 0, stream comm) "
                              "waits for rank 2"))
      << error;
}

TEST(Collectives, SendAndReceiveAgreeOnSize) {
  HandMade h = pingPong();
  h.op(0, 1).operands[0].shape = {2};
  std::string error = h.error();
  EXPECT_TRUE(contains(error, "differ in type or size on communicator 'pp': "
                              "'send1 layer 3 mb 5' (rank 0, stream comm) and "
                              "'recv0 layer 3 mb 5' (rank 2"))
      << error;
}

} // namespace
