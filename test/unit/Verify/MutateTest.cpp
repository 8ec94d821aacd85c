//===- MutateTest.cpp - Proofs against planted faults ---------------------===//

#include "moe/Verify/Mutate.h"
#include "Oracle.h"
#include "TestVerify.h"

#include <algorithm>
#include <set>

using namespace moert;
using namespace moert::test;

namespace {

constexpr int kOrders = 20;

TEST(Mutate, SameSeedSameChange) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Table a = smallJob(), b = a;
    Mutation first = mutate(a, seed);
    EXPECT_EQ(first.description, mutate(b, seed).description);
    EXPECT_EQ(toJson(a), toJson(b));
    EXPECT_NE(toJson(a), toJson(smallJob())) << first.description;
  }
}

TEST(Mutate, NothingToChange) {
  Table table;
  EXPECT_EQ(mutate(table, 1).kind, "");
}

TEST(Oracle, AllOrdersOfTheJobAreEqual) {
  Table table = smallJob();
  std::vector<std::string> expected = runInSomeOrder(table, 0);
  EXPECT_GT(expected.size(), 20u);
  for (uint64_t seed = 1; seed <= kOrders; ++seed)
    EXPECT_EQ(runInSomeOrder(table, seed), expected);
}

// The oracle itself sees what a dropped event does.
TEST(Oracle, SeesRacesAndDeadlocks) {
  Table table = smallJob(), broken = table;
  broken.templates[kForward].ops[6].waits.clear();
  std::set<std::vector<std::string>> results;
  for (uint64_t seed = 0; seed < kOrders; ++seed)
    results.insert(runInSomeOrder(broken, seed));
  EXPECT_GT(results.size(), 1u);
  broken = table;
  broken.programs[1].calls.pop_back();
  EXPECT_EQ(runInSomeOrder(broken, 0), std::vector<std::string>{"deadlock"});
}

// What verify accepts, computes the same in every order.
TEST(Mutate, RejectedOrEqual) {
  Table table = smallJob({2, 1, 2, 2, 64});
  std::vector<std::string> expected = runInSomeOrder(table, 0);
  for (const Program &program : table.programs)
    table.memoryLimit = std::max(table.memoryLimit, program.arenaBytes + 64);
  VerifyOptions options;
  std::vector<ExpectedValue> values = valuesAfterStep(table, &options.known);
  int illFormed = 0, accepted = 0, rejected = 0, named = 0, conservative = 0;
  std::map<std::string, int> byProof, kinds;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Table broken = table;
    Mutation mutation = mutate(broken, seed);
    ++kinds[mutation.kind];
    if (!checkTable(broken).empty()) {
      ++illFormed;
      continue;
    }
    VerifyResult result = verify(broken, values, options);
    bool equal = true;
    for (uint64_t order = 0; order < kOrders && equal; ++order)
      equal = runInSomeOrder(broken, order) == expected;
    if (result.ok()) {
      ++accepted;
      EXPECT_TRUE(equal) << "seed " << seed << ": " << mutation.description;
      continue;
    }
    ++rejected;
    conservative += equal;
    std::set<std::string> proofs;
    bool names = false;
    for (const Fault &f : result.faults) {
      proofs.insert(proofName(f.proof));
      names |= f.tmpl == mutation.tmpl || f.otherTmpl == mutation.tmpl;
    }
    named += names;
    for (const std::string &proof : proofs)
      ++byProof[proof];
  }
  std::printf("ill-formed %d, rejected %d (naming the template %d; equal in "
              "the oracle's orders %d), accepted %d\n",
              illFormed, rejected, named, conservative, accepted);
  for (auto &[proof, count] : byProof)
    std::printf("  %s rejects %d\n", proof.c_str(), count);
  for (auto &[kind, count] : kinds)
    std::printf("  %s %d\n", kind.c_str(), count);
  EXPECT_GE(rejected, 500);
  // Where something is missing, those who miss it are named instead.
  EXPECT_GT(named * 3, rejected * 2);
  EXPECT_GT(accepted, 0);
  for (const char *proof : {"race", "agreement", "memory", "capture", "value"})
    EXPECT_GT(byProof[proof], 0) << proof;
}

} // namespace
