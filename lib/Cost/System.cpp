//===- System.cpp - What a machine's work costs ---------------------------===//

#include "moe/Cost/System.h"
#include "Systems.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

using namespace moert;

static bool startsWith(const std::string &text, const char *prefix) {
  return text.rfind(prefix, 0) == 0;
}

KernelClass moert::kernelClass(const std::string &op) {
  if (startsWith(op, "linear"))
    return KernelClass::Gemm;
  if (startsWith(op, "grouped_linear"))
    return KernelClass::GroupedGemm;
  if (op == "attention_grad")
    return KernelClass::AttentionGrad;
  if (op == "attention")
    return KernelClass::Attention;
  if (startsWith(op, "permute") || startsWith(op, "unpermute") ||
      startsWith(op, "embedding") || op == "sort_chunks")
    return KernelClass::Gather;
  return KernelClass::Streaming;
}

bool moert::parseSystem(const std::string &text, System &system,
                        std::string &error) {
  std::string known;
  for (const Family &family : systemFamilies()) {
    known += std::string(known.empty() ? "" : ", ") + family.name + "xN";
    std::string prefix = std::string(family.name) + "x";
    if (!startsWith(text, prefix.c_str()))
      continue;
    std::string number = text.substr(prefix.size());
    // More than six digits is no machine and might overflow.
    if (number.empty() || number.size() > 6 || number[0] == '0' ||
        number.find_first_not_of("0123456789") != std::string::npos) {
      error = "target '" + text + "': '" + number +
              "' is not a number of GPUs from 1 to 999999";
      return false;
    }
    system = family.system;
    system.name = text;
    system.gpus = std::atoll(number.c_str());
    return true;
  }
  error = text.empty() ? "none is given; known are " + known
                       : "unknown target '" + text + "', known are " + known;
  return false;
}

double moert::kernelSeconds(const System &system, const std::string &op,
                            double flops, double bytes, ElementType type) {
  KernelClass cls = kernelClass(op);
  const System::Efficiency &reached = system.efficiency[int(cls)];
  bool vector = cls == KernelClass::Streaming || cls == KernelClass::Gather ||
                type != ElementType::BF16;
  double peak = vector ? system.peakF32 : system.peakBF16;
  return std::max(flops / (peak * reached.flops),
                  bytes / (system.memoryBandwidth * reached.bandwidth)) +
         reached.fixed;
}

/// Members of a group that share a domain with one of them, itself included.
static int64_t membersNear(const System &system, int64_t size, int64_t stride) {
  return std::clamp<int64_t>(system.gpusPerDomain / stride, 1, size);
}

bool moert::insideDomain(const System &system, int64_t size, int64_t stride) {
  return membersNear(system, size, stride) == size;
}

static double latency(const System &system, double bytes, int64_t size,
                      bool inside) {
  double hops = std::log2(static_cast<double>(size));
  return system.fill * bytes / (bytes + System::kFillBytes) +
         (inside ? system.nvlinkBase + system.nvlinkHop * hops
                 : system.networkBase + system.networkHop * hops);
}

double moert::collectiveSeconds(const System &system, CollectiveKind kind,
                                double bytes, int64_t size, int64_t stride) {
  // A group of one copies.
  if (size == 1)
    return kernelSeconds(system, "copy", 0, 2 * bytes, ElementType::F32);
  double all = static_cast<double>(size);
  double near = static_cast<double>(membersNear(system, size, stride));
  double nvlink = system.nvlink, rounds = 1;
  // Bytes over NVLink and over the network card of one rank.
  double inner = 0, outer = 0;
  switch (kind) {
  case CollectiveKind::ExchangeCounts:
  case CollectiveKind::AllToAll:
    inner = bytes * (near - 1) / all;
    outer = bytes * (all - near) / all;
    break;
  case CollectiveKind::AllReduceSum:
  case CollectiveKind::AllReduceMax:
    nvlink = system.nvlinkAllReduce;
    rounds = 2;
    inner = 2 * bytes * (all - 1) / all;
    outer = 2 * bytes * (all - near) / all / near;
    break;
  case CollectiveKind::ReduceScatter:
    inner = bytes * (all - 1) / all;
    outer = bytes * (all - near) / all / near;
    break;
  case CollectiveKind::AllGather:
    inner = bytes * (all - 1);
    outer = bytes * (all - near) / near;
    break;
  }
  // With one member a domain there is nothing for NVLink to do.
  if (near == 1)
    inner = 0;
  return rounds * latency(system, bytes, size, near == all) +
         std::max(inner / nvlink, outer / system.network);
}

double moert::sendSeconds(const System &system, double bytes,
                          int64_t distance) {
  bool inside = std::llabs(distance) < system.gpusPerDomain;
  return latency(system, bytes, 2, inside) +
         bytes / (inside ? system.nvlink : system.network);
}

double moert::hostSeconds(const System &system, OpKind kind, bool captured) {
  if (captured)
    return 0;
  switch (kind) {
  case OpKind::Launch:
    return system.hostLaunch;
  case OpKind::Collective:
    return system.hostCollective;
  case OpKind::Send:
  case OpKind::Recv:
    return system.hostSend;
  case OpKind::HostRead:
    return system.hostCopy;
  }
  return 0;
}

double moert::computeSlowdown(const System &system, int64_t smBudget) {
  int64_t taken = smBudget > 0 ? smBudget : system.communicationSms;
  return static_cast<double>(std::min(taken, system.sms)) /
         static_cast<double>(system.sms);
}
