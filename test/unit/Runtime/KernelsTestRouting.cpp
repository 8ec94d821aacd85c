//===- KernelsTestRouting.cpp - Router and permutation kernels ------------===//

#include "KernelsTestSupport.h"

#include <numeric>

using namespace moert;
using namespace moert::test;

namespace {

class RoutingKernels : public testing::TestWithParam<ElementType> {
protected:
  ElementType type = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Types, RoutingKernels, testing::Values(F32, BF16));

struct Route {
  Tensor probs, indices;
  Route(Tensor logits, int64_t k, bool normalize)
      : probs(logits.type, {logits.shape[0], k}),
        indices(I32, {logits.shape[0], k}) {
    run("route", {{"normalize", double(normalize)}}, {&logits}, {},
        {&probs, &indices}, Order::Backward);
  }
};

/// Probabilities of the experts in `indices`.
Doubles probabilities(const Doubles &logits, int64_t experts,
                      const Tensor &indices, bool normalize) {
  int64_t k = indices.shape[1];
  Doubles p(indices.size());
  for (int64_t t = 0; t < indices.shape[0]; ++t) {
    double total = 0, selected = 0;
    for (int64_t e = 0; e < experts; ++e)
      total += std::exp(logits[t * experts + e]);
    for (int64_t s = t * k; s < (t + 1) * k; ++s) {
      p[s] = std::exp(logits[t * experts + int64_t(indices.get(s))]) / total;
      selected += p[s];
    }
    for (int64_t s = t * k; normalize && s < (t + 1) * k; ++s)
      p[s] /= selected;
  }
  return p;
}

// The example of the reference notes: 6 tokens, 4 experts, 2 of them chosen.
TEST(Kernels, RouteMatchesGoldenExample) {
  Tensor logits(F32, {6, 4},
                {1,  .5,  -.5, 2,  .2, .1, 0,  -.1, -1, 3,  0,  1,
                 .5, 1.5, 1,   -2, 2,  -1, .3, .7,  0,  .4, .8, 1.2});
  Route post(logits, 2, true), pre(logits, 2, false);
  Doubles experts = {3, 0, 0, 1, 1, 3, 1, 2, 0, 3, 3, 2};
  EXPECT_EQ(post.indices.values(), experts);
  EXPECT_EQ(pre.indices.values(), experts);
  expectNear(post.probs,
             {.731059, .268941, .524979, .475021, .880797, .119203, .622459,
              .377541, .785835, .214165, .598688, .401312},
             5e-7);
  expectNear(pre.probs,
             {.597695, .219880, .288651, .261183, .830953, .112457, .498851,
              .302568, .664451, .181084, .413079, .276895},
             5e-7);
}

TEST_P(RoutingKernels, RouteChoosesTheLargestAndTheLowestOfEquals) {
  Tensor logits(type, {3, 5},
                {1, 2, 2, 0, 2, 7, 7, 7, 7, 7, -3, -2, -1, -2, -1});
  Route r(logits, 3, true);
  EXPECT_EQ(r.indices.values(), (Doubles{1, 2, 4, 0, 1, 2, 2, 4, 1}));
  EXPECT_EQ(Route(logits, 5, false).indices.values(),
            (Doubles{1, 2, 4, 0, 3, 0, 1, 2, 3, 4, 2, 4, 1, 3, 0}));
}

TEST_P(RoutingKernels, RouteMatchesSortAndDoubles) {
  int64_t tokens = 900, experts = 61, k = 7;
  Tensor logits = random(type, {tokens, experts}, 1, 2.0);
  for (bool normalize : {false, true}) {
    Route r(logits, k, normalize);
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<int64_t> order(experts);
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](auto a, auto b) {
        double x = logits.get(t * experts + a), y = logits.get(t * experts + b);
        return x != y ? x > y : a < b;
      });
      for (int64_t s = 0; s < k; ++s)
        ASSERT_EQ(r.indices.get(t * k + s), order[s]);
    }
    expectNear(r.probs,
               probabilities(logits.values(), experts, r.indices, normalize),
               1e-6);
    for (int64_t t : {int64_t(0), int64_t(450), tokens - 1}) {
      Route one(logits.rows(t, t + 1), k, normalize);
      EXPECT_EQ(one.probs.bytes, r.probs.rows(t, t + 1).bytes);
      EXPECT_EQ(one.indices.bytes, r.indices.rows(t, t + 1).bytes);
    }
  }
}

