//===- HostKernelsTest.cpp - Generated kernels against the library --------===//
//
// The library's kernels are tested against doubles; generated ones have their
// bits: the same polynomial, lanes and order of sums.
//
//===----------------------------------------------------------------------===//

#include "KernelCases.h"

using namespace mlir::moe;
using namespace moert;
using namespace moert::test;

namespace {

/// Expects that generated code does what the library does, and no more.
void expectLibraryBits(std::vector<Case> cases) {
  KernelModule module;
  for (Case &c : cases)
    module.add(prepare(c), c.rows);
  ASSERT_TRUE(module.compile());
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].op + " " + std::to_string(i));
    const Case library = byLibrary(cases[i]);
    Case generated = cases[i];
    module.function(i)(prepare(generated).pointers.data());
    for (size_t t = 0; t < cases[i].reads.size(); ++t)
      EXPECT_EQ(generated.reads[t].bytes, cases[i].reads[t].bytes) << t;
    for (size_t t = 0; t < cases[i].accumulators.size(); ++t)
      EXPECT_EQ(generated.accumulators[t].bytes, library.accumulators[t].bytes);
    for (size_t t = 0; t < cases[i].writes.size(); ++t)
      EXPECT_EQ(generated.writes[t].bytes, library.writes[t].bytes) << t;
  }
}

class HostKernels : public KernelCases {};
INSTANTIATE_TEST_SUITE_P(Types, HostKernels, testing::Values(F32, BF16));

/// Less than a vector, one with each length of rest, many.
const int64_t kWidths[] = {1, 2, 7, 8, 16, 31, 40, 300};

TEST_P(HostKernels, Add) {
  std::vector<Case> cases;
  for (Shape shape : {Shape{3}, {5, 7}, {4, 3, 16}})
    cases.push_back({"add", {}, {in(shape), in(shape)}, {}, {out(shape)}});
  expectLibraryBits(cases);
}

TEST_P(HostKernels, RmsNorm) {
  std::vector<Case> cases;
  for (int64_t runs : {1, 3})
    for (int64_t d : kWidths) {
      Attributes eps = {{"eps", 1e-3}};
      Shape shape = {5, runs * d};
      cases.push_back(
          {"rms_norm", eps, {in(shape), in({d})}, {}, {out(shape)}});
      cases.push_back({"rms_norm_dgrad",
                       eps,
                       {in(shape), in({d}), in(shape)},
                       {},
                       {out(shape)}});
      cases.push_back({"rms_norm_wgrad",
                       eps,
                       {in(shape), in(shape)},
                       {random(F32, {d}, 9)},
                       {}});
    }
  expectLibraryBits(cases);
}

TEST_P(HostKernels, Swiglu) {
  expectLibraryBits(swiglu(kWidths));
  expectLibraryBits(swigluGrad(kWidths));
}

TEST_P(HostKernels, Permutation) { expectLibraryBits(permutation(kWidths)); }

TEST_P(HostKernels, CrossEntropy) {
  std::vector<Case> cases;
  for (int64_t vocabulary : kWidths) {
    Tensor logits = in({3, vocabulary}, 4.0);
    Tensor labels = integers({0, int(vocabulary) - 1, int(vocabulary) / 2});
    Attributes scale = {{"scale", 0.3}};
    cases.push_back(
        {"cross_entropy", scale, {logits, labels}, {}, {Tensor(F32, {1})}});
    cases.push_back({"cross_entropy_grad",
                     scale,
                     {logits, labels},
                     {},
                     {out(logits.shape)}});
  }
  expectLibraryBits(cases);
}

TEST_P(HostKernels, LabelOutsideOfTheVocabularyIsNaN) {
  Case loss{"cross_entropy",
            {{"scale", 1.0}},
            {in({2, 20}), integers({3, 20})},
            {},
            {Tensor(F32, {1})}};
  Case grad{"cross_entropy_grad",
            {{"scale", 1.0}},
            {in({2, 20}), integers({3, -1})},
            {},
            {out({2, 20})}};
  KernelModule module;
  module.add(prepare(loss), -1);
  module.add(prepare(grad), -1);
  ASSERT_TRUE(module.compile());
  module.function(0)(prepare(loss).pointers.data());
  module.function(1)(prepare(grad).pointers.data());
  EXPECT_TRUE(std::isnan(loss.writes[0].get(0)));
  for (int64_t i = 0; i < 40; ++i)
    EXPECT_EQ(std::isnan(grad.writes[0].get(i)), i >= 20) << i;
}

/// An element's bits do not depend on its column: not on whether it is in the
/// body of a row or in its rest.
TEST_P(HostKernels, ColumnsHaveEqualBits) {
  int64_t f = 31, capacity = 64;
  Case c{"swiglu",
         {},
         {out({capacity, 2 * f}), in({capacity}), integers({int(capacity)})},
         {},
         {out({capacity, f})},
         2};
  Tensor values = in({capacity, 2}, 5.0);
  for (int64_t i = 0; i < capacity * 2 * f; ++i)
    c.reads[0].set(i, values.get(i / f));
  KernelModule module;
  module.add(prepare(c), 2);
  ASSERT_TRUE(module.compile());
  module.function(0)(prepare(c).pointers.data());
  for (int64_t i = 0; i < capacity * f; ++i)
    ASSERT_EQ(c.writes[0].get(i), c.writes[0].get(i / f * f)) << i;
}

/// A row's bits do not depend on the other rows, nor on how many there are.
TEST_P(HostKernels, RowsAreIndependent) {
  int64_t rows = 6, f = 23;
  auto caseOf = [&](const Tensor &x, const Tensor &p, const Tensor &da) {
    int64_t n = x.shape[0];
    return Case{"swiglu_grad",
                {},
                {x, p, da, integers({int(n)})},
                {},
                {out({n, 2 * f}), out({n})},
                3};
  };
  Tensor x = in({rows, 2 * f}), p = in({rows}), da = in({rows, f});
  std::vector<Case> cases = {caseOf(x, p, da)};
  for (int64_t t = 0; t < rows; ++t)
    cases.push_back(
        caseOf(x.rows(t, t + 1), p.rows(t, t + 1), da.rows(t, t + 1)));
  KernelModule module;
  for (Case &c : cases)
    module.add(prepare(c), 3);
  ASSERT_TRUE(module.compile());
  for (size_t i = 0; i < cases.size(); ++i)
    module.function(i)(prepare(cases[i]).pointers.data());
  for (int64_t t = 0; t < rows; ++t)
    for (int w : {0, 1})
      EXPECT_EQ(cases[t + 1].writes[w].bytes,
                cases[0].writes[w].rows(t, t + 1).bytes);
}

} // namespace
