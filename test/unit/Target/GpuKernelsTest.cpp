//===- GpuKernelsTest.cpp - Kernels mapped to a GPU against the library ---===//
//
// Not on a GPU: see EmulatedGpu.h.
//
//===----------------------------------------------------------------------===//

#include "../Tolerances.h"
#include "EmulatedGpu.h"
#include "KernelCases.h"

using namespace moert;
using namespace moert::test;

namespace {

/// Bits, or values where sums have another order; a NaN is a NaN.
void expectEqual(const Tensor &found, const Tensor &expected, bool exact) {
  if (exact) {
    EXPECT_EQ(found.bytes, expected.bytes);
    return;
  }
  double largest = 0;
  for (int64_t i = 0; i < expected.size(); ++i)
    if (std::isfinite(expected.get(i)))
      largest = std::max(largest, std::abs(expected.get(i)));
  double tolerance =
      largest * (expected.type == BF16 ? moe_test::kDeviceOrderBf16
                                       : moe_test::kDeviceOrder);
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected.get(i)))
      EXPECT_TRUE(std::isnan(found.get(i))) << i;
    else
      ASSERT_NEAR(found.get(i), expected.get(i), tolerance) << i;
  }
}

/// Expects what the library computes, in the same bits for every grid and
/// order of threads. `exact`: and in the library's bits.
void expectLibrary(std::vector<Case> cases, bool exact) {
  KernelModule module;
  for (Case &c : cases)
    module.add(prepare(c), c.rows);
  ASSERT_TRUE(module.compile());
  EmulatedGpu gpu;
  ASSERT_TRUE(gpu.compile(module.get()));
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].op + " " + std::to_string(i));
    const Case library = byLibrary(cases[i]);
    std::optional<Case> first;
    for (unsigned grid : {1, 3, 4}) {
      SCOPED_TRACE("grid " + std::to_string(grid));
      Case device = cases[i];
      ASSERT_EQ(gpu.launch("k" + std::to_string(i),
                           prepare(device).pointers.data(), grid,
                           /*seed=*/17 * i + grid),
                "");
      for (size_t t = 0; t < device.reads.size(); ++t)
        EXPECT_EQ(device.reads[t].bytes, cases[i].reads[t].bytes) << t;
      for (size_t t = 0; t < device.accumulators.size(); ++t)
        expectEqual(device.accumulators[t], library.accumulators[t], exact);
      for (size_t t = 0; t < device.writes.size(); ++t)
        expectEqual(device.writes[t], library.writes[t], exact);
      if (!first)
        first = device;
      for (size_t t = 0; t < device.accumulators.size(); ++t)
        EXPECT_EQ(device.accumulators[t].bytes, first->accumulators[t].bytes);
      for (size_t t = 0; t < device.writes.size(); ++t)
        EXPECT_EQ(device.writes[t].bytes, first->writes[t].bytes);
    }
  }
}

class GpuKernels : public KernelCases {};
INSTANTIATE_TEST_SUITE_P(Types, GpuKernels, testing::Values(F32, BF16));

/// Groups of 1 to 32 threads with vectors of each length, rows that end within
/// a group's step; the block, also with a rest and in a loop.
const int64_t kWidths[] = {1, 2, 7, 8, 16, 40, 96, 300, 768, 2056};
const int64_t kLong = 9000;

TEST_P(GpuKernels, Add) {
  std::vector<Case> cases;
  for (Shape shape : {Shape{3}, {5, 7}, {4, 3, 16}, {9, 1024}})
    cases.push_back({"add", {}, {in(shape), in(shape)}, {}, {out(shape)}});
  expectLibrary(cases, /*exact=*/true);
}

