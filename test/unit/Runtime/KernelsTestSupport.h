//===- KernelsTestSupport.h - Launching a kernel from a test --------------===//

#ifndef MOE_TEST_UNIT_RUNTIME_KERNELSTESTSUPPORT_H
#define MOE_TEST_UNIT_RUNTIME_KERNELSTESTSUPPORT_H

#include "moe/Runtime/Kernels.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

namespace moert::test {

using Doubles = std::vector<double>;
using Shape = std::vector<int64_t>;

constexpr ElementType F32 = ElementType::F32, BF16 = ElementType::BF16,
                      I32 = ElementType::I32;

/// x rounded to the nearest bf16, ties to even, by comparing neighbours.
inline uint16_t roundToBF16(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  uint32_t low = u & 0xffff, high = u >> 16;
  return uint16_t(low > 0x8000 || (low == 0x8000 && (high & 1)) ? high + 1
                                                                : high);
}

/// A tensor in the memory of a kernel; starts as 0xff (NaN).
struct Tensor {
  ElementType type;
  Shape shape;
  std::vector<uint8_t> bytes;

  Tensor(ElementType type, Shape shape) : type(type), shape(shape) {
    bytes.assign(size() * width(), 0xff);
  }
  Tensor(ElementType type, Shape shape, const Doubles &values)
      : Tensor(type, shape) {
    EXPECT_EQ(int64_t(values.size()), size());
    for (int64_t i = 0; i < size(); ++i)
      set(i, values[i]);
  }

  int64_t width() const { return type == BF16 ? 2 : 4; }
  int64_t size() const {
    int64_t n = 1;
    for (int64_t d : shape)
      n *= d;
    return n;
  }
  double get(int64_t i) const {
    const uint8_t *p = &bytes[i * width()];
    if (type == I32) {
      int32_t v;
      std::memcpy(&v, p, 4);
      return v;
    }
    uint32_t u = 0;
    std::memcpy(type == BF16 ? reinterpret_cast<uint8_t *>(&u) + 2
                             : reinterpret_cast<uint8_t *>(&u),
                p, width());
    float v;
    std::memcpy(&v, &u, 4);
    return v;
  }
  void set(int64_t i, double value) {
    uint8_t *p = &bytes[i * width()];
    if (type == I32) {
      int32_t v = int32_t(value);
      std::memcpy(p, &v, 4);
    } else if (type == BF16) {
      uint16_t v = roundToBF16(float(value));
      std::memcpy(p, &v, 2);
    } else {
      float v = float(value);
      std::memcpy(p, &v, 4);
    }
  }
  Doubles values() const {
    Doubles v(size());
    for (int64_t i = 0; i < size(); ++i)
      v[i] = get(i);
    return v;
  }
  /// Rows [begin, end) of dimension 0.
  Tensor rows(int64_t begin, int64_t end) const {
    Shape s = shape;
    s[0] = end - begin;
    Tensor t(type, s);
    int64_t stride = bytes.size() / shape[0];
    std::copy_n(bytes.begin() + begin * stride, t.bytes.size(),
                t.bytes.begin());
    return t;
  }
  bool untouched(int64_t i) const {
    return std::all_of(&bytes[i * width()], &bytes[i * width()] + width(),
                       [](uint8_t b) { return b == 0xff; });
  }
};

inline Tensor random(ElementType type, Shape shape, uint32_t seed,
                     double scale = 1.0) {
  Tensor t(type, shape);
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0.0, scale);
  for (int64_t i = 0; i < t.size(); ++i)
    t.set(i, normal(generator));
  return t;
}

inline Tensor integers(const std::vector<int> &values) {
  return Tensor(I32, {int64_t(values.size())},
                Doubles(values.begin(), values.end()));
}

enum class Order { Forward, Backward, Shuffled };

using Attributes = std::map<std::string, double>;

struct Launched {
  Kernel kernel;
  std::vector<Operand> operands;
  std::vector<void *> pointers;
  Launch launch() const { return {&kernel, &operands, pointers.data()}; }
};

inline Launched prepare(const std::string &op, const Attributes &attributes,
                        const std::vector<Tensor *> &reads,
                        const std::vector<Tensor *> &accumulators,
                        const std::vector<Tensor *> &writes) {
  Launched l;
  l.kernel.name = op;
  l.kernel.op = op;
  l.kernel.attributes = attributes;
  auto add = [&](const std::vector<Tensor *> &tensors, Effect effect) {
    for (Tensor *t : tensors) {
      Operand o;
      o.type = t->type;
      o.shape = t->shape;
      o.effect = effect;
      l.kernel.effects.push_back(effect);
      l.operands.push_back(o);
      l.pointers.push_back(t->bytes.data());
    }
  };
  add(reads, Effect::Read);
  add(accumulators, Effect::ReadWrite);
  add(writes, Effect::Write);
  return l;
}

/// Runs a kernel; inputs must fit and must stay as they were.
inline void run(const std::string &op, const Attributes &attributes,
                const std::vector<Tensor *> &reads,
                const std::vector<Tensor *> &accumulators,
                const std::vector<Tensor *> &writes,
                Order order = Order::Forward) {
  Launched l = prepare(op, attributes, reads, accumulators, writes);
  ASSERT_EQ(checkLaunch(l.kernel, l.operands), "");
  const HostKernel *kernel = findHostKernel(op);
  ASSERT_NE(kernel, nullptr);
  std::vector<std::vector<uint8_t>> before;
  for (Tensor *t : reads)
    before.push_back(t->bytes);
  std::vector<int64_t> tiles(kernel->tiles(l.launch()));
  for (size_t i = 0; i < tiles.size(); ++i)
    tiles[i] = i;
  if (order == Order::Backward)
    std::reverse(tiles.begin(), tiles.end());
  if (order == Order::Shuffled)
    std::shuffle(tiles.begin(), tiles.end(), std::mt19937(7));
  for (int64_t tile : tiles)
    kernel->run(l.launch(), tile);
  for (size_t i = 0; i < reads.size(); ++i)
    EXPECT_EQ(reads[i]->bytes, before[i]) << op << " wrote operand " << i;
}

/// |actual - expected| <= tolerance * max(1, largest |expected|), plus half a
/// unit of bf16 of the value where that is the type.
inline void expectNear(const Tensor &actual, const Doubles &expected,
                       double tolerance, const std::string &what = "") {
  ASSERT_EQ(actual.size(), int64_t(expected.size())) << what;
  double largest = 1.0;
  for (double e : expected)
    largest = std::max(largest, std::abs(e));
  for (int64_t i = 0; i < actual.size(); ++i) {
    double bound = tolerance * largest;
    if (actual.type == BF16)
      bound += std::abs(expected[i]) / 256;
    ASSERT_LE(std::abs(actual.get(i) - expected[i]), bound)
        << what << " element " << i << ": " << actual.get(i) << " and "
        << expected[i];
  }
}

/// The gradient of f at x by central differences.
inline Doubles differences(const std::function<double(const Doubles &)> &f,
                           Doubles x, double step = 1e-5) {
  Doubles gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    double at = x[i];
    x[i] = at + step;
    double above = f(x);
    x[i] = at - step;
    double below = f(x);
    x[i] = at;
    gradient[i] = (above - below) / (2 * step);
  }
  return gradient;
}

inline double dot(const Doubles &a, const Doubles &b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i)
    total += a[i] * b[i];
  return total;
}

} // namespace moert::test

#endif // MOE_TEST_UNIT_RUNTIME_KERNELSTESTSUPPORT_H
