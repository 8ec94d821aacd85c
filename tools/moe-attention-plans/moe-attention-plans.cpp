//===- moe-attention-plans.cpp - What cuDNN builds for a device -----------===//
//
// usage: moe-attention-plans DEVICE.json... < SHAPES
//
// Builds the forward and backward plan of attention for each device and each
// line of SHAPES ("name batch sequence heads kvHeads headDim", # starts a
// comment) and prints a table. Needs no GPU: it runs with the null driver.
//
//===----------------------------------------------------------------------===//

#include "lib/Runtime/Cuda/Attention.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <vector>

using namespace moert::cuda;

int main(int argc, char **argv) {
  struct Row {
    std::string name;
    AttentionShape shape;
  };
  std::vector<Row> rows;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty() || line[0] == '#')
      continue;
    std::istringstream in(line);
    Row row;
    AttentionShape &s = row.shape;
    if (!(in >> row.name >> s.batch >> s.sequence >> s.heads >> s.kvHeads >>
          s.headDim)) {
      std::fprintf(stderr, "moe-attention-plans: not a shape: '%s'\n",
                   line.c_str());
      return 1;
    }
    s.scale = 1 / std::sqrt(double(s.headDim));
    rows.push_back(row);
  }

  std::puts(
      "| device | attention | batch x sequence, heads/kv x width | half | "
      "workspace, bytes | engine |\n| --- | --- | --- | --- | --- | --- |");
  bool failed = false;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    std::stringstream device;
    device << file.rdbuf();
    if (!file) {
      std::fprintf(stderr, "moe-attention-plans: cannot read %s\n", argv[i]);
      return 1;
    }
    std::string path = argv[i];
    std::string name = path.substr(path.rfind('/') + 1);
    name.resize(name.rfind(".json"));
    for (const Row &row : rows)
      for (bool backward : {false, true}) {
        AttentionShape s = row.shape;
        s.backward = backward;
        std::string error;
        auto plan =
            AttentionPlan::create(nullptr, s, error, device.str().c_str());
        if (!plan) {
          std::fprintf(stderr, "moe-attention-plans: %s: %s\n", name.c_str(),
                       error.c_str());
          failed = true;
          continue;
        }
        std::string engine = plan->engine();
        engine.erase(0, std::min(engine.find("sdpa"), engine.find("engine")));
        std::printf("| %s | %s | %lld x %lld, %lld/%lld x %lld | %s | %lld | "
                    "%s |\n",
                    name.c_str(), row.name.c_str(), (long long)s.batch,
                    (long long)s.sequence, (long long)s.heads,
                    (long long)s.kvHeads, (long long)s.headDim,
                    backward ? "backward" : "forward",
                    (long long)plan->workspaceBytes(), engine.c_str());
      }
  }
  return failed;
}
