//===- Engine.h - The engine ----------------------------------------------===//
//
// Trains with a table. The host engine runs it on CPUs, all its ranks in one
// process: each rank has an arena, streams and a host that issues ops; ready
// ops are tasks on few threads. CudaEngine.h runs one rank of it on a GPU.
// moe_rt.h is the C form of both.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_H
#define MOE_RUNTIME_ENGINE_H

#include "moe/Runtime/Kernels.h"
#include "moe/Table/ScheduleView.h"

#include <memory>

namespace moert {

/// A kernel compiled from the program: called with a pointer per operand.
using GeneratedKernel = void (*)(void **pointers);

struct EngineOptions {
  int threads = 2;
  /// 0: ready ops run in issue order where possible. Else: at each point any
  /// op that streams and events permit may run, chosen by this seed.
  uint64_t orderSeed = 0;
  /// Fill the arenas with NaNs (0xff) first, so that a read of what nothing
  /// wrote shows.
  bool poison = true;
};

struct StepResult {
  float loss = 0, gradNorm = 0;
};

/// A tensor by its stored (Hugging Face) name, always f32.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// A call that returns bool returns true, or false and why in `error`: a misuse
/// as well as a machine or a peer that fails. No call throws.
class Engine {
public:
  /// Null and `error` if the table is not well-formed (checkTable), a kernel
  /// is missing, an operand does not fit its kernel, or the arenas exceed the
  /// machine's memory. Generated code is found by the kernel's name.
  static std::unique_ptr<Engine>
  create(const Table &table, const EngineOptions &options,
         const std::map<std::string, GeneratedKernel> &generated,
         std::string &error);
  ~Engine();

  /// Values from a seed: a parameter's stored tensor depends on its name, the
  /// element's index and the seed alone, so that every layout starts equal:
  /// normal(0, initStd) by counter (Random.h), or ones. This and the setters
  /// zero the optimizer's moments and start again at step 1.
  bool initialize(uint64_t seed, std::string &error);
  /// Values by stored name. Fails if one is missing, unknown, or of another
  /// shape.
  bool setParameters(const std::vector<NamedTensor> &tensors,
                     std::string &error);
  /// The same from a .safetensors file, and all of them, or the gradients, to
  /// one: a tensor after the other, so that memory holds one of them at a time.
  /// Every process takes part; rank 0 writes. `error` names the file.
  bool loadParameters(const std::string &path, std::string &error);
  bool saveParameters(const std::string &path, std::string &error) const;
  bool saveGradients(const std::string &path, std::string &error) const;
  /// One of them, the others stay.
  bool setParameter(const NamedTensor &tensor, std::string &error);
  /// Stored names, in the order of the programs.
  const std::vector<std::string> &parameterNames() const;
  /// Shape of a stored tensor; null: there is none of that name.
  const std::vector<int64_t> *parameterShape(const std::string &name) const;
  /// Whole stored tensors gathered from the ranks, in that order: the f32
  /// master values where the table has any. Gradients: of the last step,
  /// summed over the ranks that hold the tensor, before the optimizer clips;
  /// taken from Parameter::gradient, so the table must reduce into another
  /// place than the accumulators.
  bool parameters(std::vector<NamedTensor> &tensors, std::string &error) const;
  bool gradients(std::vector<NamedTensor> &tensors, std::string &error) const;
  /// One of them.
  bool parameter(const std::string &name, NamedTensor &tensor,
                 std::string &error) const;
  bool gradient(const std::string &name, NamedTensor &tensor,
                std::string &error) const;

  /// Tokens of one step: [samples of the global batch][sequence + 1] i32.
  /// Runs the step. Fails if a parameter has no value yet, tokens misfit, on
  /// deadlock (names the ops that wait), ranks that disagree on a
  /// collective, or overflow of a capacity (names layer and rows). A failed
  /// step stops at once and does not count; the optimizer runs after the last
  /// dispatch, so that an overflow changes no parameter.
  bool step(const std::vector<int32_t> &tokens, StepResult &result,
            std::string &error);
  /// Bytes that all ranks together sent in the last step, by module and half
  /// of the op ("moe_dispatch F"): with the step's own counts, and with what a
  /// rank keeps for itself. Counted by the host engine.
  const std::map<std::string, int64_t> &sentBytes() const;
  /// For each kernel of the table that this process runs: its name, and what
  /// runs it ("cuBLASLt", "generated", ...).
  std::vector<std::pair<std::string, std::string>> implementations() const;
  /// Number of tokens that step() takes, and of a sample.
  int64_t tokenCount() const;
  int64_t sequence() const;
  /// The rank that this process is, 0 where all ranks are in one process.
  int64_t rank() const;
  /// Random tokens for step number `step` (counting from 0), in the form that
  /// step() takes: the same for every layout of one global batch.
  std::vector<int32_t> randomTokens(uint64_t seed, int64_t step) const;

  /// What runs a step, and where: an engine of another machine makes its own.
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);

private:
  std::unique_ptr<Impl> impl;
};

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_H
