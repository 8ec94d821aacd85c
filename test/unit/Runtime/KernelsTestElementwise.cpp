//===- KernelsTestElementwise.cpp - Norms, activation, loss, optimizer ----===//

#include "KernelsTestSupport.h"
#include "lib/Runtime/Kernels/Support.h"

using namespace moert;
using namespace moert::test;

namespace {

class ElementwiseKernels : public testing::TestWithParam<ElementType> {
protected:
  ElementType type = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Types, ElementwiseKernels, testing::Values(F32, BF16));

/// Runs a kernel whole and on each of some row ranges: equal bits.
void expectRowsIndependent(
    const std::string &op, const Attributes &attributes,
    const std::vector<Tensor *> &rowInputs,
    const std::vector<Tensor *> &wholeInputs, const Tensor &all,
    const std::function<std::vector<Tensor *>(std::vector<Tensor> &)> &order) {
  int64_t n = all.shape[0];
  for (int64_t begin : {int64_t(0), n / 2, n - 1}) {
    std::vector<Tensor> parts;
    for (Tensor *t : rowInputs)
      parts.push_back(t->rows(begin, begin + 1));
    Tensor expected = all.rows(begin, begin + 1), y(all.type, expected.shape);
    run(op, attributes, order(parts), {}, {&y});
    EXPECT_EQ(y.bytes, expected.bytes) << op << " row " << begin;
  }
}

TEST_P(ElementwiseKernels, StoreRoundsToNearestEven) {
  // Sums whose exact value lies on, above and below the middle.
  Doubles a, b, expected;
  std::mt19937 generator(5);
  for (int i = 0; i < 100000; ++i) {
    uint32_t bits = generator();
    float x;
    std::memcpy(&x, &bits, 4);
    if (!std::isfinite(x) || std::abs(x) > 1e37)
      x = 1.00390625f;
    a.push_back(x);
    b.push_back(x * 0.00390625f);
  }
  Shape shape = {int64_t(a.size())};
  Tensor ta(type, shape, a), tb(type, shape, b), y(type, shape);
  run("add", {}, {&ta, &tb}, {}, {&y}, Order::Shuffled);
  Tensor exact(type, shape);
  for (int64_t i = 0; i < y.size(); ++i)
    exact.set(i, float(ta.get(i)) + float(tb.get(i)));
  EXPECT_EQ(y.bytes, exact.bytes);
  Tensor nan(type, {1}, {NAN}), infinite(type, {1}, {INFINITY}), z(type, {1});
  run("add", {}, {&nan, &infinite}, {}, {&z});
  EXPECT_TRUE(std::isnan(z.get(0)));
  run("add", {}, {&infinite, &infinite}, {}, {&z});
  EXPECT_EQ(z.get(0), INFINITY);
}

TEST(Kernels, ZeroFillsAnyShape) {
  Tensor y(F32, {300, 200, 2});
  run("zero", {}, {}, {}, {&y}, Order::Backward);
  EXPECT_EQ(y.values(), Doubles(y.size(), 0.0));
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

TEST_P(ElementwiseKernels, Embedding) {
  int64_t vocabulary = 11, h = 600;
  Tensor table = random(type, {vocabulary, h}, 1);
  Tensor ids = integers({3, 0, 10, 3, 3}), y(type, {5, h});
  run("embedding", {}, {&table, &ids}, {}, {&y});
  Tensor dy = random(type, {5, h}, 2), acc = random(F32, {vocabulary, h}, 3);
  Tensor expected = acc;
  for (int64_t t = 0; t < 5; ++t)
    for (int64_t j = 0; j < h; ++j) {
      int64_t at = int64_t(ids.get(t)) * h + j;
      ASSERT_EQ(y.get(t * h + j), table.get(at));
      expected.set(at, float(expected.get(at)) + float(dy.get(t * h + j)));
    }
  run("embedding_wgrad", {}, {&ids, &dy}, {&acc}, {}, Order::Backward);
  EXPECT_EQ(acc.bytes, expected.bytes);
}

TEST_P(ElementwiseKernels, EmbeddingOfNoTokenIsNaN) {
  Tensor table = random(type, {4, 8}, 1), ids = integers({-1, 4, 2});
  Tensor y(type, {3, 8}), acc(F32, {4, 8}, Doubles(32, 1.0));
  run("embedding", {}, {&table, &ids}, {}, {&y});
  EXPECT_TRUE(std::isnan(y.get(0)) && std::isnan(y.get(15)));
  EXPECT_EQ(y.get(16), table.get(16));
  Tensor dy(type, {3, 8}, Doubles(24, 1.0));
  run("embedding_wgrad", {}, {&ids, &dy}, {&acc}, {});
  for (int64_t i = 0; i < 32; ++i)
    EXPECT_EQ(acc.get(i), i / 8 == 2 ? 2.0 : 1.0);
}

//===----------------------------------------------------------------------===//
// RMSNorm
//===----------------------------------------------------------------------===//

Doubles rmsNorm(const Doubles &x, const Doubles &w, double eps) {
  Doubles y(x.size());
  size_t d = w.size();
  for (size_t begin = 0; begin < x.size(); begin += d) {
    double squares = 0;
    for (size_t j = 0; j < d; ++j)
      squares += x[begin + j] * x[begin + j];
    for (size_t j = 0; j < d; ++j)
      y[begin + j] = x[begin + j] / std::sqrt(squares / d + eps) * w[j];
  }
  return y;
}

TEST_P(ElementwiseKernels, RmsNorm) {
  for (auto [tokens, runs, d] :
       {std::array<int64_t, 3>{5, 1, 37}, {3, 4, 8}, {2, 1, 2500}}) {
    double eps = 1e-3;
    Tensor x = random(type, {tokens, runs * d}, 1), w = random(type, {d}, 2);
    Tensor dy = random(type, {tokens, runs * d}, 3);
    Tensor y(type, x.shape), dx(type, x.shape), acc = random(F32, {d}, 4);
    Doubles before = acc.values();
    run("rms_norm", {{"eps", eps}}, {&x, &w}, {}, {&y});
    expectNear(y, rmsNorm(x.values(), w.values(), eps), 2e-6, "y");
    run("rms_norm_dgrad", {{"eps", eps}}, {&x, &w, &dy}, {}, {&dx});
    run("rms_norm_wgrad", {{"eps", eps}}, {&x, &dy}, {&acc}, {},
        Order::Backward);
    expectRowsIndependent("rms_norm", {{"eps", eps}}, {&x}, {&w}, y,
                          [&](std::vector<Tensor> &p) {
                            return std::vector<Tensor *>{&p[0], &w};
                          });
    expectRowsIndependent("rms_norm_dgrad", {{"eps", eps}}, {&x, &dy}, {&w}, dx,
                          [&](std::vector<Tensor> &p) {
                            return std::vector<Tensor *>{&p[0], &w, &p[1]};
                          });
    if (d > 1000) // Differences of every element would take long.
      continue;
    Doubles dyValues = dy.values();
    expectNear(dx,
               differences(
                   [&](const Doubles &v) {
                     return dot(dyValues, rmsNorm(v, w.values(), eps));
                   },
                   x.values()),
               1e-5, "dx");
    Doubles dw = differences(
        [&](const Doubles &v) {
          return dot(dyValues, rmsNorm(x.values(), v, eps));
        },
        w.values());
    for (size_t j = 0; j < dw.size(); ++j)
      dw[j] += before[j];
    expectNear(acc, dw, 1e-5, "acc");
  }
}

//===----------------------------------------------------------------------===//
// RoPE
//===----------------------------------------------------------------------===//

TEST_P(ElementwiseKernels, RopeRotatesHalvesAndBack) {
  int64_t sequence = 9, tokens = 18, d = 12, heads = 3;
  Attributes a = {{"head_dim", double(d)},
                  {"base", 1e4},
                  {"sequence", double(sequence)},
                  {"inverse", 0}};
  Tensor x = random(type, {tokens, heads * d}, 1), y(type, x.shape);
  run("rope", a, {&x}, {}, {&y});
  Doubles expected(x.size());
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < d / 2; ++i) {
        double angle = (t % sequence) * std::pow(1e4, -2.0 * i / d);
        int64_t at = (t * heads + h) * d + i;
        double u = x.get(at), v = x.get(at + d / 2);
        expected[at] = u * std::cos(angle) - v * std::sin(angle);
        expected[at + d / 2] = v * std::cos(angle) + u * std::sin(angle);
      }
  expectNear(y, expected, 1e-6);
  // The inverse is the transpose, which is what a gradient needs.
  Tensor dy = random(type, x.shape, 2), dx(type, x.shape);
  a["inverse"] = 1;
  run("rope", a, {&dy}, {}, {&dx});
  double left = dot(expected, dy.values()),
         right = dot(x.values(), dx.values());
  EXPECT_NEAR(left, right, type == F32 ? 1e-5 : 0.3);
}

TEST(Kernels, RopeIsExactAtLargePositions) {
  int64_t sequence = 8192;
  Tensor x(F32, {sequence, 2}), y(F32, {sequence, 2});
  for (int64_t t = 0; t < sequence; ++t)
    x.set(2 * t, 1.0), x.set(2 * t + 1, 0.0);
  run("rope",
      {{"head_dim", 2}, {"base", 1e6}, {"sequence", 8192}, {"inverse", 0}},
      {&x}, {}, {&y});
  for (int64_t t = 0; t < sequence; ++t) {
    ASSERT_NEAR(y.get(2 * t), std::cos(double(t)), 1e-7);
    ASSERT_NEAR(y.get(2 * t + 1), std::sin(double(t)), 1e-7);
  }
}

//===----------------------------------------------------------------------===//
// SwiGLU
//===----------------------------------------------------------------------===//

double silu(double x) { return x / (1 + std::exp(-x)); }

/// Of `count` rows: [gate, up] x and probabilities p.
Doubles swiglu(const Doubles &x, const Doubles &p, int64_t count, int64_t f) {
  Doubles a(count * f);
  for (int64_t t = 0; t < count; ++t)
    for (int64_t j = 0; j < f; ++j)
      a[t * f + j] = silu(x[t * 2 * f + j]) * x[t * 2 * f + f + j] * p[t];
  return a;
}

TEST_P(ElementwiseKernels, Swiglu) {
  int64_t C = 9, used = 6, f = 19;
  Tensor rows = integers({2, 0, 4}), x = random(type, {C, 2 * f}, 1, 3.0);
  Tensor p = random(type, {C}, 2), da = random(type, {C, f}, 3);
  Tensor a(type, {C, f}), dx(type, x.shape), dp(type, p.shape);
  run("swiglu", {}, {&x, &p, &rows}, {}, {&a});
  run("swiglu_grad", {}, {&x, &p, &da, &rows}, {}, {&dx, &dp});
  for (Tensor *t : {&a, &dx, &dp})
    for (int64_t i = t->size() / C * used; i < t->size(); ++i)
      ASSERT_TRUE(t->untouched(i));
  Doubles xs = x.rows(0, used).values(), ps = p.rows(0, used).values();
  Doubles grad = da.rows(0, used).values();
  expectNear(a.rows(0, used), swiglu(xs, ps, used, f), 1e-6, "a");
  expectNear(
      dx.rows(0, used),
      differences(
          [&](const Doubles &v) { return dot(grad, swiglu(v, ps, used, f)); },
          xs),
      1e-6, "dx");
  expectNear(
      dp.rows(0, used),
      differences(
          [&](const Doubles &v) { return dot(grad, swiglu(xs, v, used, f)); },
          ps),
      1e-6, "dp");
}

TEST_P(ElementwiseKernels, SwigluRowsDoNotDependOnOtherRows) {
  int64_t C = 700, f = 70;
  Tensor rows = integers({int(C) - 5, 5}), x = random(type, {C, 2 * f}, 1);
  Tensor p = random(type, {C}, 2), a(type, {C, f}), one = integers({1, 0});
  run("swiglu", {}, {&x, &p, &rows}, {}, {&a}, Order::Shuffled);
  expectRowsIndependent(
      "swiglu", {}, {&x, &p}, {&one}, a, [&](std::vector<Tensor> &parts) {
        return std::vector<Tensor *>{&parts[0], &parts[1], &one};
      });
}

TEST(Kernels, ExponentialIsWithinTwoUnits) {
  for (uint64_t bits = 0; bits < uint64_t(1) << 32; bits += 4999) {
    float x = kernels::bitsFloat(uint32_t(bits));
    double exact = std::exp(double(x));
    float e = kernels::exponential(x);
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(e));
    } else if (exact > 3.4028235e38) {
      ASSERT_EQ(e, INFINITY) << x;
    } else {
      float nearest = float(exact);
      double unit = double(std::nextafter(nearest, INFINITY)) - nearest;
      ASSERT_LE(std::abs(e - exact), 2 * unit) << x;
    }
  }
  EXPECT_EQ(kernels::exponential(0.0f), 1.0f);
  EXPECT_EQ(kernels::exponential(-0.0f), 1.0f);
  EXPECT_EQ(kernels::exponential(-INFINITY), 0.0f);
}

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

