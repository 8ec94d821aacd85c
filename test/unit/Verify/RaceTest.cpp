//===- RaceTest.cpp -------------------------------------------------------===//

#include "TestVerify.h"

using namespace moert;
using namespace moert::test;

namespace {

TEST(Verify, AcceptsTheJob) {
  for (JobSize size :
       {JobSize(), JobSize{1, 1, 1, 1, 0}, JobSize{3, 1, 4, 4, 64}}) {
    Table table = smallJob(size);
    VerifyResult result = verifyAgainst(table, table);
    EXPECT_TRUE(result.ok()) << messages(result);
    int64_t ops = 0;
    for (const Program &program : table.programs)
      for (const Call &call : program.calls)
        ops += table.templates[call.tmpl].ops.size();
    EXPECT_EQ(result.ops, ops);
  }
}

// A reference with other addresses, matched by name.
TEST(Verify, AcceptsOtherAddresses) {
  Table table = smallJob(), moved = smallJob({2, 2, 3, 2, 1024});
  std::vector<ExpectedValue> reference = valuesAfterStep(moved, nullptr);
  std::vector<ExpectedValue> expected = valuesAfterStep(table, nullptr);
  ASSERT_EQ(reference.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].name, reference[i].name);
    EXPECT_EQ(expected[i].value, reference[i].value) << expected[i].name;
    EXPECT_NE(expected[i].address, reference[i].address);
  }
}

/// Removes wait `wait` of an op and checks that the race between the op and
/// `other` is found.
void dropWait(uint32_t tmpl, uint32_t op, uint32_t wait, uint32_t otherTmpl,
              uint32_t other) {
  Table table = smallJob(), broken = table;
  std::vector<Wait> &waits = broken.templates[tmpl].ops[op].waits;
  waits.erase(waits.begin() + wait);
  VerifyResult result = verifyAgainst(table, broken);
  const Fault *fault = find(result, Proof::Race, tmpl, op, otherTmpl, other);
  ASSERT_TRUE(fault) << messages(result);
  // The values in issue order are still right.
  for (const Fault &f : result.faults)
    EXPECT_EQ(f.proof, Proof::Race) << f.message;
}

TEST(Race, DroppedWaits) {
  dropWait(kForward, 2, 0, kForward, 1);
  dropWait(kForward, 6, 0, kForward, 5);
  dropWait(kForward, 7, 0, kForward, 6);
  dropWait(kBackward, 2, 1, kBackward, 4);
  dropWait(kBackward, 3, 0, kBackward, 2);
  dropWait(kBackward, 6, 0, kBackward, 5);
  dropWait(kSendForward, 0, 0, kForward, 7);
  dropWait(kOptimizer, 0, 0, kBackward, 7);
  dropWait(kOptimizer, 1, 0, kOptimizer, 0);
  dropWait(kOptimizer, 7, 0, kOptimizer, 6);
}

TEST(Race, NamesBothOpsOnceWithACount) {
  Table table = smallJob(), broken = table;
  broken.templates[kForward].ops[6].waits.clear();
  VerifyResult result = verifyAgainst(table, broken);
  const Fault *fault = find(result, Proof::Race, kForward, 6, kForward, 5);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->count, 2 * 2 * 3);
  EXPECT_EQ(fault->message,
            "race: 'layers.0.experts mb 0' on stream main reads bytes [32, 96) "
            "of frame 'saved' that 'layers.0.dispatch mb 0' on stream comm "
            "writes, and no event orders them (program 'stage0', ranks 0 to "
            "1); let the first wait for the second");
}

TEST(Race, ReadsWhatNothingWrote) {
  Table table = smallJob(), broken = table;
  // The backward half reads the saved rows of a slot that is never filled.
  Program &stage = broken.programs[1];
  stage.calls[callOf(broken, 1, kBackward)].bases[2] = stage.arenaBytes;
  stage.arenaBytes += 128;
  VerifyResult result = verifyAgainst(table, broken);
  const Fault *fault = find(result, Proof::Race, kBackward, 4);
  ASSERT_TRUE(fault) << messages(result);
  EXPECT_EQ(fault->otherOp, -1);
  EXPECT_EQ(fault->program, 1);
}

TEST(Race, BuffersThatOverlap) {
  Table table = smallJob(), broken = table;
  // A forward saves 32 bytes before where its backward looks: over the rows of
  // another slot, and the backward's last rows are never written.
  Program &stage = broken.programs[0];
  int64_t second = callOf(broken, 0, kForward, 1);
  stage.calls[second].bases[2] -= 32;
  VerifyResult result = verifyAgainst(table, broken);
  EXPECT_TRUE(find(result, Proof::Race, kBackward, 4)) << messages(result);
  EXPECT_TRUE(find(result, Proof::Agreement, kBackward, 2));
}

