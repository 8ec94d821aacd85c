//===- Norm.cpp - RMSNorm -------------------------------------------------===//
//
// A row of x [T, m*d] is m runs of d columns, each normalised on its own:
// y = x r w with r = 1 / sqrt(mean(x^2) + eps).
//
//===----------------------------------------------------------------------===//

#include "Library.h"
#include "Support.h"

using namespace moert;
using namespace moert::kernels;

namespace {

template <typename T> float inverseRms(const T *x, int64_t d, float eps) {
  float squares = sumOf(d, [&](int64_t j) { return load(x[j]) * load(x[j]); });
  return 1.0f / std::sqrt(squares / float(d) + eps);
}

/// Operands x, w -> y.
template <typename T> void runRmsNorm(const Args &args, int64_t tile) {
  int64_t d = args.dim(1, 0), runs = args.width(0) / d;
  float eps = float(args.real("eps"));
  const T *w = args.pointer<T>(1);
  Range rows = tileRows<0>(args, tile);
  for (int64_t t = rows.begin * runs; t < rows.end * runs; ++t) {
    const T *x = args.pointer<T>(0) + t * d;
    T *y = args.pointer<T>(2) + t * d;
    float r = inverseRms(x, d, eps);
    for (int64_t j = 0; j < d; ++j)
      store(y[j], load(x[j]) * r * load(w[j]));
  }
}

/// Operands x, w, dy -> dx = r (w dy - x r^2 mean(w dy x)).
template <typename T> void runRmsNormDgrad(const Args &args, int64_t tile) {
  int64_t d = args.dim(1, 0), runs = args.width(0) / d;
  float eps = float(args.real("eps"));
  const T *w = args.pointer<T>(1);
  Range rows = tileRows<0>(args, tile);
  for (int64_t t = rows.begin * runs; t < rows.end * runs; ++t) {
    const T *x = args.pointer<T>(0) + t * d, *dy = args.pointer<T>(2) + t * d;
    T *dx = args.pointer<T>(3) + t * d;
    float r = inverseRms(x, d, eps);
    float dot = sumOf(
        d, [&](int64_t j) { return load(w[j]) * load(dy[j]) * load(x[j]); });
    float scale = r * r * (dot / float(d));
    for (int64_t j = 0; j < d; ++j)
      store(dx[j], r * (load(w[j]) * load(dy[j]) - load(x[j]) * scale));
  }
}

// Tiles are runs of columns; each needs the norms of all rows again, so they
// are wide.
constexpr int64_t kColumns = 2048;

int64_t rmsNormWgradTiles(const Launch &launch) {
  return ceilDiv(Args(launch).dim(2, 0), kColumns);
}

/// Operands x, dy, acc.
template <typename T> void runRmsNormWgrad(const Args &args, int64_t tile) {
  int64_t d = args.dim(2, 0), runs = args.elements(0) / d;
  float eps = float(args.real("eps"));
  Range columns = slice(d, kColumns, tile);
  float sums[kColumns] = {};
  for (int64_t t = 0; t < runs; ++t) {
    const T *x = args.pointer<T>(0) + t * d, *dy = args.pointer<T>(1) + t * d;
    float r = inverseRms(x, d, eps);
    for (int64_t j = 0; j < columns.size(); ++j)
      sums[j] += load(dy[columns.begin + j]) * load(x[columns.begin + j]) * r;
  }
  float *acc = args.pointer<float>(2) + columns.begin;
  for (int64_t j = 0; j < columns.size(); ++j)
    acc[j] += sums[j];
}

} // namespace

const HostKernel kernels::rmsNorm = {
    rowTiles<0>, typed<0, runRmsNorm<float>, runRmsNorm<BF16>>};
const HostKernel kernels::rmsNormDgrad = {
    rowTiles<0>, typed<0, runRmsNormDgrad<float>, runRmsNormDgrad<BF16>>};
const HostKernel kernels::rmsNormWgrad = {
    rmsNormWgradTiles, typed<0, runRmsNormWgrad<float>, runRmsNormWgrad<BF16>>};