double crossEntropy(const Doubles &logits, const Tensor &labels, int64_t V) {
  double loss = 0;
  for (int64_t t = 0; t < labels.size(); ++t) {
    double total = 0, top = -INFINITY;
    for (int64_t j = 0; j < V; ++j)
      top = std::max(top, logits[t * V + j]);
    for (int64_t j = 0; j < V; ++j)
      total += std::exp(logits[t * V + j] - top);
    loss += top + std::log(total) - logits[t * V + int64_t(labels.get(t))];
  }
  return loss;
}

TEST_P(ElementwiseKernels, CrossEntropy) {
  int64_t tokens = 6, V = 41;
  Tensor logits = random(type, {tokens, V}, 1, 4.0);
  Tensor labels = integers({0, 40, 7, 7, 20, 1}), loss(F32, {1});
  Attributes scale = {{"scale", 0.125}};
  run("cross_entropy", scale, {&logits, &labels}, {}, {&loss});
  double expected = 0.125 * crossEntropy(logits.values(), labels, V);
  EXPECT_NEAR(loss.get(0), expected, 1e-6 * expected);
  Tensor grad(type, logits.shape);
  run("cross_entropy_grad", scale, {&logits, &labels}, {}, {&grad});
  expectNear(
      grad,
      differences(
          [&](const Doubles &v) { return 0.125 * crossEntropy(v, labels, V); },
          logits.values()),
      1e-7);
}

