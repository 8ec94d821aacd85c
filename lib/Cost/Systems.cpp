//===- Systems.cpp - The constants of each family of machines -------------===//
//
// Every constant of the cost model, with its origin:
//   [sheet] data sheet, as quoted by ml-engineering and dgxc-benchmarking
//   [aic]   fit to NVIDIA aiconfigurator's tables of measured kernels (commit
//           095f58a5: TensorRT-LLM 1.3.0rc20, NCCL 2.29.2)
//   [mcore] arXiv 2603.07685, Scalable Training of MoE Models with Megatron
//           Core
//   [simu]  SimuMax's fit for B200
//   [est]   estimate; no public figure for it was at hand
//
//===----------------------------------------------------------------------===//

#include "Systems.h"

using namespace moert;

static constexpr double kGiB = 1024.0 * 1024 * 1024;

static System h100() {
  System s;
  s.gpusPerDomain = 8;                               // [sheet]
  s.memoryBytes = static_cast<int64_t>(79.1 * kGiB); // as CUDA reports it
  s.memoryBandwidth = 3.35e12;                       // [sheet]
  s.peakBF16 = 989.4e12;                             // [sheet]
  s.peakF32 = 67e12;                                 // [sheet]
  s.efficiency[int(KernelClass::Gemm)] = {0.77, 0.70, 4e-6}; // [aic]
  // [aic] also has the permutations in it: 50 us fixed.
  s.efficiency[int(KernelClass::GroupedGemm)] = {0.64, 0.70, 15e-6};
  // [aic] 0.48; cuDNN 518 TFLOPS at 4k (flash-attention's chart) 0.52.
  s.efficiency[int(KernelClass::Attention)] = {0.50, 0.70, 10e-6};
  s.efficiency[int(KernelClass::AttentionGrad)] = {0.43, 0.70,
                                                   10e-6};        // [mcore]
  s.efficiency[int(KernelClass::Streaming)] = {0.50, 0.67, 3e-6}; // [simu]
  s.efficiency[int(KernelClass::Gather)] = {0.50, 0.50, 3e-6};    // [simu]
  s.nvlink = 320e9;          // [mcore] Table 7, EP8: 325; [aic] 315 to 335
  s.nvlinkAllReduce = 445e9; // [aic] 8 GPUs
  s.network = 43e9;          // [mcore] Table 7, EP16 to EP64: 41 to 45
  s.nvlinkBase = 4e-6;       // [aic] 7 us for small all-to-alls of 8 GPUs
  s.nvlinkHop = 1.3e-6;
  s.networkBase = 15e-6; // [est]
  s.networkHop = 5e-6;   // [est] a hop is 3.7 us: arXiv 2505.09343, Table 5
  s.fill = 20e-6;        // [aic] 16 MB take 24 to 30 us more than bytes / rate
  s.sms = 132;           // [sheet]
  s.communicationSms = 20;        // [mcore] 20 SMs cost 20 % of GEMM rate
  s.communicationSlowdown = 0.05; // [est]
  s.hostLaunch = 4e-6;            // [est] from C++; 11 to 18 us from PyTorch
  s.hostCollective = 15e-6;       // [est]
  s.hostSend = 8e-6;              // [est]
  s.hostCopy = 4e-6;              // [est]
  s.hostGraph = 10e-6;            // [est]
  s.hostSync = 8e-6;              // [est]
  s.hostCopyLatency = 8e-6;       // [est]
  return s;
}

static System gb200() {
  System s = h100();    // Where nothing else is known.
  s.gpusPerDomain = 72; // [sheet]
  s.memoryBytes = static_cast<int64_t>(184 * kGiB); // as CUDA reports it
  s.memoryBandwidth = 8e12;                         // [sheet]
  s.peakBF16 = 2450e12;                             // [sheet]
  s.peakF32 = 80e12;                                // [sheet]
  s.efficiency[int(KernelClass::Gemm)] = {0.66, 0.70, 3e-6}; // [aic]
  // [aic] 0.56; Transformer Engine on B200, 1024 rows an expert: 0.42.
  s.efficiency[int(KernelClass::GroupedGemm)] = {0.50, 0.70, 15e-6};
  // [aic] 0.44; [mcore] 1324 and 1083 TFLOPS, backward, at 4k.
  s.efficiency[int(KernelClass::Attention)] = {0.49, 0.70, 10e-6};
  s.efficiency[int(KernelClass::AttentionGrad)] = {0.43, 0.70, 10e-6};
  s.nvlink = 560e9;          // [mcore] Table 7: 497 to 593; [aic] 488 to 564
  s.nvlinkAllReduce = 630e9; // [aic] 4 GPUs
  s.nvlinkBase = 7e-6;       // [aic] 11 us for small all-to-alls of 4 GPUs
  s.nvlinkHop = 1.8e-6;
  s.sms = 148;
  return s;
}

std::vector<Family> moert::systemFamilies() {
  return {{"h100", h100()}, {"gb200", gb200()}};
}
