//===- Report.h - Settings, findings and counts -----------------*- C++ -*-===//

#ifndef MOE_TOOLS_STAND_IN_REPORT_H
#define MOE_TOOLS_STAND_IN_REPORT_H

#include <atomic>
#include <cstdint>
#include <string>

namespace standin {

/// Of the environment: MOE_STANDIN_<NAME>; see docs/StandIn.md.
struct Settings {
  uint64_t seed;
  double timeout;
  bool uninitialised;
  bool noDriver;
  int devices;
  int capabilityMajor, capabilityMinor;
  /// 0: that of the headers.
  size_t cublasLt;
  /// Of the NCCL op that fails; -1: none.
  int failRank;
  long failSequence;
};
const Settings &settings();

/// Of this process, for the report that it leaves at its end.
struct Counts {
  std::atomic<long> ops{0}, graphs{0}, nccl{0}, findings{0};
  /// In its first communicator; -1 before.
  std::atomic<int> rank{-1};
};
Counts &counts();

/// Says what is wrong and ends the process with status 86: nothing after a
/// fault is worth running.
[[noreturn]] void fault(const char *kind, const std::string &text);
/// Says why a call is about to return an error.
void note(const std::string &text);

} // namespace standin

#endif // MOE_TOOLS_STAND_IN_REPORT_H
