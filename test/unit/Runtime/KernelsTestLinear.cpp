//===- KernelsTestLinear.cpp - Linear and grouped linear kernels ----------===//

#include "KernelsTestSupport.h"

using namespace moert;
using namespace moert::test;

namespace {

/// c[m,n] (+)= sum over k of a(i, k) b(j, k).
Doubles product(int64_t m, int64_t n, int64_t k,
                const std::function<double(int64_t, int64_t)> &a,
                const std::function<double(int64_t, int64_t)> &b,
                Doubles c = {}) {
  c.resize(m * n, 0.0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l)
        c[i * n + j] += a(i, l) * b(j, l);
  return c;
}

struct Sizes {
  int64_t tokens, in, out;
};

class LinearKernels
    : public testing::TestWithParam<std::tuple<ElementType, Sizes>> {};

TEST_P(LinearKernels, MatchDoubles) {
  auto [type, s] = GetParam();
  int64_t T = s.tokens, in = s.in, out = s.out;
  Tensor x = random(type, {T, in}, 1), w = random(type, {out, in}, 2, 0.1);
  Tensor dy = random(type, {T, out}, 3);

  Tensor y(type, {T, out});
  run("linear", {}, {&x, &w}, {}, {&y});
  expectNear(y,
             product(
                 T, out, in, [&](auto i, auto k) { return x.get(i * in + k); },
                 [&](auto j, auto k) { return w.get(j * in + k); }),
             1e-5, "y");

  Tensor dx(type, {T, in});
  run("linear_dgrad", {}, {&dy, &w}, {}, {&dx});
  expectNear(dx,
             product(
                 T, in, out,
                 [&](auto i, auto k) { return dy.get(i * out + k); },
                 [&](auto j, auto k) { return w.get(k * in + j); }),
             1e-5, "dx");

  Tensor acc = random(F32, {out, in}, 4);
  Doubles expected = product(
      out, in, T, [&](auto i, auto k) { return dy.get(k * out + i); },
      [&](auto j, auto k) { return x.get(k * in + j); }, acc.values());
  run("linear_wgrad", {}, {&x, &dy}, {&acc}, {});
  expectNear(acc, expected, 1e-5, "acc");
}

TEST_P(LinearKernels, BitsDoNotDependOnTileOrder) {
  auto [type, s] = GetParam();
  Tensor x = random(type, {s.tokens, s.in}, 1);
  Tensor w = random(type, {s.out, s.in}, 2);
  Tensor dy = random(type, {s.tokens, s.out}, 3);
  Tensor y[3] = {{type, dy.shape}, {type, dy.shape}, {type, dy.shape}};
  Tensor dx[3] = {{type, x.shape}, {type, x.shape}, {type, x.shape}};
  Tensor acc[3] = {random(F32, w.shape, 4), random(F32, w.shape, 4),
                   random(F32, w.shape, 4)};
  for (Order order : {Order::Forward, Order::Backward, Order::Shuffled}) {
    int i = int(order);
    run("linear", {}, {&x, &w}, {}, {&y[i]}, order);
    run("linear_dgrad", {}, {&dy, &w}, {}, {&dx[i]}, order);
    run("linear_wgrad", {}, {&x, &dy}, {&acc[i]}, {}, order);
    EXPECT_EQ(y[i].bytes, y[0].bytes);
    EXPECT_EQ(dx[i].bytes, dx[0].bytes);
    EXPECT_EQ(acc[i].bytes, acc[0].bytes);
  }
}

TEST_P(LinearKernels, RowsDoNotDependOnOtherRows) {
  auto [type, s] = GetParam();
  Tensor x = random(type, {s.tokens, s.in}, 1);
  Tensor w = random(type, {s.out, s.in}, 2);
  Tensor all(type, {s.tokens, s.out}), grads(type, {s.tokens, s.in});
  run("linear", {}, {&x, &w}, {}, {&all});
  run("linear_dgrad", {}, {&all, &w}, {}, {&grads});
  for (int64_t begin : {int64_t(0), s.tokens / 2, s.tokens - 1})
    for (int64_t end : {begin + 1, s.tokens}) {
      Tensor part = x.rows(begin, end), partY = all.rows(begin, end);
      Tensor y(type, partY.shape), dx(type, part.shape);
      run("linear", {}, {&part, &w}, {}, {&y});
      run("linear_dgrad", {}, {&partY, &w}, {}, {&dx});
      EXPECT_EQ(y.bytes, partY.bytes);
      EXPECT_EQ(dx.bytes, grads.rows(begin, end).bytes);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, LinearKernels,
    testing::Combine(testing::Values(F32, BF16),
                     testing::Values(Sizes{1, 1, 1}, Sizes{7, 5, 17},
                                     Sizes{13, 300, 40}, Sizes{200, 33, 270},
                                     Sizes{520, 64, 16})));

//===----------------------------------------------------------------------===//
// Grouped
//===----------------------------------------------------------------------===//

struct Ragged {
  std::vector<int> rows;
  int64_t capacity;
};

class GroupedKernels
    : public testing::TestWithParam<std::tuple<ElementType, Ragged>> {
protected:
  /// Rows of each expert after clamping.
  static std::vector<int64_t> starts(const Ragged &r) {
    std::vector<int64_t> s = {0};
    for (int n : r.rows)
      s.push_back(std::min<int64_t>(r.capacity, s.back() + std::max(0, n)));
    return s;
  }
};

TEST_P(GroupedKernels, EqualPlainOnesOfEachExpert) {
  auto [type, ragged] = GetParam();
  int64_t C = ragged.capacity, E = ragged.rows.size(), in = 24, out = 290;
  Tensor x = random(type, {C, in}, 1), dy = random(type, {C, out}, 2);
  Tensor w = random(type, {E, out, in}, 3), rows = integers(ragged.rows);
  std::vector<int64_t> start = starts(ragged);
  for (Tensor *t : {&x, &dy}) // Rows past the end are poison.
    for (int64_t i = start.back() * t->shape[1]; i < t->size(); ++i)
      t->set(i, NAN);

  for (Order order : {Order::Forward, Order::Shuffled}) {
    Tensor y(type, {C, out}), dx(type, {C, in});
    Tensor acc = random(F32, {E, out, in}, 4);
    Tensor accBefore = acc;
    run("grouped_linear", {}, {&x, &w, &rows}, {}, {&y}, order);
    run("grouped_linear_dgrad", {}, {&dy, &w, &rows}, {}, {&dx}, order);
    run("grouped_linear_wgrad", {}, {&x, &dy, &rows}, {&acc}, {}, order);
    for (int64_t e = 0; e < E; ++e) {
      int64_t begin = start[e], end = start[e + 1];
      Tensor own = w.rows(e, e + 1), sum = accBefore.rows(e, e + 1);
      own.shape = sum.shape = {out, in};
      if (begin < end) {
        Tensor px = x.rows(begin, end), pdy = dy.rows(begin, end);
        Tensor py(type, pdy.shape), pdx(type, px.shape);
        run("linear", {}, {&px, &own}, {}, {&py});
        run("linear_dgrad", {}, {&pdy, &own}, {}, {&pdx});
        run("linear_wgrad", {}, {&px, &pdy}, {&sum}, {});
        EXPECT_EQ(y.rows(begin, end).bytes, py.bytes) << "expert " << e;
        EXPECT_EQ(dx.rows(begin, end).bytes, pdx.bytes) << "expert " << e;
      }
      EXPECT_EQ(acc.rows(e, e + 1).bytes, sum.bytes) << "expert " << e;
    }
    for (int64_t i = start.back() * out; i < y.size(); ++i)
      ASSERT_TRUE(y.untouched(i));
    for (int64_t i = start.back() * in; i < dx.size(); ++i)
      ASSERT_TRUE(dx.untouched(i));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, GroupedKernels,
    testing::Combine(testing::Values(F32, BF16),
                     testing::Values(Ragged{{3, 0, 9, 1}, 20},
                                     Ragged{{0, 0, 0}, 8},
                                     Ragged{{0, 260, 0, 195}, 500},
                                     Ragged{{193, 1, 192}, 386},
                                     // Spoiled counts stay within bounds.
                                     Ragged{{5, -4, 6}, 16},
                                     Ragged{{9, 2000000000, 2000000000}, 16})));

} // namespace
