//===- CudaEngine.cpp - The engine on NVIDIA GPUs -------------------------===//

#include "moe/Runtime/CudaEngine.h"
#include "../EngineImpl.h"
#include "Interpreter.h"
#include "moe/Runtime/Random.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cudnn.h>

using namespace moert;
using namespace moert::cuda;

//===----------------------------------------------------------------------===//
// What the machine has
//===----------------------------------------------------------------------===//

/// "13.0" of 13000.
static std::string cudaVersion(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

/// The device of this process; `error` says in one line what is missing.
static int findDevice(const World &world, int &capability, std::string &error) {
  int driver = 0, runtime = 0, count = 0, major = 0, minor = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) {
    error = "no NVIDIA driver is loaded on this machine";
    return -1;
  }
  if (driver / 1000 < runtime / 1000) {
    error = "the NVIDIA driver supports CUDA " + cudaVersion(driver) +
            ", this program needs " + cudaVersion(runtime);
    return -1;
  }
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    error = std::string("no CUDA device: ") + cudaGetErrorString(status);
    return -1;
  }
  int64_t local = world.localRank >= 0 ? world.localRank : world.rank;
  // A launcher may show each process its own device alone.
  if (count == 1 && std::getenv("CUDA_VISIBLE_DEVICES"))
    local = 0;
  if (local >= count) {
    error = "process " + std::to_string(local) +
            " of this machine has no GPU: " + std::to_string(count) +
            " visible";
    return -1;
  }
  int device = int(local);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  capability = 10 * major + minor;
  if (capability != 90 && capability != 100)
    error = "device " + std::to_string(device) + " has compute capability " +
            std::to_string(major) + "." + std::to_string(minor) +
            ", the kernels are for 9.0 (H100) and 10.0 (GB200)";
  int nccl = 0;
  if (error.empty() && (ncclGetVersion(&nccl) != ncclSuccess || nccl < 22800))
    error = "NCCL is " + std::to_string(nccl) + ", 22800 or later is needed";
  if (error.empty() && cudnnGetVersion() < 91900)
    error = "cuDNN is " + std::to_string(cudnnGetVersion()) +
            ", 91900 or later is needed";
  return device;
}

std::string moert::missingForCuda() {
  World world;
  std::string error;
  int capability = 0;
  // A wrong environment is no lack of the machine: the engine names it.
  if (!readWorld(world, error))
    return "";
  findDevice(world, capability, error);
  return error;
}

//===----------------------------------------------------------------------===//
// The engine
//===----------------------------------------------------------------------===//

namespace {

/// Device memory that goes with its owner.
class DeviceBuffer {
public:
  ~DeviceBuffer() { cudaFree(memory); }
  void allocate(size_t bytes) {
    MOE_CHECK(cudaMalloc(&memory, std::max<size_t>(bytes, 1)));
  }
  char *get() const { return static_cast<char *>(memory); }

private:
  void *memory = nullptr;
};

class CudaEngine : public Engine::Impl, public RankMemory {
public:
  CudaEngine(const Table &table, const CudaOptions &options);
  ~CudaEngine() override;

  bool run(const std::vector<int32_t> &tokens, StepResult &result,
           std::string &error) override;

  int64_t rank() const override { return world.rank; }
  std::string implementation(uint32_t kernel) const override {
    return interpreter->implementation(kernel);
  }
  bool has(int64_t rank) const override { return rank == world.rank; }
  void read(int64_t rank, int64_t address, void *to,
            int64_t bytes) const override;
  void write(int64_t rank, int64_t address, const void *from,
             int64_t bytes) override;
  void zero(int64_t rank, int64_t address, int64_t bytes) override;
  void sumOverProcesses(std::vector<float> &values) const override;

private:
  uint32_t programIndex() const;
  /// All but the communicators.
  void prepare(const CudaOptions &options, int capability);
  /// A caller may come from any thread, which CUDA gives the first device.
  void useDevice() const { MOE_CHECK(cudaSetDevice(device)); }
  void finish() const;
  /// What peers take part in: if it throws they must not wait for this rank,
  /// and streams and communicators are in any state.
  template <typename F> void together(F step) const;

  World world;
  int device = -1;
  mutable bool failed = false;
  DeviceBuffer arena, spare;
  std::unique_ptr<Communicators> communicators;
  std::unique_ptr<Launcher> launcher;
  std::unique_ptr<Interpreter> interpreter;
  std::unique_ptr<Profile> profile;
};

/// Elements of the buffer that goes around the ranks.
constexpr size_t kPiece = 64 << 20;

} // namespace

uint32_t CudaEngine::programIndex() const {
  return uint32_t(&programOf(world.rank) - table.programs.data());
}

