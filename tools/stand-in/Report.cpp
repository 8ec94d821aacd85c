//===- Report.cpp - Settings, findings and counts ---------------*- C++ -*-===//

#include "Report.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace standin {
namespace {

constexpr int kFaultStatus = 86;

std::string variable(const char *name) {
  const char *value = std::getenv((std::string("MOE_STANDIN_") + name).c_str());
  return value ? value : "";
}

double number(const char *name, double otherwise) {
  std::string text = variable(name);
  return text.empty() ? otherwise : std::atof(text.c_str());
}

Settings readSettings() {
  Settings s;
  s.seed = std::strtoull(variable("SEED").c_str(), nullptr, 10);
  s.timeout = number("TIMEOUT", 20);
  s.uninitialised = number("UNINITIALISED", 0) != 0;
  s.noDriver = number("NODRIVER", 0) != 0;
  s.devices = int(number("DEVICES", 8));
  s.capabilityMajor = 9;
  s.capabilityMinor = 0;
  std::sscanf(variable("CAPABILITY").c_str(), "%d.%d", &s.capabilityMajor,
              &s.capabilityMinor);
  s.cublasLt = size_t(number("CUBLASLT", 0));
  s.failRank = -1;
  s.failSequence = -1;
  std::sscanf(variable("FAIL").c_str(), "%d:%ld", &s.failRank, &s.failSequence);
  return s;
}

/// A line for each process: several share the file.
void writeReport() {
  std::string file = variable("REPORT");
  if (file.empty())
    return;
  Counts &c = counts();
  if (FILE *out = std::fopen(file.c_str(), "a")) {
    std::fprintf(out,
                 "{\"rank\": %d, \"ops\": %ld, \"graphs\": %ld, \"nccl\": %ld, "
                 "\"faults\": %ld}\n",
                 c.rank.load(), c.ops.load(), c.graphs.load(), c.nccl.load(),
                 c.findings.load());
    std::fclose(out);
  }
}

std::string prefix() {
  int rank = counts().rank;
  return rank < 0 ? "stand-in: "
                  : "stand-in: rank " + std::to_string(rank) + ": ";
}

} // namespace

const Settings &settings() {
  static const Settings result = readSettings();
  return result;
}

Counts &counts() {
  // Never destroyed: threads of the library outlive static destructors.
  static Counts &result = *[] {
    std::atexit(writeReport);
    return new Counts;
  }();
  return result;
}

void fault(const char *kind, const std::string &text) {
  ++counts().findings;
  note(std::string(kind) + ": " + text);
  writeReport();
  std::fflush(stdout);
  ::_exit(kFaultStatus);
}

void note(const std::string &text) {
  std::string line = prefix() + text + "\n";
  // One write, so that lines of several processes don't mix.
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0)
    std::perror("stand-in");
}

} // namespace standin