TEST_P(ElementwiseKernels, CrossEntropyOfLargeLogitsAndBadLabels) {
  Tensor logits(type, {2, 3}, {1e4, -1e4, 0, 3e38, 0, -3e38}), loss(F32, {1});
  Tensor labels = integers({0, 0}), grad(type, logits.shape);
  run("cross_entropy", {{"scale", 1}}, {&logits, &labels}, {}, {&loss});
  EXPECT_EQ(loss.get(0), 0.0);
  run("cross_entropy_grad", {{"scale", 1}}, {&logits, &labels}, {}, {&grad});
  EXPECT_EQ(grad.values(), Doubles(6, 0.0));
  labels = integers({0, 3});
  run("cross_entropy", {{"scale", 1}}, {&logits, &labels}, {}, {&loss});
  run("cross_entropy_grad", {{"scale", 1}}, {&logits, &labels}, {}, {&grad});
  EXPECT_TRUE(std::isnan(loss.get(0)) && std::isnan(grad.get(5)));
  EXPECT_EQ(grad.get(0), 0.0);
}

//===----------------------------------------------------------------------===//
// Sums, AdamW
//===----------------------------------------------------------------------===//

TEST(Kernels, Sums) {
  Tensor x = random(F32, {100003}, 1), y(F32, {1});
  double total = 0, squares = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    total += x.get(i);
    squares += x.get(i) * x.get(i);
  }
  run("sum", {}, {&x}, {}, {&y});
  EXPECT_EQ(y.get(0), float(total));
  run("sum_squares", {}, {&x}, {}, {&y});
  EXPECT_NEAR(y.get(0), squares, 1e-7 * squares);
  Tensor two(F32, {2}, {9.0, 16.0});
  run("grad_norm", {}, {&two}, {}, {&y});
  EXPECT_EQ(y.get(0), 5.0);
}

