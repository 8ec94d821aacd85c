//===- KernelCases.h - Launches that generated kernels are tested with ----===//

#ifndef MOE_TEST_UNIT_TARGET_KERNELCASES_H
#define MOE_TEST_UNIT_TARGET_KERNELCASES_H

#include "KernelModule.h"

namespace moert::test {

/// A test of generated kernels, on random operands of its type.
class KernelCases : public testing::TestWithParam<ElementType> {
protected:
  ElementType type = GetParam();

  Tensor in(Shape shape, double scale = 1.0) {
    return random(type, shape, seed++, scale);
  }
  Tensor out(Shape shape) { return Tensor(type, shape); }

  std::vector<Case> swiglu(llvm::ArrayRef<int64_t> widths) {
    std::vector<Case> cases;
    int64_t capacity = 10;
    for (int64_t f : widths)
      for (const std::vector<int> &rows :
           std::vector<std::vector<int>>{{2, 0, 5}, {0, 0, 0}, {9, 9, -1}})
        // Wide enough that the sigmoid saturates on both sides.
        cases.push_back(
            {"swiglu",
             {},
             {in({capacity, 2 * f}, 30.0), in({capacity}), integers(rows)},
             {},
             {out({capacity, f})},
             2});
    return cases;
  }

  std::vector<Case> swigluGrad(llvm::ArrayRef<int64_t> widths) {
    std::vector<Case> cases = swiglu(widths);
    for (Case &c : cases) {
      c.op = "swiglu_grad";
      Shape x = c.reads[0].shape, a = c.writes[0].shape;
      c.reads.insert(c.reads.begin() + 2, in(a));
      c.writes = {out(x), out({x[0]})};
      c.rows = 3;
    }
    return cases;
  }

  /// permute and unpermute, of rows and of probabilities.
  std::vector<Case> permutation(llvm::ArrayRef<int64_t> widths) {
    std::vector<Case> cases;
    int64_t tokens = 5, k = 2, copies = tokens * k;
    // One row is out of range: it moves nothing.
    std::vector<int> rows = {3, 0, 9, 2, 1, 4, 6, 5, 11, 7};
    Tensor map(I32, {tokens, k}, Doubles(rows.begin(), rows.end()));
    for (int64_t w : widths) {
      cases.push_back(
          {"permute", {}, {in({tokens, w}), map}, {}, {out({copies, w})}});
      cases.push_back(
          {"unpermute", {}, {in({copies, w}), map}, {}, {out({tokens, w})}});
    }
    cases.push_back(
        {"permute_probs", {}, {in({tokens, k}), map}, {}, {out({copies})}});
    cases.push_back(
        {"unpermute_probs", {}, {in({copies}), map}, {}, {out({tokens, k})}});
    return cases;
  }

private:
  uint32_t seed = 1;
};

/// What the library computes.
inline Case byLibrary(Case c) {
  run(c.op, c.attributes, pointers(c.reads), pointers(c.accumulators),
      pointers(c.writes));
  return c;
}

} // namespace moert::test

#endif // MOE_TEST_UNIT_TARGET_KERNELCASES_H