TEST(Race, OperandsOfOneOpOverlap) {
  Table table = smallJob(), broken = table;
  // dgrad writes over half of what it reads.
  broken.templates[kBackward].ops[3].operands[2].offset = 32;
  VerifyResult result = verifyAgainst(table, broken);
  const Fault *fault = find(result, Proof::Race, kBackward, 3);
  ASSERT_TRUE(fault) << messages(result);
  EXPECT_NE(fault->message.find("another operand"), std::string::npos);
}

TEST(Race, AllReduceInPlace) {
  Table table = smallJob(), inPlace = table;
  // The loss becomes the sum of losses of all stages where it is.
  std::vector<Operand> &operands =
      inPlace.templates[kOptimizer].ops[2].operands;
  operands[1].offset = operands[0].offset;
  VerifyResult result = verifyAgainst(table, inPlace);
  for (const Fault &fault : result.faults)
    EXPECT_EQ(fault.proof, Proof::Value) << fault.message;
  // But not half in place.
  inPlace = table;
  Op &reduce = inPlace.templates[kOptimizer].ops[2];
  reduce.operands[0] = {4, 0, ElementType::F32, {2}, Effect::Read};
  reduce.operands[1] = {4, 4, ElementType::F32, {2}, Effect::Write};
  result = verifyAgainst(table, inPlace);
  EXPECT_TRUE(find(result, Proof::Race, kOptimizer, 2)) << messages(result);
}

TEST(Race, CountsThatNoHostReadWrote) {
  Table table = smallJob(), broken = table;
  // The host frame of one call is where the experts' rows go: the combine
  // takes these for counts.
  Call &call = broken.programs[0].calls[callOf(broken, 0, kForward)];
  call.bases[6] = call.bases[5] + 64;
  VerifyResult result = verifyAgainst(table, broken);
  const Fault *fault = find(result, Proof::Race, kForward, 7, kForward, 6);
  ASSERT_TRUE(fault) << messages(result);
  EXPECT_NE(fault->message.find("is not a host read"), std::string::npos)
      << fault->message;
  // Counts that come before their host read.
  broken = table;
  std::swap(broken.templates[kForward].ops[4],
            broken.templates[kForward].ops[5]);
  broken.templates[kForward].ops[6].waits = {{false, 4}};
  result = verifyAgainst(table, broken);
  fault = find(result, Proof::Race, kForward, 4);
  ASSERT_TRUE(fault) << messages(result);
  EXPECT_NE(fault->message.find("no host read wrote"), std::string::npos)
      << fault->message;
}

// A host read orders everything issued later after its own stream.
TEST(Race, HostReadsOrder) {
  Table table;
  table.streams = {{"a", 0}, {"b", 0}};
  table.kernels.resize(2);
  table.kernels[0].name = "write";
  table.kernels[0].effects = {Effect::Write};
  table.kernels[1].name = "read";
  table.kernels[1].effects = {Effect::Read};
  Template t;
  t.name = "t";
  t.frames = {{"x", FrameKind::Temporary, 4}, {"host", FrameKind::Host, 4}};
  Op write, read, hostRead;
  write.location = "write";
  write.operands = {{0, 0, ElementType::I32, {1}, Effect::Write}};
  hostRead.kind = OpKind::HostRead;
  hostRead.operands = {{0, 0, ElementType::I32, {1}, Effect::Read},
                       {1, 0, ElementType::I32, {1}, Effect::Write}};
  read.kernel = 1;
  read.stream = 1;
  read.operands = {{0, 0, ElementType::I32, {1}, Effect::Read}};
  t.ops = {write, hostRead, read};
  table.templates = {t};
  Program p;
  p.calls = {{0, {0, 4}, {}, -1, -1, -1, -1}};
  p.arenaBytes = 8;
  table.programs = {p};
  ASSERT_EQ(checkTable(table), std::vector<std::string>());
  VerifyOptions noValue;
  noValue.value = false;
  EXPECT_TRUE(verify(table, {}, noValue).ok());
  // Without the stop of the host, two streams race: read after write, and
  // write after read and after write in the next call.
  table.templates[0].ops.erase(table.templates[0].ops.begin() + 1);
  Call again = table.programs[0].calls[0];
  table.programs[0].calls.push_back(again);
  VerifyResult result = verify(table, {}, noValue);
  ASSERT_EQ(result.faults.size(), 2u) << messages(result);
  EXPECT_EQ(result.faults[0].count, 2);
  table.templates[0].ops[1] = table.templates[0].ops[0];
  table.templates[0].ops[1].stream = 1;
  result = verify(table, {}, noValue);
  ASSERT_EQ(result.faults.size(), 2u) << messages(result);
  EXPECT_TRUE(find(result, Proof::Race, 0, 1, 0, 0));
}

} // namespace