struct AdamW {
  Attributes attributes = {{"lr", 1e-2},           {"beta1", 0.9},
                           {"beta2", 0.999},       {"eps", 1e-8},
                           {"weight_decay", 0.01}, {"clip", 0}};
  Tensor grad, norm{F32, {1}, {3.0}}, step{I32, {1}, {1}}, flag{I32, {1}, {0}};
  Tensor master, m, v, w;

  AdamW(ElementType type, int64_t n)
      : grad(random(F32, {n}, 1)), master(random(F32, {n}, 2)),
        m(F32, {n}, Doubles(n, 0.0)), v(m), w(type, {n}) {}
  void update() {
    run("adamw", attributes, {&grad, &norm, &step, &flag}, {&master, &m, &v},
        {&w}, Order::Backward);
  }
};

TEST_P(ElementwiseKernels, AdamWFollowsTheFormula) {
  int64_t n = 70000;
  AdamW a(type, n);
  a.attributes["clip"] = 1.0;
  Doubles p = a.master.values(), m(n), v(n);
  for (int step = 1; step <= 3; ++step) {
    a.step.set(0, step);
    a.grad = random(F32, {n}, 10 + step);
    a.update();
    for (int64_t i = 0; i < n; ++i) {
      double g = a.grad.get(i) / (3.0 + 1e-6);
      p[i] *= 1 - 1e-2 * 0.01;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      double correction2 = std::sqrt(1 - std::pow(0.999, step));
      p[i] -= 1e-2 / (1 - std::pow(0.9, step)) * m[i] /
              (std::sqrt(v[i]) / correction2 + 1e-8);
    }
    expectNear(a.master, p, 1e-6, "master");
    expectNear(a.m, m, 1e-6, "m");
    expectNear(a.v, v, 1e-6, "v");
    Tensor rounded(type, {n}, a.master.values());
    EXPECT_EQ(a.w.bytes, rounded.bytes);
  }
}

TEST(Kernels, AdamWDoesNothingWhenFlagged) {
  AdamW a(F32, 100);
  a.flag.set(0, 3);
  AdamW before = a;
  a.update();
  EXPECT_EQ(a.master.bytes, before.master.bytes);
  EXPECT_EQ(a.m.bytes, before.m.bytes);
  EXPECT_EQ(a.v.bytes, before.v.bytes);
  EXPECT_TRUE(a.w.untouched(0) && a.w.untouched(99));
}

TEST(Kernels, AdamWClipsOnlyAboveTheNorm) {
  AdamW plain(F32, 100), loose(F32, 100), tight(F32, 100);
  loose.attributes["clip"] = 5.0;
  tight.attributes["clip"] = 0.5;
  for (AdamW *a : {&plain, &loose, &tight})
    a->update();
  EXPECT_EQ(plain.m.bytes, loose.m.bytes);
  EXPECT_NEAR(tight.m.get(0), plain.m.get(0) * 0.5 / 3.0, 1e-7);
}

} // namespace
