//===- Library.h - The list of host kernels -------------------------------===//

#ifndef MOE_LIB_RUNTIME_KERNELS_LIBRARY_H
#define MOE_LIB_RUNTIME_KERNELS_LIBRARY_H

#include "moe/Runtime/Kernels.h"

namespace moert::kernels {

// Constants, not functions: Registry.cpp must run on any processor.
extern const HostKernel linear, linearDgrad, linearWgrad;
extern const HostKernel groupedLinear, groupedLinearDgrad, groupedLinearWgrad;
extern const HostKernel attention, attentionGrad;
extern const HostKernel embedding, embeddingWgrad, rope, add, zero;
extern const HostKernel swiglu, swigluGrad;
extern const HostKernel rmsNorm, rmsNormDgrad, rmsNormWgrad;
extern const HostKernel route, routeGrad;
extern const HostKernel permutation, permute, unpermute;
extern const HostKernel permuteProbs, unpermuteProbs, localRows, sortChunks;
extern const HostKernel crossEntropy, crossEntropyGrad;
extern const HostKernel sum, sumSquares, gradNorm, adamw;

} // namespace moert::kernels

#endif // MOE_LIB_RUNTIME_KERNELS_LIBRARY_H
