//===- Dense.cpp - Embedding, norm, linear, attention, loss ---------------===//

#include "Evaluate.h"

#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace mlir::moe;

/// Calls `visit(row, id)`; fails at the op for an id out of range.
template <typename F>
static LogicalResult forIds(Operation *op, const Tensor &ids, int64_t limit,
                            F visit) {
  for (int64_t t = 0; t < ids.rows(); ++t) {
    int64_t id = ids.values[t];
    if (id < 0 || id >= limit)
      return op->emitOpError() << "id " << id << " of row " << t
                               << " is not in [0, " << limit << ")";
    visit(t, id);
  }
  return success();
}

static LogicalResult evaluate(EmbeddingOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &table = *in[0];
  return forIds(op, *in[1], table.rows(), [&](int64_t t, int64_t id) {
    std::copy_n(table.row(id), table.width(), out[0].row(t));
  });
}

static LogicalResult evaluate(EmbeddingWgradOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &dy = *in[1];
  out[0] = *in[2];
  return forIds(op, *in[0], out[0].rows(), [&](int64_t t, int64_t id) {
    for (int64_t c = 0; c < dy.width(); ++c)
      out[0].row(id)[c] += dy.row(t)[c];
  });
}

/// Calls `visit(first element, scale)` for each run of `width` columns, with
/// scale = 1 / sqrt(mean(x^2) + eps).
template <typename F>
static void forRuns(const Tensor &x, int64_t width, double eps, F visit) {
  for (size_t begin = 0; begin < x.values.size(); begin += width) {
    double squares = 0;
    for (int64_t c = 0; c < width; ++c)
      squares += x.values[begin + c] * x.values[begin + c];
    visit(begin, 1 / std::sqrt(squares / width + eps));
  }
}

static LogicalResult evaluate(RmsNormOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0], &w = *in[1];
  int64_t width = w.rows();
  forRuns(x, width, op.getEps().convertToDouble(),
          [&](int64_t begin, double scale) {
            for (int64_t c = 0; c < width; ++c)
              out[0].values[begin + c] =
                  x.values[begin + c] * scale * w.values[c];
          });
  return success();
}

static LogicalResult evaluate(RmsNormDgradOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0], &w = *in[1], &dy = *in[2];
  int64_t width = w.rows();
  forRuns(x, width, op.getEps().convertToDouble(),
          [&](int64_t begin, double scale) {
            double dot = 0;
            for (int64_t c = 0; c < width; ++c)
              dot += dy.values[begin + c] * w.values[c] * x.values[begin + c] *
                     scale;
            for (int64_t c = 0; c < width; ++c)
              out[0].values[begin + c] =
                  scale * (dy.values[begin + c] * w.values[c] -
                           x.values[begin + c] * scale * dot / width);
          });
  return success();
}

static LogicalResult evaluate(RmsNormWgradOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0], &dy = *in[1];
  out[0] = *in[2];
  int64_t width = out[0].rows();
  forRuns(x, width, op.getEps().convertToDouble(),
          [&](int64_t begin, double scale) {
            for (int64_t c = 0; c < width; ++c)
              out[0].values[c] +=
                  dy.values[begin + c] * x.values[begin + c] * scale;
          });
  return success();
}

static LogicalResult evaluate(LinearOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0], &w = *in[1];
  for (int64_t t = 0; t < x.rows(); ++t)
    for (int64_t o = 0; o < w.rows(); ++o) {
      double sum = 0;
      for (int64_t c = 0; c < w.width(); ++c)
        sum += x.row(t)[c] * w.row(o)[c];
      out[0].row(t)[o] = sum;
    }
  return success();
}

static LogicalResult evaluate(LinearDgradOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &dy = *in[0], &w = *in[1];
  std::fill(out[0].values.begin(), out[0].values.end(), 0);
  for (int64_t t = 0; t < dy.rows(); ++t)
    for (int64_t o = 0; o < w.rows(); ++o)
      for (int64_t c = 0; c < w.width(); ++c)
        out[0].row(t)[c] += dy.row(t)[o] * w.row(o)[c];
  return success();
}

static LogicalResult evaluate(LinearWgradOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0], &dy = *in[1];
  out[0] = *in[2];
  for (int64_t t = 0; t < x.rows(); ++t)
    for (int64_t o = 0; o < dy.width(); ++o)
      for (int64_t c = 0; c < x.width(); ++c)
        out[0].row(o)[c] += dy.row(t)[o] * x.row(t)[c];
  return success();
}

static LogicalResult evaluate(RopeOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0];
  int64_t width = op.getHeadDim(), half = width / 2;
  double base = op.getBase().convertToDouble();
  for (int64_t t = 0; t < x.rows(); ++t)
    for (int64_t head = 0; head < x.width(); head += width)
      for (int64_t i = 0; i < half; ++i) {
        double angle =
            double(t % op.getSequence()) * std::pow(base, -2.0 * i / width);
        double c = std::cos(angle);
        double s = std::sin(op.getInverse() ? -angle : angle);
        double a = x.row(t)[head + i], b = x.row(t)[head + half + i];
        out[0].row(t)[head + i] = a * c - b * s;
        out[0].row(t)[head + half + i] = b * c + a * s;
      }
  return success();
}