TEST_P(RoutingKernels, RouteOfNaNsStillNamesExperts) {
  Tensor logits(type, {3, 4},
                {NAN, NAN, NAN, NAN, NAN, 1, NAN, 2, -INFINITY, -INFINITY, NAN,
                 INFINITY});
  Route r(logits, 3, true);
  for (int64_t t = 0; t < 3; ++t) {
    std::vector<bool> seen(4);
    for (int64_t s = 0; s < 3; ++s) {
      int64_t e = int64_t(r.indices.get(t * 3 + s));
      ASSERT_TRUE(e >= 0 && e < 4 && !seen[e]);
      seen[e] = true;
    }
    EXPECT_TRUE(std::isnan(r.probs.get(t * 3)));
  }
  EXPECT_EQ(r.indices.get(3), 3);
  EXPECT_EQ(r.indices.get(4), 1);
}

TEST_P(RoutingKernels, RouteGrad) {
  int64_t tokens = 5, experts = 9, k = 3;
  Tensor logits = random(type, {tokens, experts}, 1);
  Tensor dprobs = random(type, {tokens, k}, 2);
  for (bool normalize : {false, true}) {
    Route r(logits, k, normalize);
    Tensor dlogits(type, logits.shape);
    run("route_grad", {{"normalize", double(normalize)}},
        {&logits, &r.probs, &r.indices, &dprobs}, {}, {&dlogits});
    expectNear(dlogits,
               differences(
                   [&](const Doubles &z) {
                     return dot(
                         dprobs.values(),
                         probabilities(z, experts, r.indices, normalize));
                   },
                   logits.values()),
               1e-6, normalize ? "normalized" : "plain");
  }
}

//===----------------------------------------------------------------------===//
// Permutation
//===----------------------------------------------------------------------===//

struct Permutation {
  Tensor map, counts;
  Permutation(Tensor indices, int64_t experts)
      : map(I32, indices.shape), counts(I32, {experts}) {
    run("permutation", {}, {&indices}, {}, {&map, &counts});
  }
};

TEST(Kernels, PermutationIsExpertMajorTokenAscending) {
  Tensor indices(I32, {4, 2}, {2, 0, 0, 3, 3, 2, 0, 2});
  Permutation p(indices, 5);
  EXPECT_EQ(p.counts.values(), (Doubles{3, 0, 3, 2, 0}));
  EXPECT_EQ(p.map.values(), (Doubles{3, 0, 1, 6, 7, 4, 2, 5}));
  Tensor wild(I32, {2, 2}, {-7, 2000000000, 1, 0}); // Spoiled memory.
  EXPECT_EQ(Permutation(wild, 3).map.values(), (Doubles{0, 3, 2, 1}));
}

