//===- Rows.h - Embedding, rotation, zero, AdamW ----------------*- C++ -*-===//

#ifndef MOE_LIB_RUNTIME_CUDA_KERNELS_ROWS_H
#define MOE_LIB_RUNTIME_CUDA_KERNELS_ROWS_H

#include "Group.h"

namespace moert::cuda::kernels {

//===----------------------------------------------------------------------===//
// embedding: table, ids -> y. A warp for each row.
//===----------------------------------------------------------------------===//

template <typename T> struct Embedding : SimpleKernel {
  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &, const Arguments &a) {
    int64_t vocabulary = a.dims[0][0], width = a.dims[0][1];
    const int32_t *ids = pointer<int32_t>(a, 1);
    Deal rows = toWarps(block), lanes = toLanes(block.warp);
    for (int64_t t = rows.first; t < a.dims[1][0]; t += rows.step) {
      int64_t id = ids[t];
      T *y = pointer<T>(a, 2) + t * width;
      // Seen in the loss, and no access out of bounds.
      if (id < 0 || id >= vocabulary)
        for (int64_t j = lanes.first; j < width; j += lanes.step)
          store(y[j], NAN);
      else
        copy(lanes, y, pointer<T>(a, 0) + id * width, width);
    }
  }
  static int64_t blocks(const Arguments &a) {
    return blocksFor(a.dims[1][0], kWarpsOfBlock);
  }
};

//===----------------------------------------------------------------------===//
// embedding_wgrad: ids, dy, acc. Tokens may share a row: a warp for each token
// and slice of its columns adds all of them if it is the first with its id.
//===----------------------------------------------------------------------===//

template <typename T> struct EmbeddingWgrad : SimpleKernel {
  static constexpr int kSlice = 512;

  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &, const Arguments &a) {
    int64_t tokens = a.dims[0][0], slices = slicesOf(a);
    Deal work = toWarps(block);
    for (int64_t i = work.first; i < tokens * slices; i += work.step)
      addSlice(block.warp, a, i / slices, i % slices * kSlice);
  }
  static int64_t blocks(const Arguments &a) {
    return blocksFor(a.dims[0][0] * slicesOf(a), kWarpsOfBlock);
  }

private:
  MOE_HOST_DEVICE static int64_t slicesOf(const Arguments &a) {
    return (a.dims[2][1] + kSlice - 1) / kSlice;
  }

  template <typename Warp>
  MOE_DEVICE static void addSlice(const Warp &warp, const Arguments &a,
                                  int64_t first, int64_t column) {
    constexpr int kSize = Warp::kSize, kMine = kSlice / kSize;
    int64_t tokens = a.dims[0][0], width = a.dims[2][1];
    const int32_t *ids = pointer<int32_t>(a, 0);
    int32_t id = ids[first];
    if (id < 0 || id >= a.dims[2][0])
      return;
    for (int64_t t = 0; t < first; t += kSize) {
      int64_t mine = t + warp.rank();
      if (warp.ballot(mine < first && ids[mine] == id))
        return;
    }
    const T *dy = pointer<T>(a, 1) + column + warp.rank();
    float *acc = pointer<float>(a, 2) + id * width + column + warp.rank(),
          sums[kMine];
    int64_t left = width - column - warp.rank();
    MOE_UNROLL
    for (int j = 0; j < kMine; ++j)
      sums[j] = j * kSize < left ? acc[j * kSize] : 0.0f;
    for (int64_t begin = first; begin < tokens; begin += kSize) {
      int64_t mine = begin + warp.rank();
      uint32_t same = warp.ballot(mine < tokens && ids[mine] == id);
      for (int64_t t = begin; same; ++t, same >>= 1)
        if (same & 1) {
          MOE_UNROLL
          for (int j = 0; j < kMine; ++j)
            if (j * kSize < left)
              sums[j] += load(dy[t * width + j * kSize]);
        }
    }
    MOE_UNROLL
    for (int j = 0; j < kMine; ++j)
      if (j * kSize < left)
        acc[j * kSize] = sums[j];
  }
};

//===----------------------------------------------------------------------===//
// rope: x -> y. A block makes the rotations of some tokens and frequencies,
// then turns all heads by them.
//===----------------------------------------------------------------------===//

