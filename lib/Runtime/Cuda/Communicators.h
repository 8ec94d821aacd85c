//===- Communicators.h - Collectives by NCCL --------------------*- C++ -*-===//

#ifndef MOE_LIB_RUNTIME_CUDA_COMMUNICATORS_H
#define MOE_LIB_RUNTIME_CUDA_COMMUNICATORS_H

#include "Bootstrap.h"
#include "Check.h"
#include "moe/Table/Table.h"

#include <chrono>
#include <vector>

namespace moert::cuda {

/// The communicators of a table, as this rank sees them. Calls come in the
/// table's issue order, which is the one order of NCCL calls of this GPU.
class Communicators {
public:
  /// Of NCCL's environment: before its first call.
  static void setDefaults();
  /// Collective: all ranks of the world, which are those of the table.
  Communicators(const Table &table, const World &world, const ncclUniqueId &id);
  ~Communicators();
  Communicators(const Communicators &) = delete;

  /// Enqueues an op: everything but AllToAll.
  void launch(const Op &op, void *const *pointers, cudaStream_t stream);
  /// Rows go to and come from members by counts on the host. What exceeds the
  /// capacity is received into spare memory, so that all ranks go on; returns
  /// the number of received rows. `refused`: that has happened in this step.
  int64_t allToAll(const Op &op, void *const *pointers,
                   const int32_t *sendCounts, const int32_t *recvCounts,
                   bool refused, cudaStream_t stream);
  /// Sum over all ranks, in place; waits for it.
  void sumOverWorld(float *values, size_t count, cudaStream_t stream);
  /// Collective: whether it is so on all ranks.
  bool allAreFine(bool isFine, cudaStream_t stream);

  /// Blocks until the event is done. Throws if a communicator fails meanwhile,
  /// or a peer is silent for longer than MOE_RT_TIMEOUT seconds (300).
  void wait(cudaEvent_t event);
  /// Ends what is under way here; nothing can be enqueued any more. Peers see
  /// it where a network lies between, and else by MOE_RT_TIMEOUT.
  void abort();

private:
  void connectPairs();
  ncclComm_t commOf(const Op &op) const { return comms[op.communicator]; }

  const Table &table;
  World world;
  ncclComm_t worldComm = nullptr;
  /// By the table's number; null: this rank alone.
  std::vector<ncclComm_t> comms;
  std::chrono::seconds patience{300};
  /// After what the host waits for here.
  cudaEvent_t done = nullptr;
  float *numbers = nullptr;
  /// The last one is used, and has spareBytes.
  std::vector<void *> spares;
  size_t spareBytes = 0;
};

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_COMMUNICATORS_H
