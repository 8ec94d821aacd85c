//===- Tolerances.h - How far two computations may be apart ---------------===//
//
// All tolerances of the tests, each with its reason. Relative to the largest
// magnitude of the tensor that is compared (a scalar: its own), unless said
// otherwise. test/Execution/compare.py reads them by name from here.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_UNIT_TOLERANCES_H
#define MOE_TEST_UNIT_TOLERANCES_H

namespace moe_test {

/// Central differences of an f64 function with step 1e-5: truncation is about
/// 1e-10 of the third derivative, cancellation 1e-16 / 1e-5 = 1e-11 of the
/// loss.
inline constexpr double kFiniteDifference = 1e-7;

/// A linear map against its dual in f64: sums of at most some hundred terms
/// in another order.
inline constexpr double kDual = 1e-12;

/// Interpreter or engine in f32 against a golden in f64: every op rounds to
/// 6e-8. Losses and norms average that out (2e-7 at most, after five steps); an
/// optimizer whose epsilon or beta is a little off moves a loss by 6e-6.
inline constexpr double kGoldenLoss = 1e-6;
inline constexpr double kGoldenGradient = 1e-5;

/// Goldens of bf16 are PyTorch's, which rounds to 4e-3 at other places (within
/// attention, the softmax, the norm) than the program's ops do. Gradients are
/// not compared: a token that goes to another expert changes both experts'.
inline constexpr double kGoldenLossBf16 = 4e-3;
inline constexpr double kGoldenNormBf16 = 1e-2;

/// Engine against interpreter, the same module in f32: both round each op's
/// result to 6e-8; the interpreter sums in f64, the engine in f32.
inline constexpr double kEngineLoss = 1e-6;
inline constexpr double kEngineGradient = 1e-6;

/// The same in bf16: where the two lie on either side of a rounding boundary
/// an element differs by an ulp, 2^-8 of it. The loss averages that out.
inline constexpr double kEngineLossBf16 = 1e-4;
inline constexpr double kEngineGradientBf16 = 4e-3;

/// Two layouts: the same f32 sums, grouped by rank.
inline constexpr double kLayoutLoss = 1e-6;
inline constexpr double kLayoutGradient = 1e-5;

/// A device kernel, or its twin, against the host engine's: the same formula in
/// f32, whose sums (of at most some hundred terms of a softmax or a dot
/// product) are in another order and whose exponential is another one, each
/// within 2 ulp of 6e-8.
inline constexpr double kDeviceKernel = 3e-6;

/// Sums in f64 that are rounded once to f32: at most one ulp apart, 2^-23.
inline constexpr double kDeviceSum = 1.2e-7;

/// Two f32 values on either side of a rounding boundary of bf16: one ulp, at
/// most 2^-7 of the element. Comes on top.
inline constexpr double kOneUlpBf16 = 0.0078125;

/// cuDNN's graph of attention, computed op by op, against the host's kernels:
/// it rounds probabilities, their gradients and each head's share of a group's
/// gradient to bf16, 2^-9 of each, where the host keeps f32.
inline constexpr double kCudnnGraph = 4e-3;

/// Bytes of saved values against a formula: frames are aligned, and recompute
/// keeps some vectors of a number per row that the formula leaves out.
inline constexpr double kSavedBytes = 0.02;

/// A kernel mapped to a GPU against the library: the same f32 arithmetic, sums
/// of at most some thousand terms in another order. In bf16, an element on
/// another side of a rounding boundary: 2^-7 of it.
inline constexpr double kDeviceOrder = 2e-6;
inline constexpr double kDeviceOrderBf16 = 8e-3;

/// An executable for CUDA on the stand-in against the host engine, f32, some
/// steps: the same formulas with sums in another order.
inline constexpr double kCudaLoss = 1e-6;
inline constexpr double kCudaNorm = 1e-5;
/// AdamW divides by the square root of a small number: a parameter whose
/// gradient is near zero moves by up to the learning rate either way.
inline constexpr double kCudaWeights = 1e-3;
/// Of the second step, at weights that the first one moved so: at most 1.8e-5.
inline constexpr double kCudaGradient = 5e-5;
/// The same in bf16: roundings that fall to the other side, and cuDNN's own.
inline constexpr double kCudaLossBf16 = 1e-3;
inline constexpr double kCudaNormBf16 = 2e-3;

} // namespace moe_test

#endif // MOE_TEST_UNIT_TOLERANCES_H