template <typename T> struct Rope : SimpleKernel {
  static constexpr int kRotations = kBlock;
  struct Shared {
    float cosines[kRotations], sines[kRotations];
  };

  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &shared, const Arguments &a) {
    double base = a.numbers[0];
    int64_t headDim = int64_t(a.numbers[1]), sequence = int64_t(a.numbers[3]);
    int64_t tokens = a.dims[0][0], half = headDim / 2;
    float sign = a.numbers[2] != 0.0 ? -1.0f : 1.0f;
    // A tile: some tokens at all frequencies or one at some.
    int64_t tall = tileTokens(half),
            wide = half < kRotations ? half : kRotations;
    int64_t across = (half + wide - 1) / wide;
    int64_t tiles = (tokens + tall - 1) / tall * across;
    Deal work = toBlocks(block), threads = within(block);
    for (int64_t tile = work.first; tile < tiles; tile += work.step) {
      int64_t t = tile / across * tall, f = tile % across * wide;
      int64_t rows = tokens - t < tall ? tokens - t : tall;
      int64_t columns = half - f < wide ? half - f : wide;
      for (int64_t i = threads.first; i < rows * columns; i += threads.step) {
        // In double: at position 4096 a float angle is off by 2e-4.
        double position = double((t + i / columns) % sequence);
        double angle =
            position * pow(base, -2.0 * double(f + i % columns) / headDim);
        shared.cosines[i] = float(cos(angle));
        shared.sines[i] = sign * float(sin(angle));
      }
      block.barrier();
      constexpr int kPieces = Vector<T>::kSize;
      bool pieces = headDim % (2 * kPieces) == 0 && wide % kPieces == 0 &&
                    aligned(a.pointers[0]) && aligned(a.pointers[1]);
      if (pieces)
        turn<kPieces>(threads, shared, a, half, t, rows, f, columns);
      else
        turn<1>(threads, shared, a, half, t, rows, f, columns);
      block.barrier();
    }
  }
  static int64_t blocks(const Arguments &a) {
    return blocksFor(a.dims[0][0], tileTokens(int64_t(a.numbers[1]) / 2));
  }

private:
  MOE_HOST_DEVICE static int64_t tileTokens(int64_t half) {
    return half < kRotations ? kRotations / half : 1;
  }

  template <int N>
  MOE_DEVICE static void
  turn(Deal threads, const Shared &shared, const Arguments &a, int64_t half,
       int64_t token, int64_t rows, int64_t frequency, int64_t columns) {
    using Piece = Vector<T, N>;
    int64_t width = a.dims[0][1];
    // 32 bits divide faster, and hold the pieces of a tile.
    int heads = int(width / (2 * half)), ofHead = int(columns / N);
    int ofRow = heads * ofHead, n = int(rows) * ofRow;
    for (int i = int(threads.first); i < n; i += int(threads.step)) {
      int row = i / ofRow, head = i % ofRow / ofHead, column = i % ofHead * N;
      int64_t at = (token + row) * width + head * 2 * half + frequency + column;
      const T *x = pointer<T>(a, 0) + at;
      T *y = pointer<T>(a, 1) + at;
      Piece low = *reinterpret_cast<const Piece *>(x);
      Piece high = *reinterpret_cast<const Piece *>(x + half), newLow, newHigh;
      MOE_UNROLL
      for (int j = 0; j < N; ++j) {
        float c = shared.cosines[row * columns + column + j];
        float s = shared.sines[row * columns + column + j];
        float u = load(low.values[j]), v = load(high.values[j]);
        store(newLow.values[j], u * c - v * s);
        store(newHigh.values[j], v * c + u * s);
      }
      *reinterpret_cast<Piece *>(y) = newLow;
      *reinterpret_cast<Piece *>(y + half) = newHigh;
    }
  }
};

//===----------------------------------------------------------------------===//
// zero: -> y
//===----------------------------------------------------------------------===//

