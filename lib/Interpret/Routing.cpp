//===- Routing.cpp - Routing, permutation, experts ------------------------===//

#include "Evaluate.h"

#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::moe;

int64_t mlir::moe::usedRows(const Tensor &rows) {
  return std::accumulate(rows.values.begin(), rows.values.end(), 0.0);
}

static std::vector<double> softmax(const Tensor &x, int64_t t) {
  std::vector<double> p(x.row(t), x.row(t) + x.width());
  double top = *std::max_element(p.begin(), p.end()), sum = 0;
  for (double &value : p)
    sum += value = std::exp(value - top);
  for (double &value : p)
    value /= sum;
  return p;
}

static LogicalResult evaluate(RouteOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &logits = *in[0];
  int64_t k = out[0].width();
  for (int64_t t = 0; t < logits.rows(); ++t) {
    std::vector<double> p = softmax(logits, t);
    std::vector<int64_t> order(p.size());
    std::iota(order.begin(), order.end(), 0);
    // By logit: equal ones, and only those, go to the lowest expert.
    llvm::sort(order, [&](int64_t a, int64_t b) {
      double x = logits.row(t)[a], y = logits.row(t)[b];
      return x > y || (x == y && a < b);
    });
    double sum = 0;
    for (int64_t j = 0; j < k; ++j)
      sum += p[order[j]];
    for (int64_t j = 0; j < k; ++j) {
      out[0].row(t)[j] = p[order[j]] / (op.getNormalize() ? sum : 1);
      out[1].row(t)[j] = order[j];
    }
  }
  return success();
}

static LogicalResult evaluate(RouteGradOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &logits = *in[0], &experts = *in[2], &dp = *in[3];
  int64_t k = experts.width();
  for (int64_t t = 0; t < logits.rows(); ++t) {
    // Normalised, the probabilities are a softmax over the chosen alone.
    std::vector<double> p = softmax(logits, t);
    std::vector<double> d(p.size(), 0), chosen(p.size(), 0);
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) {
      int64_t e = experts.row(t)[j];
      d[e] = dp.row(t)[j];
      chosen[e] = 1;
      sum += p[e];
    }
    if (op.getNormalize())
      for (size_t e = 0; e < p.size(); ++e)
        p[e] *= chosen[e] / sum;
    double mean = std::inner_product(p.begin(), p.end(), d.begin(), 0.0);
    for (size_t e = 0; e < p.size(); ++e)
      out[0].row(t)[e] = p[e] * (d[e] - mean);
  }
  return success();
}

static LogicalResult evaluate(PermutationOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &experts = *in[0];
  Tensor &map = out[0], &counts = out[1];
  std::fill(counts.values.begin(), counts.values.end(), 0);
  for (size_t i = 0; i < experts.values.size(); ++i) {
    int64_t e = experts.values[i];
    if (e < 0 || e >= counts.rows())
      return op.emitOpError() << "expert " << e << " of copy " << i
                              << " is not in [0, " << counts.rows() << ")";
    ++counts.values[e];
  }
  int64_t next = 0;
  for (int64_t e = 0; e < counts.rows(); ++e)
    for (size_t i = 0; i < experts.values.size(); ++i)
      if (experts.values[i] == e)
        map.values[i] = next++;
  return success();
}

static LogicalResult evaluate(PermuteOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0], &map = *in[1];
  for (int64_t t = 0; t < map.rows(); ++t)
    for (int64_t j = 0; j < map.width(); ++j)
      std::copy_n(x.row(t), x.width(), out[0].row(map.row(t)[j]));
  return success();
}

static LogicalResult evaluate(UnpermuteOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &y = *in[0], &map = *in[1];
  std::fill(out[0].values.begin(), out[0].values.end(), 0);
  for (int64_t t = 0; t < map.rows(); ++t)
    for (int64_t j = 0; j < map.width(); ++j)
      for (int64_t c = 0; c < y.width(); ++c)
        out[0].row(t)[c] += y.row(map.row(t)[j])[c];
  return success();
}

static LogicalResult evaluate(PermuteProbsOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  for (size_t i = 0; i < in[0]->values.size(); ++i)
    out[0].values[in[1]->values[i]] = in[0]->values[i];
  return success();
}

static LogicalResult evaluate(UnpermuteProbsOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  for (size_t i = 0; i < out[0].values.size(); ++i)
    out[0].values[i] = in[0]->values[in[1]->values[i]];
  return success();
}

static LogicalResult evaluate(LocalRowsOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  std::fill(out[0].values.begin(), out[0].values.end(), 0);
  for (int64_t i = 0; i < in[0]->rows(); ++i)
    out[0].values[i % out[0].rows()] += in[0]->values[i];
  return success();
}

