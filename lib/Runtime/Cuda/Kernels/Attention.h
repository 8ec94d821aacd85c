//===- Attention.h - Causal attention without tensor cores ------*- C++ -*-===//
//
// For f32, which cuDNN doesn't attend to. A warp owns a row and a head of it,
// and writes what no other does. It takes the rows of the other side kSize at a
// time: each lane makes the scores of one of them, then the lanes share the
// columns of the sums. A head wider than kColumns takes several rounds.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_KERNELS_ATTENTION_H
#define MOE_LIB_RUNTIME_CUDA_KERNELS_ATTENTION_H

#include "Group.h"

namespace moert::cuda::kernels {

struct AttentionSizes {
  int64_t d, heads, kvHeads, sequence, tokens;
  float scale;

  MOE_DEVICE explicit AttentionSizes(const Arguments &a)
      : d(int64_t(a.numbers[0])), heads(int64_t(a.numbers[1])),
        kvHeads(int64_t(a.numbers[2])), sequence(int64_t(a.numbers[4])),
        tokens(a.dims[0][0]), scale(float(a.numbers[3])) {}

  MOE_DEVICE int64_t kvHead(int64_t head) const {
    return head / (heads / kvHeads);
  }
};

/// Elements from a token's head on.
template <typename T>
MOE_DEVICE T *headOf(const Arguments &a, int operand, int64_t token,
                     int64_t head, const AttentionSizes &s) {
  return pointer<T>(a, operand) + token * a.dims[operand][1] + head * s.d;
}

template <typename T> MOE_DEVICE float dot(const T *x, const T *y, int64_t n) {
  using Piece = Vector<T>;
  float v = 0.0f;
  int64_t i = 0;
  if (aligned(x) && aligned(y)) {
    MOE_NO_UNROLL
    for (; i + Piece::kSize <= n; i += Piece::kSize) {
      Piece a = *reinterpret_cast<const Piece *>(x + i);
      Piece b = *reinterpret_cast<const Piece *>(y + i);
      MOE_UNROLL
      for (int j = 0; j < Piece::kSize; ++j)
        v = fmaf(load(a.values[j]), load(b.values[j]), v);
    }
  }
  MOE_NO_UNROLL
  for (; i < n; ++i)
    v = fmaf(load(x[i]), load(y[i]), v);
  return v;
}

/// The sums of one row, columns [begin, ...) of it: each lane has every
/// kSize-th.
template <typename Warp> struct Columns {
  static constexpr int kColumns = 256, kMine = kColumns / Warp::kSize;
  float values[kMine];

  MOE_DEVICE Columns() {
    MOE_UNROLL
    for (int j = 0; j < kMine; ++j)
      values[j] = 0.0f;
  }
  MOE_DEVICE void scale(float by) {
    MOE_UNROLL
    for (int j = 0; j < kMine; ++j)
      values[j] *= by;
  }
  template <typename T>
  MOE_DEVICE void add(float weight, const T *x, int64_t first, int64_t d) {
    MOE_UNROLL
    for (int j = 0; j < kMine; ++j)
      if (first + j * Warp::kSize < d)
        values[j] = fmaf(weight, load(x[first + j * Warp::kSize]), values[j]);
  }
  template <typename T>
  MOE_DEVICE void write(T *y, int64_t first, int64_t d) const {
    MOE_UNROLL
    for (int j = 0; j < kMine; ++j)
      if (first + j * Warp::kSize < d)
        store(y[first + j * Warp::kSize], values[j]);
  }
};

//===----------------------------------------------------------------------===//
// attention: q, k, v -> o, lse
//===----------------------------------------------------------------------===//

template <typename T> struct Attention : SimpleKernel {
  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &, const Arguments &a) {
    AttentionSizes s(a);
    Deal work = toWarps(block);
    // Late rows see most keys: first.
    for (int64_t i = work.first; i < s.tokens * s.heads; i += work.step)
      for (int64_t begin = 0; begin < s.d;
           begin += Columns<typename Block::Warp>::kColumns)
        runRow(block.warp, a, s, s.tokens - 1 - i / s.heads, i % s.heads,
               begin);
  }
  static int64_t blocks(const Arguments &a) {
    return blocksFor(a.dims[0][0] * int64_t(a.numbers[1]), kWarpsOfBlock);
  }

private:
  template <typename Warp>
  MOE_DEVICE static void runRow(const Warp &warp, const Arguments &a,
                                const AttentionSizes &s, int64_t token,
                                int64_t head, int64_t begin) {
    int64_t kvHead = s.kvHead(head), column = begin + warp.rank();
    const T *q = headOf<const T>(a, 0, token, head, s);
    Columns<Warp> sums;
    float largest = -INFINITY, total = 0.0f;
    for (int64_t t = token / s.sequence * s.sequence; t <= token;
         t += Warp::kSize) {
      int64_t mine = t + warp.rank();
      float score = -INFINITY;
      if (mine <= token)
        score = dot(q, headOf<const T>(a, 1, mine, kvHead, s), s.d) * s.scale;
      float top = maximum(warp, score);
      top = top > largest ? top : largest;
      float p = mine <= token ? expf(score - top) : 0.0f;
      float rescale = expf(largest - top);
      total = total * rescale + sum(warp, p);
      sums.scale(rescale);
      largest = top;
      int64_t seen = token - t + 1;
      MOE_NO_UNROLL
      for (int lane = 0; lane < Warp::kSize && lane < seen; ++lane)
        sums.add(warp.shuffle(p, lane),
                 headOf<const T>(a, 2, t + lane, kvHead, s), column, s.d);
    }
    sums.scale(1.0f / total);
    sums.write(headOf<T>(a, 3, token, head, s), column, s.d);
    if (begin == 0 && warp.rank() == 0)
      pointer<float>(a, 4)[token * s.heads + head] =
          float(double(largest) + log(double(total)));
  }
};

