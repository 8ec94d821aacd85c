//===- System.h - What a machine's work costs -----------------------------===//
//
// Few physical constants for each family of machines (Systems.cpp, with their
// origins), and the prices of kernels, collectives and host work they give.
// Units: seconds, bytes, FLOP, and bytes or FLOP per second.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COST_SYSTEM_H
#define MOE_COST_SYSTEM_H

#include "moe/Table/Table.h"

namespace moert {

/// Kernels of one class reach about the same share of the machine's peak.
enum class KernelClass : uint8_t {
  Gemm,
  GroupedGemm,
  Attention,
  AttentionGrad,
  /// Reads and writes rows in order: norms, activations, sums, optimizer.
  Streaming,
  /// Moves rows by an index: permutations, embedding.
  Gather,
};
inline constexpr int kKernelClasses = 6;

/// Class of a Kernel::op; what is not known (generated kernels) is Streaming.
KernelClass kernelClass(const std::string &op);

struct System {
  /// As parsed, such as "h100x16".
  std::string name;
  int64_t gpus = 1;
  /// GPUs that NVLink connects. A group's members lie in as few domains as
  /// their number and stride permit (jobs are placed so).
  int64_t gpusPerDomain = 1;
  /// Memory of one GPU that a process can have.
  int64_t memoryBytes = 0;
  double memoryBandwidth = 0;
  /// Dense matrix peak for bf16, vector peak for f32.
  double peakBF16 = 0, peakF32 = 0;

  /// Shares of the peaks that a class reaches, and what each kernel costs
  /// besides (start, ramps, tail).
  struct Efficiency {
    double flops = 1, bandwidth = 1, fixed = 0;
  };
  Efficiency efficiency[kKernelClasses];

  /// Achieved, per GPU and direction: over NVLink (all-reduce apart: it uses
  /// the switch), and over the GPU's network card.
  double nvlink = 0, nvlinkAllReduce = 0, network = 0;
  /// A collective's latency is base + hop * log2(members), and up to `fill`
  /// more to fill the pipe where there are bytes to move (half at kFillBytes).
  double nvlinkBase = 0, nvlinkHop = 0, networkBase = 0, networkHop = 0;
  double fill = 0;
  static constexpr double kFillBytes = 4e6;

  int64_t sms = 1;
  /// SMs that a collective's kernels take where the library decides.
  int64_t communicationSms = 0;
  /// Share of its rate that a collective loses while kernels compute beside
  /// it.
  double communicationSlowdown = 0;

  /// Host time to issue a kernel, a collective, a send or receive, a copy to
  /// the host, a captured range; and for the host to see that a copy is done.
  double hostLaunch = 0, hostCollective = 0, hostSend = 0, hostCopy = 0,
         hostGraph = 0, hostSync = 0;
  /// Time of a copy of a few counts to the host.
  double hostCopyLatency = 0;
};

/// "h100xN" and "gb200xN", N >= 1. False, and an error that lists what exists.
bool parseSystem(const std::string &text, System &system, std::string &error);

/// Roofline: max(flops / (peak * efficiency), bytes / (bandwidth *
/// efficiency)) + fixed, with the efficiencies of the op's class. Streaming
/// and Gather kernels use the vector peak whatever their type.
double kernelSeconds(const System &system, const std::string &op, double flops,
                     double bytes, ElementType type);

/// Time of one collective on a group of `size` ranks `stride` apart, all
/// starting together: latency + max(time on NVLink, time on the network), as
/// the two paths work side by side. An all-reduce is a reduce-scatter and an
/// all-gather and has twice the latency. `bytes` is the size of one rank's
/// input:
///   ExchangeCounts, AllToAll     rows sent to all members, itself included
///   AllReduceSum, AllReduceMax   x
///   ReduceScatter                x[n], so size times what a rank receives
///   AllGather                    x[n], so 1/size of what a rank receives
/// Inside a domain, of `near` members: an all-to-all sends (near - 1)/size of
/// its bytes over NVLink, (size - near)/size over the rank's network card. The
/// others gather or scatter: (size - 1) shares over NVLink, and the domain's
/// cards together move the (size - near) shares of other domains once.
double collectiveSeconds(const System &system, CollectiveKind kind,
                         double bytes, int64_t size, int64_t stride);

/// Time of a send to the rank `distance` away.
double sendSeconds(const System &system, double bytes, int64_t distance);

/// Do all ranks of a group share an NVLink domain?
bool insideDomain(const System &system, int64_t size, int64_t stride);

/// Host time to issue an op; captured ops cost nothing of their own: the range
/// costs System::hostGraph.
double hostSeconds(const System &system, OpKind kind, bool captured);

/// Share of the compute rate that a collective takes away while it runs:
/// its SMs. `smBudget` is Communicator::smBudget.
double computeSlowdown(const System &system, int64_t smBudget);

} // namespace moert

#endif // MOE_COST_SYSTEM_H
