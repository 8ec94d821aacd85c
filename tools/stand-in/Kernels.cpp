//===- Kernels.cpp - Kernels run as their host twins ------------*- C++ -*-===//

#include "Calls.h"
#include "Memory.h"
#include "lib/Runtime/Cuda/Arguments.h"
#include "lib/Runtime/Cuda/Twin.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <set>
#include <unordered_map>

namespace standin {
namespace {

constexpr int kMaxRanges = 16;
constexpr int64_t kStateBytes = 4;
/// Threads that a block may have.
constexpr unsigned kMaxBlock = 1024;

/// One of the two.
struct Twin {
  const moe_twin *library = nullptr;
  const moe_generated_twin *generated = nullptr;
};
using Twins = std::unordered_map<std::string, Twin>;

void loadTwins(const std::string &path, Twins &twins) {
  void *object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object)
    fault("TWINS", ::dlerror());
  auto *library = static_cast<const moe_twin *>(::dlsym(object, "moe_twins"));
  auto *libraryCount =
      static_cast<const size_t *>(::dlsym(object, "moe_twin_count"));
  for (size_t i = 0; library && libraryCount && i < *libraryCount; ++i)
    twins[library[i].name].library = &library[i];
  auto *generated = static_cast<const moe_generated_twin *>(
      ::dlsym(object, "moe_generated_twins"));
  auto *generatedCount =
      static_cast<const size_t *>(::dlsym(object, "moe_generated_twin_count"));
  for (size_t i = 0; generated && generatedCount && i < *generatedCount; ++i)
    twins[generated[i].name].generated = &generated[i];
  if (!(library && libraryCount) && !(generated && generatedCount))
    fault("TWINS", path + " exports no list of twins");
}

const Twins &twins() {
  static const Twins &result = *[] {
    auto *all = new Twins;
    const char *list = std::getenv("MOE_STANDIN_TWINS");
    std::string paths = list ? list : "";
    for (size_t begin = 0; begin < paths.size();) {
      size_t end = std::min(paths.find(':', begin), paths.size());
      if (end > begin)
        loadTwins(paths.substr(begin, end - begin), *all);
      begin = end + 1;
    }
    return all;
  }();
  return result;
}

struct Kernel {
  explicit Kernel(const Twin &twin) : twin(twin) {}
  const Twin &twin;
  /// What a generated kernel keeps in its library from block to block: launches
  /// at once would share it.
  void *state = nullptr;
};
struct Library {
  std::map<std::string, Kernel> kernels;
};
std::set<Library *> &libraries() {
  static std::set<Library *> &result = *new std::set<Library *>;
  return result;
}

const Kernel *kernelOf(const void *handle) {
  for (Library *library : libraries())
    for (auto &[name, kernel] : library->kernels)
      if (&kernel == handle)
        return &kernel;
  return nullptr;
}

/// Parameters are copied as it is launched.
class LibraryLaunch : public Work {
public:
  LibraryLaunch(const moe_twin &twin, void **parameters, unsigned grid)
      : twin(twin), grid(grid) {
    name = twin.name;
    std::memcpy(&arguments, parameters[0], sizeof arguments);
    ranges.resize(kMaxRanges);
    void *copied[] = {&arguments};
    ranges.resize(twin.ranges(copied, ranges.data()));
  }
  void run() override {
    void *copied[] = {&arguments};
    twin.run(copied, grid);
  }

private:
  const moe_twin &twin;
  unsigned grid;
  moert::cuda::Arguments arguments;
};

class GeneratedLaunch : public Work {
public:
  GeneratedLaunch(const Kernel &kernel, void **parameters)
      : twin(*kernel.twin.generated) {
    name = twin.name;
    ranges.push_back({kernel.state, kStateBytes, MOE_WRITE});
    for (int i = 0; i < twin.operands; ++i) {
      pointers.push_back(*static_cast<void **>(parameters[i]));
      ranges.push_back({pointers.back(), twin.bytes[i], twin.effects[i]});
    }
  }
  void run() override { twin.code(pointers.data()); }

private:
  const moe_generated_twin &twin;
  std::vector<void *> pointers;
};

} // namespace
} // namespace standin

using namespace standin;

cudaError_t cudaLibraryLoadData(cudaLibrary_t *result, const void *code,
                                cudaJitOption *, void **, unsigned,
                                cudaLibraryOption *, void **, unsigned) {
  return call([&](Scheduler::Lock &) {
    if (!result || !code)
      return cudaErrorInvalidValue;
    if (cudaError_t error = forbidden("cudaLibraryLoadData"))
      return error;
    auto *library = new Library;
    libraries().insert(library);
    *result = reinterpret_cast<cudaLibrary_t>(library);
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *result, cudaLibrary_t handle,
                                 const char *name) {
  return call([&](Scheduler::Lock &) {
    auto *library = reinterpret_cast<Library *>(handle);
    if (!libraries().count(library))
      return cudaErrorInvalidResourceHandle;
    auto it = twins().find(name);
    if (it == twins().end()) {
      note(std::string("kernel ") + name + " has no twin in MOE_STANDIN_TWINS");
      return cudaErrorInvalidDeviceFunction;
    }
    auto [kernel, isNew] = library->kernels.try_emplace(name, it->second);
    if (isNew && it->second.generated)
      kernel->second.state = memory().allocate(Place::Device, kStateBytes);
    *result = reinterpret_cast<cudaKernel_t>(&kernel->second);
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t handle) {
  return call([&](Scheduler::Lock &) {
    auto *library = reinterpret_cast<Library *>(handle);
    if (!libraries().erase(library))
      return cudaErrorInvalidResourceHandle;
    for (auto &[name, kernel] : library->kernels)
      if (kernel.state)
        memory().release(kernel.state);
    delete library;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute, int) {
  return call([&](Scheduler::Lock &) {
    return kernelOf(function) ? cudaSuccess : cudaErrorInvalidDeviceFunction;
  });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                const void *function, void **parameters) {
  return call([&](Scheduler::Lock &) {
    const Kernel *kernel = kernelOf(function);
    if (!kernel)
      return cudaErrorInvalidDeviceFunction;
    Stream *stream = streamOf(config->stream);
    if (!stream)
      return cudaErrorInvalidResourceHandle;
    const dim3 &grid = config->gridDim, &block = config->blockDim;
    unsigned threads = block.x * block.y * block.z;
    if (grid.x * grid.y * grid.z == 0 || threads == 0 || threads > kMaxBlock)
      return cudaErrorInvalidConfiguration;
    std::shared_ptr<Work> work;
    if (kernel->twin.library)
      work = std::make_shared<LibraryLaunch>(*kernel->twin.library, parameters,
                                             grid.x);
    else
      work = std::make_shared<GeneratedLaunch>(*kernel, parameters);
    return submit(*stream, std::move(work));
  });
}