TEST_P(RoutingKernels, PermuteAndBack) {
  int64_t tokens = 300, k = 3, w = 130, experts = 7;
  Tensor logits = random(F32, {tokens, experts}, 1);
  Tensor map = Permutation(Route(logits, k, true).indices, experts).map;
  Tensor x = random(type, {tokens, w}, 2), y(type, {tokens * k, w});
  Tensor probs = random(type, {tokens, k}, 3), p(type, {tokens * k});
  run("permute", {}, {&x, &map}, {}, {&y}, Order::Shuffled);
  run("permute_probs", {}, {&probs, &map}, {}, {&p});
  for (int64_t i = 0; i < tokens * k; ++i) {
    ASSERT_EQ(p.get(int64_t(map.get(i))), probs.get(i));
    for (int64_t j = 0; j < w; ++j)
      ASSERT_EQ(y.get(int64_t(map.get(i)) * w + j), x.get(i / k * w + j));
  }
  Tensor probsBack(type, probs.shape), back(type, x.shape);
  run("unpermute_probs", {}, {&p, &map}, {}, {&probsBack});
  EXPECT_EQ(probsBack.bytes, probs.bytes);
  Tensor rows = random(type, y.shape, 4), expected(type, x.shape);
  run("unpermute", {}, {&rows, &map}, {}, {&back}, Order::Backward);
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t j = 0; j < w; ++j) {
      float total = 0;
      for (int64_t s = 0; s < k; ++s)
        total += float(rows.get(int64_t(map.get(t * k + s)) * w + j));
      expected.set(t * w + j, total);
    }
  EXPECT_EQ(back.bytes, expected.bytes);
}

TEST_P(RoutingKernels, PermuteStaysInBounds) {
  Tensor map(I32, {2, 2}, {0, -1, 4, 2000000000}), x = random(type, {2, 3}, 1);
  Tensor y(type, {4, 3}), back(type, x.shape);
  run("permute", {}, {&x, &map}, {}, {&y});
  EXPECT_EQ(y.rows(0, 1).bytes, x.rows(0, 1).bytes);
  EXPECT_TRUE(y.untouched(3) && y.untouched(11));
  Tensor rows = random(type, y.shape, 2);
  run("unpermute", {}, {&rows, &map}, {}, {&back});
  EXPECT_EQ(back.rows(0, 1).bytes, rows.rows(0, 1).bytes);
  EXPECT_EQ(back.get(3), 0.0);
}

//===----------------------------------------------------------------------===//
// Received rows
//===----------------------------------------------------------------------===//

TEST(Kernels, LocalRowsSumsOverRanks) {
  Tensor recv = integers({1, 2, 3, 40, 50, 60}), rows(I32, {3});
  run("local_rows", {{"ranks", 2}}, {&recv}, {}, {&rows});
  EXPECT_EQ(rows.values(), (Doubles{41, 52, 63}));
}

TEST_P(RoutingKernels, SortChunksAndBack) {
  // [rank][expert]: 2 0 3 | 1 4 0, capacity 12.
  Tensor recv = integers({2, 0, 3, 1, 4, 0});
  Doubles order = {0, 1, 5, 6, 7, 8, 9, 2, 3, 4};
  for (Shape shape : {Shape{12}, Shape{12, 5}}) {
    int64_t w = shape.size() == 2 ? 5 : 1;
    Tensor x = random(type, shape, 1), y(type, shape), back(type, shape);
    run("sort_chunks", {{"ranks", 2}, {"inverse", 0}}, {&x, &recv}, {}, {&y},
        Order::Backward);
    for (int64_t i = 0; i < 10 * w; ++i)
      ASSERT_EQ(y.get(i), x.get(int64_t(order[i / w]) * w + i % w));
    run("sort_chunks", {{"ranks", 2}, {"inverse", 1}}, {&y, &recv}, {},
        {&back});
    EXPECT_EQ(back.rows(0, 10).bytes, x.rows(0, 10).bytes);
    for (Tensor *t : {&y, &back})
      for (int64_t i = 10 * w; i < 12 * w; ++i)
        ASSERT_TRUE(t->untouched(i));
  }
}

TEST_P(RoutingKernels, SortChunksStaysInBounds) {
  Tensor x = random(type, {6, 2}, 1), y(type, {6, 2});
  for (double inverse : {0.0, 1.0})
    for (std::vector<int> counts :
         {std::vector<int>{4, -3, 2000000000, 2000000000},
          {9, 9, 9, 9},
          {0, 0, 0, 0}}) {
      Tensor recv = integers(counts);
      run("sort_chunks", {{"ranks", 2}, {"inverse", inverse}}, {&x, &recv}, {},
          {&y});
    }
}

} // namespace
