#include "moe/Transforms/Kernels/Passes.h"

#include "KernelBuilder.h"
#include "KernelSignature.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "moe/Support/Phase.h"

#include <cmath>

namespace mlir::moe {
#define GEN_PASS_DEF_GENERATEKERNELS
#include "moe/Transforms/Kernels/Passes.h.inc"

namespace {

using Values = SmallVector<Value>;

//===----------------------------------------------------------------------===//
// Dense rows
//===----------------------------------------------------------------------===//

void addBody(KernelBuilder &b) {
  b.map({b.flat(b.operand(0)), b.flat(b.operand(1))}, b.flat(b.operand(2)),
        [&](ValueRange v) { return Values{b.add(v[0], v[1])}; });
}

/// 1 / sqrt(mean(x^2) + eps).
Value inverseRms(KernelBuilder &b, Value x, int64_t width) {
  Value squares = b.sum(x, [&](ValueRange v) { return b.mul(v[0], v[0]); });
  Value mean = b.div(squares, b.f32(width));
  return b.div(b.f32(1.0), b.sqrt(b.add(mean, b.f32(b.number("eps")))));
}

void rmsNormBody(KernelBuilder &b) {
  Value w = b.operand(1);
  int64_t width = b.dim(1, 0);
  Value xs = b.runs(b.operand(0), width), ys = b.runs(b.operand(2), width);
  b.forEachRow(b.rowCount(xs), [&](Value t) {
    Value x = b.row(xs, t), r = inverseRms(b, x, width);
    b.map({x, w}, b.row(ys, t),
          [&](ValueRange v) { return Values{b.mul(b.mul(v[0], r), v[1])}; });
  });
}

/// dx = r (w dy - x r^2 mean(w dy x)).
void rmsNormDgradBody(KernelBuilder &b) {
  Value w = b.operand(1);
  int64_t width = b.dim(1, 0);
  Value xs = b.runs(b.operand(0), width), dys = b.runs(b.operand(2), width);
  Value dxs = b.runs(b.operand(3), width);
  b.forEachRow(b.rowCount(xs), [&](Value t) {
    Value x = b.row(xs, t), dy = b.row(dys, t), r = inverseRms(b, x, width);
    Value dot = b.sum({x, w, dy}, [&](ValueRange v) {
      return b.mul(b.mul(v[1], v[2]), v[0]);
    });
    Value scale = b.mul(b.mul(r, r), b.div(dot, b.f32(width)));
    b.map({x, w, dy}, b.row(dxs, t), [&](ValueRange v) {
      return Values{b.mul(r, b.sub(b.mul(v[1], v[2]), b.mul(v[0], scale)))};
    });
  });
}

/// acc += sum over rows of dy x r.
void rmsNormWgradBody(KernelBuilder &b) {
  Value acc = b.operand(2);
  int64_t width = b.dim(2, 0);
  Value xs = b.runs(b.operand(0), width), dys = b.runs(b.operand(1), width);
  Value sums = b.scratch(width);
  b.fill(sums, 0.0);
  b.forInOrder(b.rowCount(xs), [&](Value t) {
    Value x = b.row(xs, t), r = inverseRms(b, x, width);
    b.map({sums, x, b.row(dys, t)}, sums, [&](ValueRange v) {
      return Values{b.add(v[0], b.mul(b.mul(v[2], v[1]), r))};
    });
  });
  b.map({acc, sums}, acc,
        [&](ValueRange v) { return Values{b.add(v[0], v[1])}; });
}

//===----------------------------------------------------------------------===//
// Activation
//===----------------------------------------------------------------------===//

void swigluBody(KernelBuilder &b) {
  int64_t width = b.dim(3, 1);
  Value used = b.usedRows(b.operand(2), b.dim(0, 0));
  b.forEachRow(used, [&](Value t) {
    Value gate = b.row(b.operand(0), t, 0, width);
    Value up = b.row(b.operand(0), t, width, width);
    Value p = b.load(b.operand(1), t);
    b.map({gate, up}, b.row(b.operand(3), t), [&](ValueRange v) {
      Value silu = b.mul(v[0], b.sigmoid(v[0]));
      return Values{b.mul(b.mul(silu, v[1]), p)};
    });
  });
}

void swigluGradBody(KernelBuilder &b) {
  int64_t width = b.dim(2, 1);
  Value used = b.usedRows(b.operand(3), b.dim(0, 0));
  b.forEachRow(used, [&](Value t) {
    Value gate = b.row(b.operand(0), t, 0, width);
    Value up = b.row(b.operand(0), t, width, width);
    Value p = b.load(b.operand(1), t), da = b.row(b.operand(2), t);
    Value dGate = b.row(b.operand(4), t, 0, width);
    Value dUp = b.row(b.operand(4), t, width, width);
    Value activation = b.scratch(width);
    b.map({gate, up, da}, {dGate, dUp, activation}, [&](ValueRange v) {
      Value g = v[0], u = v[1], d = b.mul(v[2], p), s = b.sigmoid(g);
      Value one = b.f32(1.0);
      Value slope = b.add(one, b.mul(g, b.sub(one, s)));
      return Values{b.mul(b.mul(b.mul(d, u), s), slope), b.mul(b.mul(d, g), s),
                    b.mul(b.mul(g, s), u)};
    });
    Value dp = b.sum({da, activation},
                     [&](ValueRange v) { return b.mul(v[0], v[1]); });
    b.store(dp, b.operand(5), t);
  });
}

//===----------------------------------------------------------------------===//
// Permutation
//===----------------------------------------------------------------------===//

/// For each copy of each token, in slot order: body(token, slot, row), where
/// the row is in bounds.
void forEachCopy(KernelBuilder &b, Value map, int64_t rows,
                 function_ref<void(Value)> before,
                 function_ref<void(Value, Value, Value)> body,
                 function_ref<void(Value)> after) {
  b.forEachRow(b.rowCount(map), [&](Value t) {
    before(t);
    b.forInOrder(cast<MemRefType>(map.getType()).getDimSize(1),
                 [&](Value slot) {
                   Value row = b.load(map, {t, slot});
                   b.ifThen(b.inBounds(row, rows), [&] { body(t, slot, row); });
                 });
    after(t);
  });
}

void permuteBody(KernelBuilder &b) {
  auto nothing = [](Value) {};
  forEachCopy(
      b, b.operand(1), b.dim(2, 0), nothing,
      [&](Value t, Value, Value row) {
        b.copy(b.row(b.operand(0), t), b.row(b.operand(2), row));
      },
      nothing);
}

void unpermuteBody(KernelBuilder &b) {
  Value sums;
  forEachCopy(
      b, b.operand(1), b.dim(0, 0),
      [&](Value) {
        sums = b.scratch(b.dim(0, 1));
        b.fill(sums, 0.0);
      },
      [&](Value, Value, Value row) {
        b.map({sums, b.row(b.operand(0), row)}, sums,
              [&](ValueRange v) { return Values{b.add(v[0], v[1])}; });
      },
      [&](Value t) {
        b.map(sums, b.row(b.operand(2), t),
              [&](ValueRange v) { return Values{v[0]}; });
      });
}

void permuteProbsBody(KernelBuilder &b) {
  auto nothing = [](Value) {};
  forEachCopy(
      b, b.operand(1), b.dim(2, 0), nothing,
      [&](Value t, Value slot, Value row) {
        b.move(b.operand(0), {t, slot}, b.operand(2), row);
      },
      nothing);
}

void unpermuteProbsBody(KernelBuilder &b) {
  auto nothing = [](Value) {};
  forEachCopy(
      b, b.operand(1), b.dim(0, 0), nothing,
      [&](Value t, Value slot, Value row) {
        b.move(b.operand(0), row, b.operand(2), {t, slot});
      },
      nothing);
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

struct Softmax {
  Value largest, total;
};

Softmax softmaxOf(KernelBuilder &b, Value logits) {
  Value largest = b.largest(logits);
  Value total =
      b.sum(logits, [&](ValueRange v) { return b.exp(b.sub(v[0], largest)); });
  return {largest, total};
}

/// scale * sum of log(total) + largest - label, in f64 and in order; a label
/// outside of the vocabulary gives a NaN.
void crossEntropyBody(KernelBuilder &b) {
  Value logits = b.operand(0), zero = b.index(0);
  Value loss = b.fold(b.dim(0, 0), b.f64(0.0), [&](Value t, Value sum) {
    Softmax s = softmaxOf(b, b.row(logits, t));
    Value label = b.load(b.operand(1), t);
    Value logit = b.ifElse(
        b.inBounds(label, b.dim(0, 1)),
        [&] { return b.toF64(b.load(logits, {t, label})); },
        [&] { return b.f64(NAN); });
    Value row = b.sub(b.add(b.log64(s.total), b.toF64(s.largest)), logit);
    return b.add(sum, row);
  });
  b.store(b.mul(b.f64(b.number("scale")), loss), b.operand(2), zero);
}

void crossEntropyGradBody(KernelBuilder &b) {
  Value scale = b.f32(b.number("scale"));
  b.forEachRow(b.rowCount(b.operand(0)), [&](Value t) {
    Value logits = b.row(b.operand(0), t), dlogits = b.row(b.operand(2), t);
    Softmax s = softmaxOf(b, logits);
    Value label = b.load(b.operand(1), t);
    Value valid = b.inBounds(label, b.dim(0, 1));
    Value factor = b.select(valid, b.div(scale, s.total), b.f32(NAN));
    // Read before the gradient is written.
    Value p = b.ifElse(
        valid,
        [&] {
          Value logit = b.load(logits, label);
          return b.div(b.exp(b.sub(logit, s.largest)), s.total);
        },
        [&] { return b.f32(NAN); });
    b.map(logits, dlogits, [&](ValueRange v) {
      return Values{b.mul(b.exp(b.sub(v[0], s.largest)), factor)};
    });
    b.ifThen(valid, [&] {
      b.store(b.mul(b.sub(p, b.f32(1.0)), scale), dlogits, label);
    });
  });
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

using BodyOf = void (*)(KernelBuilder &);

/// The body of a library op; null: the library's code is used.
BodyOf findBody(StringRef op) {
  static const llvm::StringMap<BodyOf> bodies = {
      {"add", addBody},
      {"cross_entropy", crossEntropyBody},
      {"cross_entropy_grad", crossEntropyGradBody},
      {"permute", permuteBody},
      {"permute_probs", permuteProbsBody},
      {"rms_norm", rmsNormBody},
      {"rms_norm_dgrad", rmsNormDgradBody},
      {"rms_norm_wgrad", rmsNormWgradBody},
      {"swiglu", swigluBody},
      {"swiglu_grad", swigluGradBody},
      {"unpermute", unpermuteBody},
      {"unpermute_probs", unpermuteProbsBody},
  };
  return bodies.lookup(op);
}

struct GenerateKernels : impl::GenerateKernelsBase<GenerateKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, Phase::Kernels)))
      return signalPassFailure();
    for (KernelOp kernel : module.getOps<KernelOp>()) {
      BodyOf body = findBody(kernel.getOp());
      if (!body || !kernel.getBody().empty())
        continue;
      if (failed(checkSignature(kernel)))
        return signalPassFailure();
      KernelBuilder builder(kernel);
      body(builder);
    }
  }
};

} // namespace
} // namespace mlir::moe
