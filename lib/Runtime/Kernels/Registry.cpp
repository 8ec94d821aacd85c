//===- Registry.cpp - Host kernels by name --------------------------------===//
//
// This file and Signature.cpp are compiled for any processor of the
// architecture, the kernels may be for newer ones.
//
//===----------------------------------------------------------------------===//

#include "Library.h"
#include "Signature.h"

using namespace moert;
using namespace moert::kernels;

namespace {

struct Entry {
  const HostKernel *kernel;
  Signature signature;
};

#define ATTENTION "heads# kv_heads# head_dim# sequence# scale"

const std::map<std::string, Entry> &library() {
  static const std::map<std::string, Entry> entries = {
      {"embedding", {&embedding, {"table x[V,h], ids i32[T] -> y x[T,h]"}}},
      {"embedding_wgrad",
       {&embeddingWgrad, {"ids i32[T], dy x[T,h], acc rw f32[V,h]"}}},
      {"rms_norm", {&rmsNorm, {"x x[T,m*d], w x[d] -> y x[T,m*d]", "eps"}}},
      {"rms_norm_dgrad",
       {&rmsNormDgrad,
        {"x x[T,m*d], w x[d], dy x[T,m*d] -> dx x[T,m*d]", "eps"}}},
      {"rms_norm_wgrad",
       {&rmsNormWgrad, {"x x[T,m*d], dy x[T,m*d], acc rw f32[d]", "eps"}}},
      {"linear", {&linear, {"x x[T,in], w x[out,in] -> y x[T,out]"}}},
      {"linear_dgrad",
       {&linearDgrad, {"dy x[T,out], w x[out,in] -> dx x[T,in]"}}},
      {"linear_wgrad",
       {&linearWgrad, {"x x[T,in], dy x[T,out], acc rw f32[out,in]"}}},
      {"rope",
       {&rope,
        {"x x[T,m*head_dim] -> y x[T,m*head_dim]",
         "head_dim# base sequence# inverse?", "2|head_dim"}}},
      {"attention",
       {&attention,
        {"q x[T,heads*head_dim], k x[T,kv_heads*head_dim], "
         "v x[T,kv_heads*head_dim] -> o x[T,heads*head_dim], lse f32[T,heads]",
         ATTENTION, "sequence|T kv_heads|heads"}}},
      {"attention_grad",
       {&attentionGrad,
        {"q x[T,heads*head_dim], k x[T,kv_heads*head_dim], "
         "v x[T,kv_heads*head_dim], o x[T,heads*head_dim], lse f32[T,heads], "
         "do x[T,heads*head_dim] -> dq x[T,heads*head_dim], "
         "dk x[T,kv_heads*head_dim], dv x[T,kv_heads*head_dim]",
         ATTENTION, "sequence|T kv_heads|heads"}}},
      {"route",
       {&route,
        {"logits x[T,E] -> probs x[T,k], indices i32[T,k]", "normalize?",
         "k<=E"}}},
      {"route_grad",
       {&routeGrad,
        {"logits x[T,E], probs x[T,k], indices i32[T,k], dprobs x[T,k] -> "
         "dlogits x[T,E]",
         "normalize?", "k<=E"}}},
      {"permutation",
       {&permutation, {"indices i32[T,k] -> map i32[T,k], counts i32[E]"}}},
      {"permute", {&permute, {"x x[T,w], map i32[T,k] -> y x[T*k,w]"}}},
      {"unpermute", {&unpermute, {"y x[T*k,w], map i32[T,k] -> x x[T,w]"}}},
      {"permute_probs",
       {&permuteProbs, {"probs x[T,k], map i32[T,k] -> p x[T*k]"}}},
      {"unpermute_probs",
       {&unpermuteProbs, {"p x[T*k], map i32[T,k] -> probs x[T,k]"}}},
      {"local_rows",
       {&localRows, {"recv i32[ranks*E] -> rows i32[E]", "ranks#"}}},
      {"sort_chunks",
       {&sortChunks,
        {"x x[C,...], recv i32[ranks*E] -> y x[C,...]", "ranks# inverse?"}}},
      {"grouped_linear",
       {&groupedLinear,
        {"x x[C,in], w x[E,out,in], rows i32[E] -> y x[C,out]"}}},
      {"grouped_linear_dgrad",
       {&groupedLinearDgrad,
        {"dy x[C,out], w x[E,out,in], rows i32[E] -> dx x[C,in]"}}},
      {"grouped_linear_wgrad",
       {&groupedLinearWgrad,
        {"x x[C,in], dy x[C,out], rows i32[E], acc rw f32[E,out,in]"}}},
      {"swiglu", {&swiglu, {"x x[C,2*f], p x[C], rows i32[E] -> a x[C,f]"}}},
      {"swiglu_grad",
       {&swigluGrad,
        {"x x[C,2*f], p x[C], da x[C,f], rows i32[E] -> dx x[C,2*f], "
         "dp x[C]"}}},
      {"add", {&add, {"a x[...], b x[...] -> y x[...]"}}},
      {"cross_entropy",
       {&crossEntropy,
        {"logits x[T,V], labels i32[T] -> loss f32[1]", "scale"}}},
      {"cross_entropy_grad",
       {&crossEntropyGrad,
        {"logits x[T,V], labels i32[T] -> dlogits x[T,V]", "scale"}}},
      {"zero", {&zero, {"-> y f32[...]"}}},
      {"sum", {&sum, {"x f32[n] -> y f32[1]"}}},
      {"sum_squares", {&sumSquares, {"x f32[n] -> y f32[1]"}}},
      {"grad_norm", {&gradNorm, {"x f32[n] -> y f32[1]"}}},
      {"adamw",
       {&adamw,
        {"grad f32[m], norm f32[1], step i32[1], flag i32[1], "
         "master rw f32[m], m rw f32[m], v rw f32[m] -> w x[m]",
         "lr beta1 beta2 eps weight_decay clip"}}},
  };
  return entries;
}

/// What this processor lacks to run the kernels; empty: nothing.
std::string missingFeature() {
#ifdef MOE_KERNELS_X86_64_V3
  if (!__builtin_cpu_supports("x86-64-v3"))
    return "the host kernels of this build need a processor with AVX2 and FMA "
           "(x86-64-v3)";
#endif
  return "";
}

} // namespace

const HostKernel *moert::findHostKernel(const std::string &op) {
  auto it = library().find(op);
  return it == library().end() ? nullptr : it->second.kernel;
}

std::string moert::checkSignature(const Kernel &kernel,
                                  const std::vector<Operand> &operands) {
  auto it = library().find(kernel.op);
  if (it == library().end())
    return "kernel '" + kernel.name + "': the host has no kernel '" +
           kernel.op + "'";
  return match(it->second.signature, kernel, operands);
}

std::string moert::checkLaunch(const Kernel &kernel,
                               const std::vector<Operand> &operands) {
  if (std::string missing = missingFeature(); !missing.empty())
    return missing;
  return checkSignature(kernel, operands);
}
