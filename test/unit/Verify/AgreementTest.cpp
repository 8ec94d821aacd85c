//===- AgreementTest.cpp --------------------------------------------------===//

#include "TestVerify.h"

using namespace moert;
using namespace moert::test;

namespace {

// The optimizer of one stage reduces the norm before the loss.
TEST(Agreement, CollectivesInAnotherOrder) {
  Table table = smallJob(), broken = table;
  int64_t call = callOf(broken, 1, kOptimizer);
  uint32_t copy = specialise(broken, 1, call);
  std::swap(broken.templates[copy].ops[2], broken.templates[copy].ops[3]);
  VerifyResult result = verifyAgainst(table, broken);
  const Fault *fault = find(result, Proof::Agreement, kOptimizer, 2, copy, 2);
  ASSERT_TRUE(fault) << messages(result);
  EXPECT_NE(fault->message.find("optimizer/loss"), std::string::npos);
  EXPECT_NE(fault->message.find("optimizer/norm"), std::string::npos);
}

TEST(Agreement, OtherShape) {
  Table table = smallJob(), broken = table;
  int64_t call = callOf(broken, 1, kOptimizer);
  uint32_t copy = specialise(broken, 1, call);
  for (Operand &operand : broken.templates[copy].ops[2].operands)
    operand.shape = {1, 1};
  VerifyResult result = verifyAgainst(table, broken);
  EXPECT_TRUE(find(result, Proof::Agreement, kOptimizer, 2, copy, 2))
      << messages(result);
}

TEST(Agreement, MissingCollective) {
  Table table = smallJob(), broken = table;
  int64_t call = callOf(broken, 1, kOptimizer);
  uint32_t copy = specialise(broken, 1, call);
  // The last stage takes the overflow flag as it is.
  Op &op = broken.templates[copy].ops[4];
  op.communicator = 0;
  VerifyResult result = verifyAgainst(table, broken);
  EXPECT_TRUE(find(result, Proof::Agreement, kOptimizer, 4))
      << messages(result);
}

TEST(Agreement, SendWithoutReceive) {
  Table table = smallJob(), broken = table;
  std::vector<Call> &calls = broken.programs[0].calls;
  calls.push_back(Call(calls[callOf(broken, 0, kSendForward)]));
  VerifyResult result = verifyAgainst(table, broken);
  EXPECT_TRUE(find(result, Proof::Agreement, kSendForward, 0))
      << messages(result);
}

TEST(Agreement, SendOfOtherSize) {
  Table table = smallJob(), broken = table;
  int64_t call = callOf(broken, 0, kSendForward);
  uint32_t copy = specialise(broken, 0, call);
  broken.templates[copy].ops[0].operands[0].shape = {2, 4};
  VerifyResult result = verifyAgainst(table, broken);
  EXPECT_TRUE(find(result, Proof::Agreement, copy, 0, kReceiveForward, 0))
      << messages(result);
}

// Each stage receives before it sends: a cycle.
TEST(Agreement, Deadlock) {
  Table table = smallJob({2, 1, 2, 2, 0}), broken = table;
  // The first stage receives the gradient of micro-batch 0 before it sends the
  // activation of micro-batch 1, on one stream; the other stage sends the
  // gradient after it has received both.
  std::vector<Call> &calls = broken.programs[0].calls;
  int64_t send = callOf(broken, 0, kSendForward, 1);
  int64_t receive = callOf(broken, 0, kReceiveBackward);
  ASSERT_EQ(receive, send + 1);
  std::swap(calls[send], calls[receive]);
  for (Call &call : calls)
    for (EventRef &event : call.imports)
      event.call = event.call == send      ? receive
                   : event.call == receive ? send
                                           : event.call;
  VerifyResult result = verifyAgainst(table, broken);
  ASSERT_EQ(result.faults.size(), 1u) << messages(result);
  EXPECT_TRUE(
      find(result, Proof::Agreement, kReceiveBackward, 0, kReceiveForward, 0));
  const std::string &text = result.faults[0].message;
  EXPECT_NE(text.find("'receive backward' on stream p2p of program 'stage0', "
                      "ranks 0 to 1 waits for 'send backward'"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("'receive forward' on stream p2p of program 'stage1', "
                      "ranks 2 to 3 waits for 'send forward'"),
            std::string::npos)
      << text;
}

// A host read of what only a later op of the same host can provide.
TEST(Agreement, HostWaitsForPeer) {
  Table table = smallJob({2, 1, 1, 2, 0}), broken = table;
  // The last stage reads a count before it receives; the first one sends only
  // after the gradient has come back.
  std::vector<Call> &calls = broken.programs[0].calls;
  int64_t send = callOf(broken, 0, kSendForward);
  int64_t back = callOf(broken, 0, kBackward);
  ASSERT_EQ(back, send + 2);
  std::rotate(calls.begin() + send, calls.begin() + send + 1,
              calls.begin() + back + 1);
  for (Call &call : calls)
    for (EventRef &event : call.imports)
      if (event.call > send && event.call <= back)
        --event.call;
  VerifyResult result = verifyAgainst(table, broken);
  EXPECT_FALSE(result.ok());
  EXPECT_NE(messages(result).find("the job stops"), std::string::npos)
      << messages(result);
}

TEST(Agreement, UnorderedCommunicatorsThatShareRanks) {
  Table table = smallJob(), broken = table;
  // The sum of losses needs nothing of the reduce-scatter; only their common
  // stream orders them.
  broken.streams.push_back({"other", 0});
  broken.templates[kOptimizer].ops[2].stream = 3;
  VerifyResult result = verifyAgainst(table, broken);
  EXPECT_TRUE(find(result, Proof::Agreement, kOptimizer, 2, kOptimizer, 0))
      << messages(result);
}

TEST(Agreement, CountsOfAnotherExchange) {
  Table table = smallJob(), broken = table;
  // The second host read takes the sent counts once more.
  broken.templates[kForward].ops[4].operands[0].offset = 0;
  VerifyResult result = verifyAgainst(table, broken);
  const Fault *fault = find(result, Proof::Agreement, kForward, 5, kForward, 4);
  ASSERT_TRUE(fault) << messages(result);
  EXPECT_NE(fault->message.find("one exchange"), std::string::npos);

  // Both sides of the counts of another layer: values stay a pair, and only
  // proof value can tell.
  broken = table;
  Call &first = broken.programs[0].calls[callOf(broken, 0, kBackward, 0)];
  const Call &second =
      broken.programs[0].calls[callOf(broken, 0, kBackward, 1)];
  first.bases[2] = second.bases[2];
  result = verifyAgainst(table, broken);
  for (const Fault &f : result.faults)
    EXPECT_EQ(f.proof, Proof::Value) << f.message;
  EXPECT_TRUE(find(result, Proof::Value, kBackward, 2)) << messages(result);
}

} // namespace