TEST_P(GpuKernels, RmsNorm) {
  std::vector<Case> cases;
  Attributes eps = {{"eps", 1e-3}};
  auto add = [&](int64_t rows, int64_t runs, int64_t d) {
    Shape shape = {rows, runs * d};
    cases.push_back({"rms_norm", eps, {in(shape), in({d})}, {}, {out(shape)}});
    cases.push_back({"rms_norm_dgrad",
                     eps,
                     {in(shape), in({d}), in(shape)},
                     {},
                     {out(shape)}});
  };
  for (int64_t d : kWidths)
    add(5, 3, d);
  add(2, 1, kLong);
  expectLibrary(cases, /*exact=*/false);
}

/// Few rows, and more than there are chunks.
TEST_P(GpuKernels, SumsOverRows) {
  std::vector<Case> cases;
  Attributes eps = {{"eps", 1e-3}};
  auto add = [&](int64_t rows, int64_t d) {
    Shape shape = {rows, d};
    cases.push_back({"rms_norm_wgrad",
                     eps,
                     {in(shape), in(shape)},
                     {random(F32, {d}, 9)},
                     {}});
  };
  for (int64_t d : kWidths)
    add(21, d);
  add(1, 16);
  add(5000, 8);
  add(300, 2048);
  expectLibrary(cases, /*exact=*/false);
}

TEST_P(GpuKernels, Swiglu) {
  expectLibrary(swiglu(kWidths), /*exact=*/true);
  expectLibrary(swigluGrad(kWidths), /*exact=*/false);
}

TEST_P(GpuKernels, Permutation) {
  expectLibrary(permutation(kWidths), /*exact=*/true);
}

TEST_P(GpuKernels, CrossEntropy) {
  std::vector<Case> cases;
  auto add = [&](int64_t tokens, int64_t vocabulary, int label) {
    Tensor logits = in({tokens, vocabulary}, 4.0);
    std::vector<int> labels(tokens, label);
    labels.back() = vocabulary - 1;
    Attributes scale = {{"scale", 0.3}};
    cases.push_back({"cross_entropy",
                     scale,
                     {logits, integers(labels)},
                     {},
                     {Tensor(F32, {1})}});
    cases.push_back({"cross_entropy_grad",
                     scale,
                     {logits, integers(labels)},
                     {},
                     {out(logits.shape)}});
  };
  for (int64_t vocabulary : kWidths)
    add(3, vocabulary, vocabulary / 2);
  add(2, kLong, 7);
  add(5000, 8, 3);
  // Outside of the vocabulary: NaN.
  add(3, 40, 40);
  add(3, 40, -1);
  expectLibrary(cases, /*exact=*/false);
}

/// The gradient may take the place of the logits: the label's logit is read by
/// all threads before one of them overwrites it.
TEST_P(GpuKernels, GradientInPlace) {
  std::vector<Case> cases;
  for (int64_t vocabulary : {40, 300, 9000}) {
    Tensor logits = in({3, vocabulary}, 4.0);
    cases.push_back({"cross_entropy_grad",
                     {{"scale", 0.3}},
                     {logits, integers({0, int(vocabulary) - 1, 7})},
                     {},
                     {out(logits.shape)}});
  }
  KernelModule module;
  for (Case &c : cases)
    module.add(prepare(c), c.rows);
  ASSERT_TRUE(module.compile());
  EmulatedGpu gpu;
  ASSERT_TRUE(gpu.compile(module.get()));
  for (size_t i = 0; i < cases.size(); ++i)
    for (unsigned seed = 0; seed < 4; ++seed) {
      std::string name = "k" + std::to_string(i);
      Case apart = cases[i], inPlace = cases[i];
      ASSERT_EQ(gpu.launch(name, prepare(apart).pointers.data(), 2, seed), "");
      Launched launched = prepare(inPlace);
      launched.pointers[2] = launched.pointers[0];
      ASSERT_EQ(gpu.launch(name, launched.pointers.data(), 2, seed), "");
      EXPECT_EQ(inPlace.reads[0].bytes, apart.writes[0].bytes);
    }
}

} // namespace
