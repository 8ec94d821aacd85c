//===- Loss.cpp - Cross entropy and sums to one number --------------------===//
//
// Sums to one number are one tile and add doubles: the order is fixed and the
// result is rounded once.
//
//===----------------------------------------------------------------------===//

#include "Library.h"
#include "Support.h"

using namespace moert;
using namespace moert::kernels;

namespace {

struct Softmax {
  float largest, total;
};

template <typename T> Softmax softmaxOf(const T *logits, int64_t n) {
  float largest = maxOf(n, [&](int64_t j) { return load(logits[j]); });
  return {largest, sumOf(n, [&](int64_t j) {
            return exponential(load(logits[j]) - largest);
          })};
}

/// Operands logits, labels -> loss. A label outside of the vocabulary gives a
/// NaN.
template <typename T> void runCrossEntropy(const Args &args, int64_t) {
  int64_t rows = args.dim(0, 0), vocabulary = args.dim(0, 1);
  const int32_t *labels = args.pointer<int32_t>(1);
  double loss = 0.0;
  for (int64_t t = 0; t < rows; ++t) {
    const T *logits = args.pointer<T>(0) + t * vocabulary;
    Softmax s = softmaxOf(logits, vocabulary);
    bool valid = labels[t] >= 0 && labels[t] < vocabulary;
    double label = valid ? load(logits[labels[t]]) : NAN;
    loss += std::log(double(s.total)) + double(s.largest) - label;
  }
  *args.pointer<float>(2) = float(args.real("scale") * loss);
}

/// Operands logits, labels -> dlogits.
template <typename T> void runCrossEntropyGrad(const Args &args, int64_t tile) {
  int64_t vocabulary = args.dim(0, 1);
  const int32_t *labels = args.pointer<int32_t>(1);
  float scale = float(args.real("scale"));
  Range rows = tileRows<0>(args, tile);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const T *logits = args.pointer<T>(0) + t * vocabulary;
    T *dlogits = args.pointer<T>(2) + t * vocabulary;
    Softmax s = softmaxOf(logits, vocabulary);
    bool valid = labels[t] >= 0 && labels[t] < vocabulary;
    float factor = valid ? scale / s.total : NAN;
    float label = valid ? load(logits[labels[t]]) : NAN;
    for (int64_t j = 0; j < vocabulary; ++j)
      store(dlogits[j], exponential(load(logits[j]) - s.largest) * factor);
    if (valid) {
      float p = exponential(label - s.largest) / s.total;
      store(dlogits[labels[t]], (p - 1.0f) * scale);
    }
  }
}

double total(const Args &args) {
  const float *x = args.pointer<float>(0);
  double result = 0.0;
  for (int64_t i = 0; i < args.elements(0); ++i)
    result += x[i];
  return result;
}

void runSum(const Args &args, int64_t) {
  *args.pointer<float>(1) = float(total(args));
}

void runSumSquares(const Args &args, int64_t) {
  const float *x = args.pointer<float>(0);
  *args.pointer<float>(1) = float(reduce(
      args.elements(0), 0.0, [](double a, double b) { return a + b; },
      [&](int64_t i) { return double(x[i]) * x[i]; }));
}

void runGradNorm(const Args &args, int64_t) {
  *args.pointer<float>(1) = float(std::sqrt(total(args)));
}

} // namespace

const HostKernel kernels::crossEntropy = {
    one, typed<0, runCrossEntropy<float>, runCrossEntropy<BF16>>};
const HostKernel kernels::crossEntropyGrad = {
    rowTiles<0>,
    typed<0, runCrossEntropyGrad<float>, runCrossEntropyGrad<BF16>>};
const HostKernel kernels::sum = {one, untyped<runSum>};
const HostKernel kernels::sumSquares = {one, untyped<runSumSquares>};
const HostKernel kernels::gradNorm = {one, untyped<runGradNorm>};