static LogicalResult evaluate(SortChunksOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0], &received = *in[1];
  int64_t ranks = op.getRanks(), experts = received.rows() / ranks;
  // First row of each chunk in [rank][expert] order.
  std::vector<int64_t> first(received.rows());
  std::exclusive_scan(received.values.begin(), received.values.end(),
                      first.begin(), int64_t(0));
  int64_t next = 0;
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t r = 0; r < ranks; ++r) {
      int64_t chunk = r * experts + e;
      for (int64_t i = 0; i < received.values[chunk]; ++i, ++next) {
        int64_t byRank = first[chunk] + i;
        bool inverse = op.getInverse();
        std::copy_n(x.row(inverse ? next : byRank), x.width(),
                    out[0].row(inverse ? byRank : next));
      }
    }
  return success();
}

/// Calls `visit(expert, row)` for the rows in use.
template <typename F> static void forGroups(const Tensor &rows, F visit) {
  int64_t row = 0;
  for (int64_t e = 0; e < rows.rows(); ++e)
    for (int64_t i = 0; i < rows.values[e]; ++i)
      visit(e, row++);
}

static LogicalResult evaluate(GroupedLinearOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0], &w = *in[1];
  forGroups(*in[2], [&](int64_t e, int64_t row) {
    for (int64_t o = 0; o < w.dim(1); ++o) {
      double sum = 0;
      for (int64_t c = 0; c < w.dim(2); ++c)
        sum += x.row(row)[c] * w.row(e)[o * w.dim(2) + c];
      out[0].row(row)[o] = sum;
    }
  });
  return success();
}

static LogicalResult evaluate(GroupedLinearDgradOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &dy = *in[0], &w = *in[1];
  forGroups(*in[2], [&](int64_t e, int64_t row) {
    std::fill_n(out[0].row(row), w.dim(2), 0);
    for (int64_t o = 0; o < w.dim(1); ++o)
      for (int64_t c = 0; c < w.dim(2); ++c)
        out[0].row(row)[c] += dy.row(row)[o] * w.row(e)[o * w.dim(2) + c];
  });
  return success();
}

static LogicalResult evaluate(GroupedLinearWgradOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0], &dy = *in[1];
  out[0] = *in[3];
  forGroups(*in[2], [&](int64_t e, int64_t row) {
    for (int64_t o = 0; o < dy.width(); ++o)
      for (int64_t c = 0; c < x.width(); ++c)
        out[0].row(e)[o * x.width() + c] += dy.row(row)[o] * x.row(row)[c];
  });
  return success();
}

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

static LogicalResult evaluate(SwigluOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0], &p = *in[1];
  int64_t f = out[0].width();
  forGroups(*in[2], [&](int64_t, int64_t row) {
    for (int64_t c = 0; c < f; ++c) {
      double gate = x.row(row)[c], up = x.row(row)[f + c];
      out[0].row(row)[c] = gate * sigmoid(gate) * up * p.values[row];
    }
  });
  return success();
}

static LogicalResult evaluate(SwigluGradOp op, Operands in,
                              MutableArrayRef<Tensor> out) {
  const Tensor &x = *in[0], &p = *in[1], &dy = *in[2];
  int64_t f = dy.width();
  forGroups(*in[3], [&](int64_t, int64_t row) {
    double dp = 0;
    for (int64_t c = 0; c < f; ++c) {
      double gate = x.row(row)[c], up = x.row(row)[f + c];
      double s = sigmoid(gate), d = dy.row(row)[c];
      dp += d * gate * s * up;
      out[0].row(row)[c] = d * p.values[row] * up * s * (1 + gate * (1 - s));
      out[0].row(row)[f + c] = d * p.values[row] * gate * s;
    }
    out[1].values[row] = dp;
  });
  return success();
}

bool mlir::moe::isRouting(Operation *op) {
  return isa<RouteOp, RouteGradOp, PermutationOp, PermuteOp, UnpermuteOp,
             PermuteProbsOp, UnpermuteProbsOp, LocalRowsOp, SortChunksOp,
             GroupedLinearOp, GroupedLinearDgradOp, GroupedLinearWgradOp,
             SwigluOp, SwigluGradOp>(op);
}

LogicalResult mlir::moe::evaluateRouting(Operation *op, Operands in,
                                         MutableArrayRef<Tensor> out) {
  // A ragged tensor must hold the rows that its counts name.
  for (auto [value, rows] : llvm::zip(op->getOperands(), in)) {
    if (!isa<RowsType>(value.getType()) || isa<LocalRowsOp>(op))
      continue;
    if (usedRows(*rows) > in[0]->rows())
      return op->emitOpError()
             << "has " << usedRows(*rows) << " rows in use of a tensor of "
             << in[0]->rows();
  }
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<RouteOp, RouteGradOp, PermutationOp, PermuteOp, UnpermuteOp,
            PermuteProbsOp, UnpermuteProbsOp, LocalRowsOp, SortChunksOp,
            GroupedLinearOp, GroupedLinearDgradOp, GroupedLinearWgradOp,
            SwigluOp, SwigluGradOp>(
          [&](auto x) { return evaluate(x, in, out); });
}
