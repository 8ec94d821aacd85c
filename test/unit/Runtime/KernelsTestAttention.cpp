//===- KernelsTestAttention.cpp - Attention kernels -----------------------===//

#include "KernelsTestSupport.h"

using namespace moert;
using namespace moert::test;

namespace {

struct Sizes {
  int64_t sequences, sequence, heads, kvHeads, d;
  int64_t tokens() const { return sequences * sequence; }
  double scale() const { return 1.0 / std::sqrt(double(d)); }
  Attributes attributes() const {
    return {{"heads", double(heads)},
            {"kv_heads", double(kvHeads)},
            {"head_dim", double(d)},
            {"sequence", double(sequence)},
            {"scale", scale()}};
  }
};

struct Reference {
  Doubles o, lse;
  Reference(const Sizes &s, const Doubles &q, const Doubles &k,
            const Doubles &v)
      : o(q.size()), lse(s.tokens() * s.heads) {
    for (int64_t t = 0; t < s.tokens(); ++t)
      for (int64_t h = 0; h < s.heads; ++h) {
        int64_t kv = h / (s.heads / s.kvHeads);
        auto at = [&](int64_t u) { return (u * s.kvHeads + kv) * s.d; };
        int64_t from = (t * s.heads + h) * s.d;
        Doubles p;
        double total = 0;
        for (int64_t u = t / s.sequence * s.sequence; u <= t; ++u) {
          double score = 0;
          for (int64_t j = 0; j < s.d; ++j)
            score += q[from + j] * k[at(u) + j];
          p.push_back(std::exp(score * s.scale()));
          total += p.back();
        }
        for (size_t i = 0; i < p.size(); ++i)
          for (int64_t j = 0; j < s.d; ++j)
            o[from + j] +=
                p[i] / total * v[at(t / s.sequence * s.sequence + i) + j];
        lse[t * s.heads + h] = std::log(total);
      }
  }
};

struct Tensors {
  Tensor q, k, v, o, lse, dO, dq, dk, dv;
  Tensors(ElementType type, const Sizes &s)
      : q(random(type, {s.tokens(), s.heads * s.d}, 1)),
        k(random(type, {s.tokens(), s.kvHeads * s.d}, 2)),
        v(random(type, k.shape, 3)), o(type, q.shape),
        lse(F32, {s.tokens(), s.heads}), dO(random(type, q.shape, 4)),
        dq(type, q.shape), dk(type, k.shape), dv(type, k.shape) {}
  void forward(const Sizes &s, Order order = Order::Forward) {
    run("attention", s.attributes(), {&q, &k, &v}, {}, {&o, &lse}, order);
  }
  void backward(const Sizes &s, Order order = Order::Forward) {
    run("attention_grad", s.attributes(), {&q, &k, &v, &o, &lse, &dO}, {},
        {&dq, &dk, &dv}, order);
  }
};

class AttentionKernels
    : public testing::TestWithParam<std::tuple<ElementType, Sizes>> {};

TEST_P(AttentionKernels, ForwardMatchesDoubles) {
  auto [type, s] = GetParam();
  Tensors t(type, s);
  t.forward(s, Order::Shuffled);
  Reference r(s, t.q.values(), t.k.values(), t.v.values());
  expectNear(t.o, r.o, 3e-6, "o");
  expectNear(t.lse, r.lse, 1e-6, "lse");
}

TEST_P(AttentionKernels, BitsDoNotDependOnOrderOrOtherRows) {
  auto [type, s] = GetParam();
  Tensors a(type, s), b(type, s);
  a.forward(s), a.backward(s);
  b.forward(s, Order::Backward), b.backward(s, Order::Backward);
  EXPECT_EQ(a.o.bytes, b.o.bytes);
  EXPECT_EQ(a.lse.bytes, b.lse.bytes);
  EXPECT_EQ(a.dq.bytes, b.dq.bytes);
  EXPECT_EQ(a.dk.bytes, b.dk.bytes);
  EXPECT_EQ(a.dv.bytes, b.dv.bytes);
  // A prefix of the last sequence alone.
  for (int64_t length : {int64_t(1), s.sequence / 2, s.sequence - 1}) {
    if (length < 1)
      continue;
    Sizes part = {1, length, s.heads, s.kvHeads, s.d};
    int64_t begin = (s.sequences - 1) * s.sequence, end = begin + length;
    Tensors c(type, part);
    c.q = a.q.rows(begin, end);
    c.k = a.k.rows(begin, end);
    c.v = a.v.rows(begin, end);
    c.forward(part);
    EXPECT_EQ(c.o.bytes, a.o.rows(begin, end).bytes) << length;
    EXPECT_EQ(c.lse.bytes, a.lse.rows(begin, end).bytes) << length;
  }
}

class AttentionGradKernels : public AttentionKernels {};

TEST_P(AttentionGradKernels, MatchDifferences) {
  ElementType type = std::get<0>(GetParam());
  Sizes s = std::get<1>(GetParam());
  Tensors t(type, s);
  t.forward(s);
  t.backward(s);
  Doubles q = t.q.values(), k = t.k.values(), v = t.v.values();
  Doubles grad = t.dO.values();
  // In bf16 the stored o, of which the kernel takes the row sums, is rounded.
  double tolerance = type == F32 ? 1e-5 : 0.02;
  auto loss = [&](const Doubles &q, const Doubles &k, const Doubles &v) {
    return dot(grad, Reference(s, q, k, v).o);
  };
  expectNear(t.dq, differences([&](auto &x) { return loss(x, k, v); }, q),
             tolerance, "dq");
  expectNear(t.dk, differences([&](auto &x) { return loss(q, x, v); }, k),
             tolerance, "dk");
  expectNear(t.dv, differences([&](auto &x) { return loss(q, k, x); }, v),
             tolerance, "dv");
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, AttentionKernels,
    testing::Combine(testing::Values(F32, BF16),
                     testing::Values(Sizes{1, 1, 1, 1, 1}, Sizes{2, 7, 4, 2, 5},
                                     Sizes{2, 250, 2, 1, 20},
                                     Sizes{1, 97, 2, 2, 300})));

INSTANTIATE_TEST_SUITE_P(
    Sizes, AttentionGradKernels,
    testing::Combine(testing::Values(F32, BF16),
                     testing::Values(Sizes{1, 1, 1, 1, 1}, Sizes{2, 7, 4, 2, 5},
                                     Sizes{1, 12, 2, 1, 8})));

/// The gradient over several blocks against the formula in doubles.
TEST(Kernels, AttentionGradOverBlocks) {
  Sizes s = {2, 230, 4, 2, 16};
  Tensors t(F32, s);
  t.forward(s);
  t.backward(s);
  Doubles q = t.q.values(), k = t.k.values(), v = t.v.values();
  Doubles dO = t.dO.values(), dq(q.size()), dk(k.size()), dv(v.size());
  Reference r(s, q, k, v);
  for (int64_t i = 0; i < s.tokens(); ++i)
    for (int64_t h = 0; h < s.heads; ++h) {
      int64_t from = (i * s.heads + h) * s.d;
      double mean = 0;
      for (int64_t x = 0; x < s.d; ++x)
        mean += dO[from + x] * r.o[from + x];
      for (int64_t j = i / s.sequence * s.sequence; j <= i; ++j) {
        int64_t at = (j * s.kvHeads + h / 2) * s.d;
        double score = 0, dp = 0;
        for (int64_t x = 0; x < s.d; ++x) {
          score += q[from + x] * k[at + x];
          dp += dO[from + x] * v[at + x];
        }
        double p = std::exp(score * s.scale() - r.lse[i * s.heads + h]);
        double ds = p * (dp - mean) * s.scale();
        for (int64_t x = 0; x < s.d; ++x) {
          dq[from + x] += ds * k[at + x];
          dk[at + x] += ds * q[from + x];
          dv[at + x] += p * dO[from + x];
        }
      }
    }
  expectNear(t.dq, dq, 3e-6, "dq");
  expectNear(t.dk, dk, 3e-6, "dk");
  expectNear(t.dv, dv, 3e-6, "dv");
}

} // namespace