namespace {
/// The scores of one head of one sequence, and where its rows are.
struct Head {
  int64_t width, query, key;
  double scale;

  double score(const Tensor &q, const Tensor &k, int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t c = 0; c < width; ++c)
      sum += q.row(i)[query + c] * k.row(j)[key + c];
    return sum * scale;
  }
};
} // namespace

/// Calls `visit(head, h, first row of the sequence, row)` for all rows.
template <typename Op, typename F> static void forHeads(Op op, F visit) {
  int64_t rows = cast<RankedTensorType>(op.getQuery().getType()).getDimSize(0);
  int64_t sequence = op.getSequence(), heads = op.getHeads();
  int64_t width = op.getHeadDim(), perKey = heads / op.getKvHeads();
  for (int64_t h = 0; h < heads; ++h) {
    Head head{width, h * width, h / perKey * width,
              op.getScale().convertToDouble()};
    for (int64_t t = 0; t < rows; ++t)
      visit(head, h, t / sequence * sequence, t);
  }
}

static LogicalResult evaluate(AttentionOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &q = *in[0], &k = *in[1], &v = *in[2];
  forHeads(op, [&](const Head &head, int64_t h, int64_t first, int64_t t) {
    std::vector<double> p;
    for (int64_t j = first; j <= t; ++j)
      p.push_back(head.score(q, k, t, j));
    double top = *std::max_element(p.begin(), p.end()), sum = 0;
    for (double &score : p)
      sum += score = std::exp(score - top);
    out[1].row(t)[h] = top + std::log(sum);
    for (int64_t c = 0; c < head.width; ++c) {
      double value = 0;
      for (int64_t j = first; j <= t; ++j)
        value += p[j - first] / sum * v.row(j)[head.key + c];
      out[0].row(t)[head.query + c] = value;
    }
  });
  return success();
}

static LogicalResult evaluate(AttentionGradOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &q = *in[0], &k = *in[1], &v = *in[2], &o = *in[3],
               &lse = *in[4], &dy = *in[5];
  for (Tensor &result : out)
    std::fill(result.values.begin(), result.values.end(), 0);
  forHeads(op, [&](const Head &head, int64_t h, int64_t first, int64_t t) {
    const double *d = dy.row(t) + head.query;
    double mean = 0;
    for (int64_t c = 0; c < head.width; ++c)
      mean += d[c] * o.row(t)[head.query + c];
    for (int64_t j = first; j <= t; ++j) {
      double p = std::exp(head.score(q, k, t, j) - lse.row(t)[h]), dp = 0;
      for (int64_t c = 0; c < head.width; ++c)
        dp += d[c] * v.row(j)[head.key + c];
      double ds = p * (dp - mean) * head.scale;
      for (int64_t c = 0; c < head.width; ++c) {
        out[0].row(t)[head.query + c] += ds * k.row(j)[head.key + c];
        out[1].row(j)[head.key + c] += ds * q.row(t)[head.query + c];
        out[2].row(j)[head.key + c] += p * d[c];
      }
    }
  });
  return success();
}

static LogicalResult evaluate(AddOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  for (size_t i = 0; i < out[0].values.size(); ++i)
    out[0].values[i] = in[0]->values[i] + in[1]->values[i];
  return success();
}

/// Logarithm of the sum of exponentials of a row.
static double logSum(const Tensor &x, int64_t t) {
  double top = *std::max_element(x.row(t), x.row(t) + x.width()), sum = 0;
  for (int64_t c = 0; c < x.width(); ++c)
    sum += std::exp(x.row(t)[c] - top);
  return top + std::log(sum);
}

static LogicalResult evaluate(CrossEntropyOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &logits = *in[0];
  double sum = 0;
  LogicalResult status =
      forIds(op, *in[1], logits.width(), [&](int64_t t, int64_t label) {
        sum += logSum(logits, t) - logits.row(t)[label];
      });
  out[0].values[0] = sum * op.getScale().convertToDouble();
  return status;
}

static LogicalResult evaluate(CrossEntropyGradOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &logits = *in[0];
  double scale = op.getScale().convertToDouble();
  return forIds(op, *in[1], logits.width(), [&](int64_t t, int64_t label) {
    double sum = logSum(logits, t);
    for (int64_t c = 0; c < logits.width(); ++c)
      out[0].row(t)[c] =
          scale * (std::exp(logits.row(t)[c] - sum) - (c == label));
  });
}

bool mlir::moe::isDense(Operation *op) {
  return isa<EmbeddingOp, EmbeddingWgradOp, RmsNormOp, RmsNormDgradOp,
             RmsNormWgradOp, LinearOp, LinearDgradOp, LinearWgradOp, RopeOp,
             AttentionOp, AttentionGradOp, AddOp, CrossEntropyOp,
             CrossEntropyGradOp>(op);
}

LogicalResult mlir::moe::evaluateDense(Operation *op, Operands in,
                                       MutableArrayRef<Tensor> out) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<EmbeddingOp, EmbeddingWgradOp, RmsNormOp, RmsNormDgradOp,
            RmsNormWgradOp, LinearOp, LinearDgradOp, LinearWgradOp, RopeOp,
            AttentionOp, AttentionGradOp, AddOp, CrossEntropyOp,
            CrossEntropyGradOp>([&](auto x) { return evaluate(x, in, out); });
}
