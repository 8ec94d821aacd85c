//===- TestVerify.h - What the tests of proofs share ----------------------===//

#ifndef MOE_TEST_UNIT_VERIFY_TESTVERIFY_H
#define MOE_TEST_UNIT_VERIFY_TESTVERIFY_H

#include "SmallJob.h"
#include "moe/Verify/ValueMap.h"

#include <gtest/gtest.h>

namespace moert::test {

/// Verifies a well-formed table against the values of `reference`.
inline VerifyResult verifyAgainst(const Table &reference, const Table &table) {
  EXPECT_EQ(checkTable(table), std::vector<std::string>());
  VerifyOptions options;
  std::vector<ExpectedValue> expected =
      valuesAfterStep(reference, &options.known);
  return verify(table, expected, options);
}

inline std::string messages(const VerifyResult &result) {
  std::string text;
  for (const Fault &fault : result.faults)
    text += fault.message + '\n';
  return text;
}

/// The fault of a proof that names this op and the other one (-1: any), in
/// either order; null if there is none.
inline const Fault *find(const VerifyResult &result, Proof proof, int64_t tmpl,
                         int64_t op, int64_t otherTmpl = -1,
                         int64_t otherOp = -1) {
  for (const Fault &f : result.faults) {
    if (f.proof != proof)
      continue;
    bool other =
        otherOp < 0 || (f.otherTmpl == otherTmpl && f.otherOp == otherOp);
    if (f.tmpl == tmpl && f.op == op && other)
      return &f;
    if (otherOp >= 0 && f.otherTmpl == tmpl && f.otherOp == op &&
        f.tmpl == otherTmpl && f.op == otherOp)
      return &f;
  }
  return nullptr;
}

} // namespace moert::test

#endif // MOE_TEST_UNIT_VERIFY_TESTVERIFY_H
