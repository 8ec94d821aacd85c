//===- HostEngine.cpp - The engine on CPUs --------------------------------===//

#include "EngineImpl.h"
#include "Executor.h"

using namespace moert;

namespace {

/// All ranks are in this process.
class HostMemory : public RankMemory {
public:
  bool has(int64_t) const override { return true; }
  void read(int64_t rank, int64_t address, void *to,
            int64_t bytes) const override {
    if (bytes > 0)
      std::memcpy(to, ranks[rank].arena.at<char>(address), bytes);
  }
  void write(int64_t rank, int64_t address, const void *from,
             int64_t bytes) override {
    if (bytes > 0)
      std::memcpy(ranks[rank].arena.at<char>(address), from, bytes);
  }
  void zero(int64_t rank, int64_t address, int64_t bytes) override {
    if (bytes > 0)
      std::memset(ranks[rank].arena.at<char>(address), 0, bytes);
  }

  std::vector<Rank> ranks;
};

struct HostEngine : Engine::Impl {
  using Impl::Impl;

  bool run(const std::vector<int32_t> &tokens, StepResult &result,
           std::string &error) override;
  std::string implementation(uint32_t kernel) const override {
    return code[kernel].generated ? "generated" : "host library";
  }
  std::string
  findKernels(const std::map<std::string, GeneratedKernel> &generated);
  std::string allocate(bool poison);
  float read(int64_t Program::*address) const;

  HostMemory memory;
  std::vector<KernelCode> code;
  std::unique_ptr<Executor> executor;
};

} // namespace

std::string HostEngine::findKernels(
    const std::map<std::string, GeneratedKernel> &generated) {
  for (const Kernel &kernel : table.kernels) {
    KernelCode found;
    if (kernel.provider == Provider::Library) {
      found.library = findHostKernel(kernel.op);
    } else {
      auto entry = generated.find(kernel.name);
      if (entry != generated.end())
        found.generated = entry->second;
    }
    if (!found.library && !found.generated)
      return "kernel '" + kernel.name + "': " +
             (kernel.provider == Provider::Library
                  ? "the library has no '" + kernel.op + "'"
                  : "its code is missing");
    code.push_back(found);
  }
  for (const Template &t : table.templates)
    for (const Op &op : t.ops) {
      if (op.kind != OpKind::Launch || !code[op.kernel].library)
        continue;
      const Kernel &kernel = table.kernels[op.kernel];
      std::string problem = checkLaunch(kernel, op.operands);
      if (!problem.empty())
        return "template '" + t.name + "', '" + op.location + "', kernel '" +
               kernel.name + "': " + problem;
    }
  return "";
}

std::string HostEngine::allocate(bool poison) {
  // Each fits 60 bits; many may not fit 64.
  double needed = 0, available = double(availableMemory());
  for (const Program &p : table.programs)
    needed += double(p.arenaBytes) * double(p.rankCount);
  if (needed > available)
    return "the arenas of " + std::to_string(table.ranks) + " ranks need " +
           std::to_string(int64_t(needed / 1e6)) + " MB, the machine has " +
           std::to_string(int64_t(available / 1e6)) + " MB available";
  std::vector<uint32_t> owner(table.ranks);
  for (uint32_t p = 0; p < table.programs.size(); ++p)
    std::fill_n(owner.begin() + table.programs[p].firstRank,
                table.programs[p].rankCount, p);
  for (int64_t i = 0; i < table.ranks; ++i) {
    int64_t bytes = table.programs[owner[i]].arenaBytes;
    memory.ranks.push_back({i, owner[i], Arena(bytes)});
    if (!memory.ranks.back().arena.data())
      return "no memory for the arena of rank " + std::to_string(i);
    if (poison)
      std::memset(memory.ranks.back().arena.data(), 0xff, bytes);
  }
  return "";
}

std::unique_ptr<Engine>
Engine::create(const Table &table, const EngineOptions &options,
               const std::map<std::string, GeneratedKernel> &generated,
               std::string &error) {
  std::unique_ptr<Engine> engine;
  attempt(error, [&] {
    auto impl = std::make_unique<HostEngine>(table);
    if (options.threads < 1)
      error = "the engine needs at least one thread";
    if (error.empty())
      error = impl->check();
    if (error.empty())
      error = impl->findKernels(generated);
    if (error.empty())
      error = impl->allocate(options.poison);
    if (error.empty()) {
      impl->store = std::make_unique<ParameterStore>(impl->table, impl->memory);
      error = impl->store->check();
    }
    if (!error.empty())
      return;
    impl->executor = std::make_unique<Executor>(impl->table, impl->memory.ranks,
                                                impl->code, options);
    engine = std::make_unique<Engine>(std::move(impl));
  });
  return engine;
}

/// The value of the last program that has it; its ranks hold the same.
float HostEngine::read(int64_t Program::*address) const {
  float value = 0;
  for (const Program &p : table.programs)
    if (p.*address >= 0)
      memory.read(p.firstRank, p.*address, &value, 4);
  return value;
}

bool HostEngine::run(const std::vector<int32_t> &tokens, StepResult &result,
                     std::string &error) {
  for (int64_t rank = 0; rank < table.ranks; ++rank)
    writeInputs(memory, rank, tokens);
  if (!executor->run(error))
    return false;
  sent = executor->sentBytes();
  result.loss = read(&Program::loss);
  result.gradNorm = read(&Program::gradNorm);
  return true;
}
