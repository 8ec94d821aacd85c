//===- Linear.cpp - Linear layers, plain and grouped by expert ------------===//

#include "Gemm.h"
#include "Library.h"

using namespace moert;
using namespace moert::kernels;

namespace {

/// Output tile of a product, y[rows, columns] = a b.
template <typename T>
void writeTile(Panel<T> a, Panel<T> b, int64_t k, Range rows, Range columns,
               T *y, int64_t width) {
  a = a.from(rows.begin);
  b = b.from(columns.begin);
  y += rows.begin * width + columns.begin;
  if constexpr (std::is_same_v<T, float>) {
    multiply(a, b, rows.size(), columns.size(), k, y, width, false);
  } else {
    float *sums = scratch<1>(kTileM * kTileN);
    multiply(a, b, rows.size(), columns.size(), k, sums, kTileN, false);
    for (int64_t i = 0; i < rows.size(); ++i)
      for (int64_t j = 0; j < columns.size(); ++j)
        store(y[i * width + j], sums[i * kTileN + j]);
  }
}

template <typename T>
void addTile(Panel<T> a, Panel<T> b, int64_t k, Range rows, Range columns,
             float *acc, int64_t width) {
  multiply(a.from(rows.begin), b.from(columns.begin), rows.size(),
           columns.size(), k, acc + rows.begin * width + columns.begin, width,
           true);
}

// A matrix [r, c] as a panel: of its rows (k runs over columns), or of its
// columns (k runs over rows).
template <typename T> Panel<T> byRows(const T *data, int64_t columns) {
  return {data, columns, 1};
}
template <typename T> Panel<T> byColumns(const T *data, int64_t columns) {
  return {data, 1, columns};
}

//===----------------------------------------------------------------------===//
// Plain: operands (x, w, y), (dy, w, dx), (x, dy, acc)
//===----------------------------------------------------------------------===//

int64_t outputTiles(const Launch &launch) {
  Args args(launch);
  return ceilDiv(args.dim(2, 0), kTileM) * ceilDiv(args.dim(2, 1), kTileN);
}

struct OutputTile {
  Range rows, columns;
  OutputTile(int64_t m, int64_t n, int64_t tile)
      : rows(slice(m, kTileM, tile / ceilDiv(n, kTileN))),
        columns(slice(n, kTileN, tile % ceilDiv(n, kTileN))) {}
};

template <typename T> void runLinear(const Args &args, int64_t tile) {
  int64_t in = args.dim(1, 1), out = args.dim(1, 0);
  OutputTile t(args.dim(2, 0), out, tile);
  writeTile(byRows(args.pointer<T>(0), in), byRows(args.pointer<T>(1), in), in,
            t.rows, t.columns, args.pointer<T>(2), out);
}

template <typename T> void runLinearDgrad(const Args &args, int64_t tile) {
  int64_t in = args.dim(1, 1), out = args.dim(1, 0);
  OutputTile t(args.dim(2, 0), in, tile);
  writeTile(byRows(args.pointer<T>(0), out), byColumns(args.pointer<T>(1), in),
            out, t.rows, t.columns, args.pointer<T>(2), in);
}

template <typename T> void runLinearWgrad(const Args &args, int64_t tile) {
  int64_t in = args.dim(2, 1), out = args.dim(2, 0);
  OutputTile t(out, in, tile);
  addTile(byColumns(args.pointer<T>(1), out), byColumns(args.pointer<T>(0), in),
          args.dim(0, 0), t.rows, t.columns, args.pointer<float>(2), in);
}

//===----------------------------------------------------------------------===//
// Grouped: operands (x, w, rows, y), (dy, w, rows, dx), (x, dy, rows, acc)
//===----------------------------------------------------------------------===//

/// No more row tiles than this, however the rows are spread over the experts.
int64_t groupedRowTiles(int64_t capacity, int64_t experts) {
  return capacity / kTileM + experts;
}

int64_t groupedTiles(const Launch &launch) {
  Args args(launch);
  return groupedRowTiles(args.dim(3, 0), args.dim(1, 0)) *
         ceilDiv(args.dim(3, 1), kTileN);
}

/// Finds the expert and rows of a row tile; false: there are fewer tiles.
bool findRowTile(const RaggedRows &ragged, int64_t rowTile, int64_t &expert,
                 Range &rows) {
  bool found = false;
  ragged.each([&](int64_t e, Range r) {
    int64_t tiles = ceilDiv(r.size(), kTileM);
    if (rowTile >= tiles) {
      rowTile -= tiles;
      return false;
    }
    expert = e;
    rows = {r.begin + rowTile * kTileM,
            std::min(r.end, r.begin + (rowTile + 1) * kTileM)};
    return found = true;
  });
  return found;
}

template <typename T, bool Grad>
void runGrouped(const Args &args, int64_t tile) {
  int64_t experts = args.dim(1, 0), out = args.dim(1, 1), in = args.dim(1, 2);
  int64_t n = Grad ? in : out, k = Grad ? out : in;
  int64_t columnTiles = ceilDiv(n, kTileN), expert;
  RaggedRows ragged(args.pointer<int32_t>(2), experts, args.dim(0, 0));
  Range rows;
  if (!findRowTile(ragged, tile / columnTiles, expert, rows))
    return;
  const T *w = args.pointer<T>(1) + expert * out * in;
  writeTile(byRows(args.pointer<T>(0), k),
            Grad ? byColumns(w, in) : byRows(w, in), k, rows,
            slice(n, kTileN, tile % columnTiles), args.pointer<T>(3), n);
}

int64_t groupedWgradTiles(const Launch &launch) {
  Args args(launch);
  return args.dim(3, 0) * ceilDiv(args.dim(3, 1), kTileM) *
         ceilDiv(args.dim(3, 2), kTileN);
}

template <typename T> void runGroupedWgrad(const Args &args, int64_t tile) {
  int64_t experts = args.dim(3, 0), out = args.dim(3, 1), in = args.dim(3, 2);
  int64_t perExpert = ceilDiv(out, kTileM) * ceilDiv(in, kTileN);
  int64_t expert = tile / perExpert;
  Range rows =
      RaggedRows(args.pointer<int32_t>(2), experts, args.dim(0, 0)).of(expert);
  if (rows.size() == 0)
    return;
  OutputTile t(out, in, tile % perExpert);
  addTile(byColumns(args.pointer<T>(1) + rows.begin * out, out),
          byColumns(args.pointer<T>(0) + rows.begin * in, in), rows.size(),
          t.rows, t.columns, args.pointer<float>(3) + expert * out * in, in);
}

} // namespace

const HostKernel kernels::linear = {
    outputTiles, typed<0, runLinear<float>, runLinear<BF16>>};
const HostKernel kernels::linearDgrad = {
    outputTiles, typed<0, runLinearDgrad<float>, runLinearDgrad<BF16>>};
const HostKernel kernels::linearWgrad = {
    outputTiles, typed<0, runLinearWgrad<float>, runLinearWgrad<BF16>>};
const HostKernel kernels::groupedLinear = {
    groupedTiles, typed<0, runGrouped<float, false>, runGrouped<BF16, false>>};
const HostKernel kernels::groupedLinearDgrad = {
    groupedTiles, typed<0, runGrouped<float, true>, runGrouped<BF16, true>>};
const HostKernel kernels::groupedLinearWgrad = {
    groupedWgradTiles, typed<0, runGroupedWgrad<float>, runGroupedWgrad<BF16>>};
