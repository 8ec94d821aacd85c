//===- Communicators.cpp - Collectives by NCCL ----------------------------===//

#include "Communicators.h"
#include "../Ranks.h"
#include "Fault.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>
#include <utility>

using namespace moert;
using namespace moert::cuda;

static ncclDataType_t dataType(ElementType type) {
  switch (type) {
  case ElementType::F32:
    return ncclFloat32;
  case ElementType::BF16:
    return ncclBfloat16;
  case ElementType::I32:
    return ncclInt32;
  }
  return ncclInt8; // Not reached.
}

namespace {

/// Calls that NCCL takes as one. It ends in any case: what is called in a group
/// that was left open, ncclCommAbort, too, would wait for an end for ever.
class Group {
public:
  Group() { MOE_CHECK(ncclGroupStart()); }
  ~Group() {
    if (isOpen)
      ncclGroupEnd();
  }
  Group(const Group &) = delete;
  void end() {
    isOpen = false;
    MOE_CHECK(ncclGroupEnd());
  }

private:
  bool isOpen = true;
};

} // namespace

void Communicators::setDefaults() {
  // NCCL reads them once, some as soon as it makes an identifier. Those of the
  // user come first.
  auto set = [](const char *name, const char *value) {
    setenv(name, value, /*overwrite=*/0);
  };
  // Kernels of different communicators start in the order of the calls, and
  // none is in a graph: no order can deadlock that the proof did not see.
  set("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  set("NCCL_GRAPH_MIXING_SUPPORT", "0");
  // Else the first call of each algorithm holds up the host until all members
  // have made it.
  set("NCCL_RUNTIME_CONNECT", "0");
}

Communicators::Communicators(const Table &table, const World &world,
                             const ncclUniqueId &id)
    : table(table), world(world) {
  if (const char *seconds = std::getenv("MOE_RT_TIMEOUT"))
    patience = std::chrono::seconds(std::atoll(seconds));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  MOE_CHECK(ncclCommInitRankConfig(&worldComm, int(world.size), id,
                                   int(world.rank), &config));
  for (const Communicator &c : table.communicators) {
    comms.push_back(nullptr);
    if (c.size == 1)
      continue;
    // A split is of all ranks: the first member is the color of a group.
    ncclConfig_t split = NCCL_CONFIG_INITIALIZER;
    if (c.smBudget > 0)
      split.maxCTAs = int(c.smBudget);
    MOE_CHECK(ncclCommSplit(worldComm, int(memberOf(c, world.rank, 0)),
                            int(positionIn(c, world.rank)), &comms.back(),
                            &split));
  }
  MOE_CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  connectPairs();
}

/// NCCL connects two ranks as the first of their sends is called, and holds up
/// the host until the other has called, too. That is done here, where all ranks
/// are at the same place, for the pairs of this rank's program.
void Communicators::connectPairs() {
  std::vector<std::set<int>> to(comms.size()), from(comms.size());
  for (const Program &program : table.programs) {
    if (world.rank < program.firstRank ||
        world.rank >= program.firstRank + program.rankCount)
      continue;
    std::set<uint32_t> templates;
    for (const Call &call : program.calls)
      templates.insert(call.tmpl);
    for (uint32_t t : templates)
      for (const Op &op : table.templates[t].ops) {
        if (op.kind == OpKind::Launch || op.kind == OpKind::HostRead ||
            !commOf(op))
          continue;
        const Communicator &c = table.communicators[op.communicator];
        int own = int(positionIn(c, world.rank));
        if (op.kind == OpKind::Send)
          to[op.communicator].insert(own + op.peer);
        else if (op.kind == OpKind::Recv)
          from[op.communicator].insert(own + op.peer);
        else if (op.collective == CollectiveKind::AllToAll ||
                 op.collective == CollectiveKind::ExchangeCounts)
          for (int m = 0; m < c.size; ++m) {
            to[op.communicator].insert(m);
            from[op.communicator].insert(m);
          }
      }
  }
  // One number is sent, and one received from each.
  MOE_CHECK(cudaMalloc(reinterpret_cast<void **>(&numbers),
                       sizeof(float) * (world.size + 1)));
  cudaStream_t stream = nullptr;
  MOE_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  MOE_CHECK(cudaMemsetAsync(numbers, 0, sizeof(float), stream));
  for (size_t c = 0; c < comms.size(); ++c) {
    if (to[c].empty() && from[c].empty())
      continue;
    Group group;
    for (int m : to[c])
      MOE_CHECK(ncclSend(numbers, 1, ncclFloat32, m, comms[c], stream));
    for (int m : from[c])
      MOE_CHECK(ncclRecv(numbers + 1 + m, 1, ncclFloat32, m, comms[c], stream));
    group.end();
  }
  MOE_CHECK(cudaEventRecord(done, stream));
  wait(done);
  MOE_CHECK(cudaStreamDestroy(stream));
}

bool Communicators::allAreFine(bool isFine, cudaStream_t stream) {
  float failures = isFine ? 0 : 1;
  if (world.size > 1) {
    MOE_CHECK(cudaMemcpyAsync(numbers, &failures, sizeof failures,
                              cudaMemcpyHostToDevice, stream));
    sumOverWorld(numbers, 1, stream);
    MOE_CHECK(cudaMemcpyAsync(&failures, numbers, sizeof failures,
                              cudaMemcpyDeviceToHost, stream));
    MOE_CHECK(cudaStreamSynchronize(stream));
  }
  return failures == 0;
}

Communicators::~Communicators() {
  for (ncclComm_t comm : comms)
    if (comm)
      ncclCommDestroy(comm);
  if (worldComm)
    ncclCommDestroy(worldComm);
  if (done)
    cudaEventDestroy(done);
  cudaFree(numbers);
  for (void *memory : spares)
    cudaFree(memory);
}

/// As one group: all are told to end before one is taken down. That waits for
/// the device, where its kernels may be behind those of another.
void Communicators::abort() {
  bool grouped = !planted("abort in turn");
  if (grouped)
    ncclGroupStart();
  for (ncclComm_t &comm : comms)
    if (comm)
      ncclCommAbort(std::exchange(comm, nullptr));
  if (worldComm)
    ncclCommAbort(std::exchange(worldComm, nullptr));
  if (grouped)
    ncclGroupEnd();
}

/// What a collective does in a group of one: x becomes y.
static void copy(const Op &op, void *const *pointers, cudaStream_t stream) {
  if (pointers[0] != pointers[1])
    MOE_CHECK(cudaMemcpyAsync(pointers[1], pointers[0], op.operands[0].bytes(),
                              cudaMemcpyDeviceToDevice, stream));
}

void Communicators::launch(const Op &op, void *const *pointers,
                           cudaStream_t stream) {
  const Communicator &c = table.communicators[op.communicator];
  ncclComm_t comm = commOf(op);
  const Operand &x = op.operands[0];
  ncclDataType_t type = dataType(x.type);
  int peer = int(positionIn(c, world.rank)) + op.peer;
  if (op.kind == OpKind::Send) {
    MOE_CHECK(ncclSend(pointers[0], x.elements(), type, peer, comm, stream));
    return;
  }
  if (op.kind == OpKind::Recv) {
    MOE_CHECK(ncclRecv(pointers[0], x.elements(), type, peer, comm, stream));
    return;
  }
  if (!comm)
    return copy(op, pointers, stream);
  switch (op.collective) {
  case CollectiveKind::ExchangeCounts: {
    int64_t block = x.elements() / c.size;
    Group group;
    for (int m = 0; m < c.size; ++m) {
      MOE_CHECK(ncclSend(static_cast<int32_t *>(pointers[0]) + m * block, block,
                         ncclInt32, m, comm, stream));
      MOE_CHECK(ncclRecv(static_cast<int32_t *>(pointers[1]) + m * block, block,
                         ncclInt32, m, comm, stream));
    }
    group.end();
    return;
  }
  case CollectiveKind::AllReduceSum:
    MOE_CHECK(ncclAllReduce(pointers[0], pointers[1], x.elements(), type,
                            ncclSum, comm, stream));
    return;
  case CollectiveKind::AllReduceMax:
    MOE_CHECK(ncclAllReduce(pointers[0], pointers[1], x.elements(), type,
                            ncclMax, comm, stream));
    return;
  case CollectiveKind::ReduceScatter:
    MOE_CHECK(ncclReduceScatter(pointers[0], pointers[1],
                                op.operands[1].elements(), type, ncclSum, comm,
                                stream));
    return;
  case CollectiveKind::AllGather:
    MOE_CHECK(ncclAllGather(pointers[0], pointers[1], x.elements(), type, comm,
                            stream));
    return;
  case CollectiveKind::AllToAll:
    fail("'" + op.location + "' needs its counts");
  }
}

namespace {

/// Rows for each member: sums over its block of the counts.
std::vector<int64_t> rowsByMember(const int32_t *counts, int64_t entries,
                                  int64_t members, const std::string &where) {
  std::vector<int64_t> rows(members);
  for (int64_t i = 0; i < entries; ++i) {
    if (counts[i] < 0)
      fail("'" + where + "' has a negative count");
    rows[i / (entries / members)] += counts[i];
  }
  return rows;
}

} // namespace

int64_t Communicators::allToAll(const Op &op, void *const *pointers,
                                const int32_t *sendCounts,
                                const int32_t *recvCounts, bool refused,
                                cudaStream_t stream) {
  const Communicator &c = table.communicators[op.communicator];
  const Operand &x = op.operands[0], &y = op.operands[4];
  int64_t entries = op.operands[1].elements();
  int64_t width = x.shape[0] ? x.elements() / x.shape[0] : 0;
  int64_t bytes = width * elementBytes(x.type);
  std::vector<int64_t> send =
      rowsByMember(sendCounts, entries, c.size, op.location);
  std::vector<int64_t> recv =
      rowsByMember(recvCounts, entries, c.size, op.location);
  int64_t sent = 0, received = 0;
  for (int64_t m = 0; m < c.size; ++m) {
    sent += send[m];
    received += recv[m];
  }
  if (planted("count mismatch") && send.back() > 1)
    --send.back();
  if (sent > x.shape[0] && !refused)
    fail("'" + op.location + "' sends " + std::to_string(sent) + " rows of " +
         std::to_string(x.shape[0]));
  auto *from = static_cast<char *>(pointers[0]);
  auto *to = static_cast<char *>(pointers[4]);
  // All or nothing of a member's rows fits. The step fails later anyway, and
  // until then the rows that did not fit go back, whatever they hold.
  size_t unsent = sent > x.shape[0] ? sent * bytes : 0;
  size_t excess = received > y.shape[0] ? received * bytes : 0;
  if (unsent + excess > spareBytes) {
    // What is under way may use the last one still.
    MOE_CHECK(cudaMalloc(&spares.emplace_back(nullptr), unsent + excess));
    spareBytes = unsent + excess;
  }
  char *spare = spares.empty() ? nullptr : static_cast<char *>(spares.back());
  if (!commOf(op)) {
    int64_t rows = std::min({received, x.shape[0], y.shape[0]});
    MOE_CHECK(cudaMemcpyAsync(to, from, rows * bytes, cudaMemcpyDeviceToDevice,
                              stream));
    return received;
  }
  Group group;
  int64_t sendRow = 0, recvRow = 0;
  for (int m = 0; m < c.size; ++m) {
    bool has = sendRow + send[m] <= x.shape[0];
    bool fits = recvRow + recv[m] <= y.shape[0];
    char *source = has ? from : spare, *target = fits ? to : spare + unsent;
    if (send[m])
      MOE_CHECK(ncclSend(source + sendRow * bytes, send[m] * width,
                         dataType(x.type), m, commOf(op), stream));
    if (recv[m])
      MOE_CHECK(ncclRecv(target + recvRow * bytes, recv[m] * width,
                         dataType(y.type), m, commOf(op), stream));
    sendRow += send[m];
    recvRow += recv[m];
  }
  group.end();
  return received;
}

void Communicators::sumOverWorld(float *values, size_t count,
                                 cudaStream_t stream) {
  if (world.size == 1)
    return;
  MOE_CHECK(ncclAllReduce(values, values, count, ncclFloat32, ncclSum,
                          worldComm, stream));
  MOE_CHECK(cudaEventRecord(done, stream));
  wait(done);
}

void Communicators::wait(cudaEvent_t event) {
  auto deadline = std::chrono::steady_clock::now() + patience;
  for (int64_t turn = 0;; ++turn) {
    cudaError_t status = cudaEventQuery(event);
    if (status == cudaSuccess)
      return;
    if (status != cudaErrorNotReady) {
      abort();
      check(status, "cudaEventQuery");
    }
    // A spin is cheap for what takes microseconds.
    if (turn < 1000)
      continue;
    std::vector<ncclComm_t> all = comms;
    all.push_back(worldComm);
    for (ncclComm_t comm : all) {
      ncclResult_t result = ncclSuccess;
      if (comm)
        ncclCommGetAsyncError(comm, &result);
      if (result != ncclSuccess && result != ncclInProgress) {
        std::string text = std::string("NCCL failed: ") +
                           ncclGetErrorString(result) + ": " +
                           ncclGetLastError(comm);
        abort();
        fail(text);
      }
    }
    if (std::chrono::steady_clock::now() > deadline) {
      abort();
      fail("no progress for " + std::to_string(patience.count()) +
           " seconds: a peer is missing or a collective does not end "
           "(MOE_RT_TIMEOUT)");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}