CudaEngine::CudaEngine(const Table &table, const CudaOptions &options)
    : Impl(table) {
  std::string error = check();
  if (error.empty() && readWorld(world, error) && world.size != table.ranks)
    error = "the table is for " + std::to_string(table.ranks) +
            " ranks, the environment says " + std::to_string(world.size);
  if (!error.empty())
    fail(error);
  int capability = 0;
  device = findDevice(world, capability, error);
  if (!error.empty())
    fail(error);
  useDevice();
  Communicators::setDefaults();
  ncclUniqueId id;
  if (world.rank == 0)
    MOE_CHECK(ncclGetUniqueId(&id));
  if (!shareFromRoot(world, randomKey(0, toJson(this->table)), &id, sizeof id,
                     error))
    fail(error);
  communicators = std::make_unique<Communicators>(this->table, world, id);
  // What one rank lacks ends all of them, now.
  try {
    prepare(options, capability);
  } catch (const std::exception &e) {
    error = e.what();
  }
  together([&] {
    if (!communicators->allAreFine(error.empty(), nullptr) && error.empty())
      error = "another rank is not ready, and says why";
  });
  if (!error.empty())
    fail(error);
}

void CudaEngine::prepare(const CudaOptions &options, int capability) {
  launcher = std::make_unique<Launcher>(options, capability);
  arena.allocate(programOf(world.rank).arenaBytes);
  spare.allocate(4 * kPiece);
  interpreter = std::make_unique<Interpreter>(
      this->table, programIndex(), *launcher, *communicators, arena.get());
  profile = Profile::create(world.rank);
  interpreter->setProfile(profile.get());
  store = std::make_unique<ParameterStore>(this->table, *this);
  if (std::string error = store->check(); !error.empty())
    fail(error);
}

CudaEngine::~CudaEngine() {
  try {
    useDevice();
    if (profile && !failed)
      profile->write(launcher->getBlas(), spare.get(), 4 * kPiece,
                     interpreter->workspace(0), interpreter->stream(0));
  } catch (const std::exception &e) {
    std::fprintf(stderr, "profile: %s\n", e.what());
  }
}

template <typename F> void CudaEngine::together(F step) const {
  if (failed)
    fail("the engine has failed before");
  try {
    useDevice();
    step();
  } catch (const std::exception &) {
    failed = true;
    communicators->abort();
    throw;
  }
}

/// Copies run on the first stream, and nothing else runs between steps.
void CudaEngine::finish() const {
  MOE_CHECK(cudaStreamSynchronize(interpreter->stream(0)));
}

void CudaEngine::read(int64_t, int64_t address, void *to, int64_t bytes) const {
  if (bytes <= 0)
    return;
  useDevice();
  MOE_CHECK(cudaMemcpyAsync(to, arena.get() + address, bytes,
                            cudaMemcpyDeviceToHost, interpreter->stream(0)));
  finish();
}

void CudaEngine::write(int64_t, int64_t address, const void *from,
                       int64_t bytes) {
  if (bytes <= 0)
    return;
  useDevice();
  MOE_CHECK(cudaMemcpyAsync(arena.get() + address, from, bytes,
                            cudaMemcpyHostToDevice, interpreter->stream(0)));
  finish();
}

void CudaEngine::zero(int64_t, int64_t address, int64_t bytes) {
  if (bytes <= 0)
    return;
  useDevice();
  MOE_CHECK(
      cudaMemsetAsync(arena.get() + address, 0, bytes, interpreter->stream(0)));
  finish();
}

void CudaEngine::sumOverProcesses(std::vector<float> &values) const {
  if (world.size == 1)
    return;
  cudaStream_t stream = interpreter->stream(0);
  auto *piece = reinterpret_cast<float *>(spare.get());
  together([&] {
    for (size_t at = 0; at < values.size(); at += kPiece) {
      size_t count = std::min(kPiece, values.size() - at);
      MOE_CHECK(cudaMemcpyAsync(piece, values.data() + at, 4 * count,
                                cudaMemcpyHostToDevice, stream));
      communicators->sumOverWorld(piece, count, stream);
      MOE_CHECK(cudaMemcpyAsync(values.data() + at, piece, 4 * count,
                                cudaMemcpyDeviceToHost, stream));
      finish();
    }
  });
}

bool CudaEngine::run(const std::vector<int32_t> &tokens, StepResult &result,
                     std::string &error) {
  together([&] {
    writeInputs(*this, world.rank, tokens);
    error = interpreter->run();
  });
  // The last program that has a value reports it, by its first rank; a refused
  // step must be refused by all.
  auto mine = [&](int64_t Program::*address) {
    const Program *owner = nullptr;
    for (const Program &p : table.programs)
      if (p.*address >= 0)
        owner = &p;
    float value = 0;
    if (owner && owner->firstRank == world.rank)
      read(world.rank, owner->*address, &value, 4);
    return value;
  };
  std::vector<float> report = {mine(&Program::loss), mine(&Program::gradNorm),
                               error.empty() ? 0.0f : 1.0f};
  sumOverProcesses(report);
  result.loss = report[0];
  result.gradNorm = report[1];
  if (error.empty() && report[2] > 0)
    error = "a capacity overflows on another rank, which names it";
  return error.empty();
}

std::unique_ptr<Engine> moert::createCudaEngine(const Table &table,
                                                const CudaOptions &options,
                                                std::string &error) {
  std::unique_ptr<Engine> engine;
  attempt(error, [&] {
    engine =
        std::make_unique<Engine>(std::make_unique<CudaEngine>(table, options));
  });
  return engine;
}