struct Zero : SimpleKernel {
  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &, const Arguments &a) {
    using Piece = Vector<float>;
    int64_t n = a.bytes[0] / sizeof(float), pieces = 0;
    Deal work = toThreads(block);
    float *y = pointer<float>(a, 0);
    if (aligned(y)) {
      pieces = n / Piece::kSize;
      for (int64_t i = work.first; i < pieces; i += work.step)
        reinterpret_cast<Piece *>(y)[i] = Piece{};
    }
    for (int64_t i = pieces * Piece::kSize + work.first; i < n; i += work.step)
      y[i] = 0.0f;
  }
  static int64_t blocks(const Arguments &a) {
    return blocksFor(a.bytes[0] / kPiece, kBlock);
  }
};

//===----------------------------------------------------------------------===//
// adamw: grad, norm, step, flag, master, m, v -> w, as the host engine's, in
// the same order of roundings. T: of w.
//===----------------------------------------------------------------------===//

template <typename T> struct AdamW : SimpleKernel {
  struct Shared {
    float rootCorrection, rate;
  };

  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &shared, const Arguments &a) {
    if (*pointer<int32_t>(a, 3) != 0)
      return;
    double beta1 = a.numbers[0], beta2 = a.numbers[1], clip = a.numbers[2];
    double eps = a.numbers[3], lr = a.numbers[4], weightDecay = a.numbers[5];
    if (within(block).first == 0) {
      double step = *pointer<int32_t>(a, 2);
      shared.rootCorrection = float(sqrt(1.0 - pow(beta2, step)));
      shared.rate = float(-lr / (1.0 - pow(beta1, step)));
    }
    block.barrier();
    Scalars s;
    s.factor = 1.0f;
    if (clip > 0.0) {
      // As torch: a norm that is not finite makes a NaN of the gradient.
      s.factor = float(clip) / (*pointer<float>(a, 1) + 1e-6f);
      s.factor = s.factor > 1.0f ? 1.0f : s.factor;
    }
    s.decay = float(1.0 - lr * weightDecay);
    s.take1 = float(1.0 - beta1);
    s.keep2 = float(beta2);
    s.take2 = float(1.0 - beta2);
    s.eps = float(eps);
    s.rootCorrection = shared.rootCorrection;
    s.rate = shared.rate;

    constexpr int kFloats = kPiece / sizeof(float);
    int64_t n = a.dims[0][0], pieces = 0;
    Deal work = toThreads(block);
    if (aligned(a.pointers[0]) && aligned(a.pointers[4]) &&
        aligned(a.pointers[5]) && aligned(a.pointers[6]) &&
        aligned(a.pointers[7], kFloats * sizeof(T))) {
      pieces = n / kFloats;
      for (int64_t i = work.first; i < pieces; i += work.step)
        update<kFloats>(a, s, i);
    }
    for (int64_t i = pieces * kFloats + work.first; i < n; i += work.step)
      update<1>(a, s, i);
  }
  static int64_t blocks(const Arguments &a) {
    return blocksFor(a.bytes[0] / kPiece, kBlock);
  }

private:
  struct Scalars {
    float factor, decay, take1, keep2, take2, eps, rootCorrection, rate;
  };

  /// The i-th piece of N elements.
  template <int N>
  MOE_DEVICE static void update(const Arguments &a, const Scalars &s,
                                int64_t i) {
    using Floats = Vector<float, N>;
    Floats grad = pointer<Floats>(a, 0)[i], master = pointer<Floats>(a, 4)[i];
    Floats m = pointer<Floats>(a, 5)[i], v = pointer<Floats>(a, 6)[i];
    Vector<T, N> w;
    MOE_UNROLL
    for (int j = 0; j < N; ++j) {
      float g = grad.values[j] * s.factor;
      float p = master.values[j] * s.decay;
      float m1 = m.values[j] + s.take1 * (g - m.values[j]);
      float v1 = v.values[j] * s.keep2 + s.take2 * g * g;
      float denominator = sqrtf(v1) / s.rootCorrection + s.eps;
      p += s.rate * m1 / denominator;
      master.values[j] = p;
      m.values[j] = m1;
      v.values[j] = v1;
      store(w.values[j], p);
    }
    pointer<Floats>(a, 4)[i] = master;
    pointer<Floats>(a, 5)[i] = m;
    pointer<Floats>(a, 6)[i] = v;
    pointer<Vector<T, N>>(a, 7)[i] = w;
  }
};

} // namespace moert::cuda::kernels

#endif // MOE_LIB_RUNTIME_CUDA_KERNELS_ROWS_H