//===----------------------------------------------------------------------===//
// attention_grad: q, k, v, o, lse, do -> dq, dk, dv. Query rows make dq, key
// rows dk and dv, both the probabilities again from lse.
//===----------------------------------------------------------------------===//

template <typename T> struct AttentionGrad : SimpleKernel {
  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &, const Arguments &a) {
    AttentionSizes s(a);
    constexpr int kColumns = Columns<typename Block::Warp>::kColumns;
    int64_t ofKeys = s.tokens * s.kvHeads, ofQueries = s.tokens * s.heads;
    Deal work = toWarps(block);
    for (int64_t i = work.first; i < ofKeys + ofQueries; i += work.step)
      for (int64_t begin = 0; begin < s.d; begin += kColumns) {
        if (i < ofKeys)
          runKey(block.warp, a, s, i / s.kvHeads, i % s.kvHeads, begin);
        else
          runQuery(block.warp, a, s, s.tokens - 1 - (i - ofKeys) / s.heads,
                   (i - ofKeys) % s.heads, begin);
      }
  }
  static int64_t blocks(const Arguments &a) {
    int64_t rows = int64_t(a.numbers[1]) + int64_t(a.numbers[2]);
    return blocksFor(a.dims[0][0] * rows, kWarpsOfBlock);
  }

private:
  /// Of one score: the probability, and the gradient of the product of q and k.
  struct Score {
    float p, grad;
  };

  MOE_DEVICE static float outputDot(const Arguments &a, const AttentionSizes &s,
                                    int64_t query, int64_t head) {
    return dot(headOf<const T>(a, 3, query, head, s),
               headOf<const T>(a, 5, query, head, s), s.d);
  }
  MOE_DEVICE static Score score(const Arguments &a, const AttentionSizes &s,
                                int64_t query, int64_t key, int64_t head,
                                float outputDot) {
    int64_t kvHead = s.kvHead(head);
    float product = dot(headOf<const T>(a, 0, query, head, s),
                        headOf<const T>(a, 1, key, kvHead, s), s.d);
    float lse = pointer<float>(a, 4)[query * s.heads + head];
    float p = expf(product * s.scale - lse);
    float dp = dot(headOf<const T>(a, 5, query, head, s),
                   headOf<const T>(a, 2, key, kvHead, s), s.d);
    return {p, p * (dp - outputDot) * s.scale};
  }

  template <typename Warp>
  MOE_DEVICE static void runQuery(const Warp &warp, const Arguments &a,
                                  const AttentionSizes &s, int64_t token,
                                  int64_t head, int64_t begin) {
    int64_t column = begin + warp.rank();
    float output = outputDot(a, s, token, head);
    Columns<Warp> dq;
    for (int64_t t = token / s.sequence * s.sequence; t <= token;
         t += Warp::kSize) {
      int64_t mine = t + warp.rank(), seen = token - t + 1;
      float grad =
          mine <= token ? score(a, s, token, mine, head, output).grad : 0.0f;
      MOE_NO_UNROLL
      for (int lane = 0; lane < Warp::kSize && lane < seen; ++lane)
        dq.add(warp.shuffle(grad, lane),
               headOf<const T>(a, 1, t + lane, s.kvHead(head), s), column, s.d);
    }
    dq.write(headOf<T>(a, 6, token, head, s), column, s.d);
  }

  template <typename Warp>
  MOE_DEVICE static void runKey(const Warp &warp, const Arguments &a,
                                const AttentionSizes &s, int64_t token,
                                int64_t kvHead, int64_t begin) {
    int64_t column = begin + warp.rank(), group = s.heads / s.kvHeads;
    int64_t end = (token / s.sequence + 1) * s.sequence;
    Columns<Warp> dk, dv;
    for (int64_t head = kvHead * group; head < (kvHead + 1) * group; ++head)
      for (int64_t t = token; t < end; t += Warp::kSize) {
        int64_t mine = t + warp.rank(), seen = end - t;
        Score own = {0.0f, 0.0f};
        if (mine < end)
          own = score(a, s, mine, token, head, outputDot(a, s, mine, head));
        MOE_NO_UNROLL
        for (int lane = 0; lane < Warp::kSize && lane < seen; ++lane) {
          dk.add(warp.shuffle(own.grad, lane),
                 headOf<const T>(a, 0, t + lane, head, s), column, s.d);
          dv.add(warp.shuffle(own.p, lane),
                 headOf<const T>(a, 5, t + lane, head, s), column, s.d);
        }
      }
    dk.write(headOf<T>(a, 7, token, kvHead, s), column, s.d);
    dv.write(headOf<T>(a, 8, token, kvHead, s), column, s.d);
  }
};

} // namespace moert::cuda::kernels

#endif // MOE_LIB_RUNTIME_CUDA_KERNELS_ATTENTION_H
