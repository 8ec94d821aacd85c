//===- Nccl.cpp - NCCL's calls ----------------------------------*- C++ -*-===//

#include "Communicator.h"

#include <cstdio>
#include <cstring>
#include <random>

namespace standin {

std::map<ncclComm_t, CommunicatorRef> &communicators() {
  static auto &result = *new std::map<ncclComm_t, CommunicatorRef>;
  return result;
}

namespace {

thread_local std::string lastText;
thread_local int groupDepth = 0;
struct Call {
  CommunicatorRef communicator;
  cudaStream_t stream;
  std::vector<Part> parts;
};
thread_local std::vector<Call> group;
/// A communicator of the group was aborted.
thread_local bool aborts = false;

ncclResult_t refuse(ncclResult_t result, std::string text) {
  lastText = std::move(text);
  return result;
}

CommunicatorRef find(ncclComm_t handle) {
  auto it = communicators().find(handle);
  return it == communicators().end() ? nullptr : it->second;
}

ncclComm_t keep(CommunicatorRef communicator, const ncclConfig_t *config,
                bool blocking) {
  static int number = 0;
  ++number;
  communicator->name = config && config->commName
                           ? config->commName
                           : "communicator " + std::to_string(number) + " of " +
                                 std::to_string(communicator->size()) +
                                 " ranks";
  communicator->blocking = config && config->blocking != NCCL_CONFIG_UNDEF_INT
                               ? config->blocking != 0
                               : blocking;
  auto handle = reinterpret_cast<ncclComm_t>(communicator.get());
  communicators()[handle] = std::move(communicator);
  return handle;
}

/// What a call on a non-blocking communicator answers: it is done, but a
/// caller must not count on that.
ncclResult_t unsettle(Communicator &communicator) {
  if (communicator.blocking)
    return ncclSuccess;
  communicator.unsettled = 1;
  return ncclInProgress;
}

uint64_t mix(uint64_t seed, const std::string &text) {
  uint64_t hash = seed ^ 0xcbf29ce484222325;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

ncclResult_t post(std::vector<Call> calls) {
  static long number = 0;
  ncclResult_t result = ncclSuccess;
  cudaError_t error = call([&](Scheduler::Lock &) {
    ++number;
    for (Call &c : calls) {
      Stream *stream = streamOf(c.stream);
      if (!stream)
        return cudaErrorInvalidResourceHandle;
      auto work = makeWork(c.communicator, std::move(c.parts), number);
      if (cudaError_t failed = submit(*stream, std::move(work)))
        return failed;
    }
    return cudaSuccess;
  });
  if (error)
    result = refuse(ncclUnhandledCudaError, cudaGetErrorString(error));
  return result;
}

ncclResult_t collect(ncclComm_t handle, cudaStream_t stream, Part part) {
  CommunicatorRef communicator;
  {
    Scheduler::Lock lock = scheduler().enter();
    communicator = find(handle);
  }
  if (!communicator || communicator->unsettled)
    return refuse(ncclInvalidArgument, communicator
                                           ? "the communicator is not ready yet"
                                           : "not a communicator");
  if (communicator->aborted)
    return refuse(ncclInvalidUsage, "the communicator was aborted");
  if (!elementBytes(part.type))
    return refuse(ncclInvalidArgument, "a type that the stand-in lacks");
  if (part.kind <= Kind::ReduceScatter && part.reduction != ncclSum &&
      part.reduction != ncclMax)
    return refuse(ncclInvalidArgument, "a reduction that the stand-in lacks");
  if (part.root < 0 || part.root >= communicator->size())
    return refuse(ncclInvalidArgument, "no such rank");
  if (groupDepth == 0)
    return post({{communicator, stream, {part}}});
  // Calls of a group on one communicator and stream are one op.
  for (Call &c : group)
    if (c.communicator == communicator && c.stream == stream) {
      c.parts.push_back(part);
      return ncclSuccess;
    }
  group.push_back({communicator, stream, {part}});
  return ncclSuccess;
}

ncclResult_t split(const CommunicatorRef &parent, int color, int key,
                   ncclComm_t *result, const ncclConfig_t *config) {
  int64_t number = parent->splits++;
  Signature own;
  own.kind = color;
  own.root = key;
  for (int to = 0; to < parent->size(); ++to)
    parent->send(to, Channel::Split, number, own);
  std::vector<std::pair<int, int>> order;
  for (int from = 0; from < parent->size(); ++from) {
    Key message = parent->key(Channel::Split, from, number);
    if (!parent->mesh->waitFor(message))
      fault("DEADLOCK", "ncclCommSplit of " + parent->name +
                            " waits for rank " + std::to_string(from));
    Signature theirs = parent->mesh->take(message).signature;
    if (theirs.kind == color)
      order.push_back({theirs.root, from});
  }
  Scheduler::Lock lock = scheduler().enter();
  *result = nullptr;
  if (color != NCCL_SPLIT_NOCOLOR) {
    std::sort(order.begin(), order.end());
    auto child = std::make_shared<Communicator>();
    child->mesh = parent->mesh;
    child->id =
        mix(parent->id, std::to_string(number) + ":" + std::to_string(color));
    for (auto [sortKey, from] : order) {
      if (from == parent->rank)
        child->rank = child->size();
      child->members.push_back(parent->members[from]);
    }
    *result = keep(child, config, parent->blocking);
    unsettle(*child);
  }
  return unsettle(*parent);
}

/// Runs what was issued on it.
void flush(Communicator &communicator, Scheduler::Lock &lock) {
  if (OpRef last = communicator.last; last && !communicator.aborted)
    scheduler().until(lock, [&] { return last->done || communicator.aborted; });
}

/// Taking a communicator down frees device memory, which waits for the device:
/// for kernels of other communicators, too, unless they were told to end.
void settleAborts(Scheduler::Lock &lock) {
  if (!std::exchange(aborts, false))
    return;
  std::vector<CommunicatorRef> all;
  for (auto &[handle, communicator] : communicators())
    all.push_back(communicator);
  for (const CommunicatorRef &communicator : all)
    flush(*communicator, lock);
}

void forget(ncclComm_t handle, const CommunicatorRef &communicator) {
  communicators().erase(handle);
  for (auto &[otherHandle, other] : communicators())
    if (other->mesh == communicator->mesh)
      return;
  communicator->mesh->leave();
}

} // namespace
} // namespace standin

using namespace standin;

ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  std::random_device random;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal,
                "moe-stand-in-%08x%08x%08x%08x", random(), random(), random(),
                random());
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  case ncclSystemError:
    return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
  case ncclInternalError:
    return "internal error - please report this issue to the NCCL developers";
  case ncclInvalidArgument:
    return "invalid argument (run with NCCL_DEBUG=WARN for details)";
  case ncclInvalidUsage:
    return "invalid usage (run with NCCL_DEBUG=WARN for details)";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInProgress:
    return "NCCL operation in progress";
  default:
    return "unknown result code";
  }
}

const char *ncclGetLastError(ncclComm_t) { return lastText.c_str(); }

ncclResult_t ncclCommInitRankConfig(ncclComm_t *result, int size,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  if (settings().noDriver)
    return refuse(ncclUnhandledCudaError,
                  cudaGetErrorString(cudaErrorInsufficientDriver));
  if (size < 1 || rank < 0 || rank >= size)
    return refuse(ncclInvalidArgument, "no such rank");
  id.internal[sizeof id.internal - 1] = 0;
  std::string name = id.internal;
  auto communicator = std::make_shared<Communicator>();
  communicator->mesh = Mesh::connect(name, size, rank);
  communicator->id = mix(0, name);
  communicator->rank = rank;
  for (int i = 0; i < size; ++i)
    communicator->members.push_back(i);
  Scheduler::Lock lock = scheduler().enter();
  int none = -1;
  counts().rank.compare_exchange_strong(none, rank);
  *result = keep(communicator, config, true);
  return unsettle(*communicator);
}

ncclResult_t ncclCommInitRank(ncclComm_t *result, int size, ncclUniqueId id,
                              int rank) {
  return ncclCommInitRankConfig(result, size, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key,
                           ncclComm_t *result, ncclConfig_t *config) {
  CommunicatorRef parent;
  {
    Scheduler::Lock lock = scheduler().enter();
    parent = find(handle);
  }
  if (!parent || parent->unsettled || parent->aborted)
    return refuse(ncclInvalidArgument, "not a communicator, or not ready");
  return split(parent, color, key, result, config);
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  Scheduler::Lock lock = scheduler().enter();
  CommunicatorRef communicator = find(handle);
  if (!communicator)
    return refuse(ncclInvalidArgument, "not a communicator");
  flush(*communicator, lock);
  return unsettle(*communicator);
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  Scheduler::Lock lock = scheduler().enter();
  CommunicatorRef communicator = find(handle);
  if (!communicator)
    return refuse(ncclInvalidArgument, "not a communicator");
  flush(*communicator, lock);
  forget(handle, communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  Scheduler::Lock lock = scheduler().enter();
  CommunicatorRef communicator = find(handle);
  if (!communicator)
    return refuse(ncclInvalidArgument, "not a communicator");
  communicator->aborted = true;
  for (int peer = 0; peer < communicator->size(); ++peer)
    if (peer != communicator->rank)
      communicator->send(peer, Channel::Abort, 0, {});
  forget(handle, communicator);
  aborts = true;
  if (groupDepth == 0)
    settleAborts(lock);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *error) {
  Scheduler::Lock lock = scheduler().enter();
  CommunicatorRef communicator = find(handle);
  if (!communicator)
    return refuse(ncclInvalidArgument, "not a communicator");
  if (communicator->unsettled > 0) {
    --communicator->unsettled;
    *error = ncclInProgress;
    return ncclSuccess;
  }
  Mesh &mesh = *communicator->mesh;
  bool remote = mesh.aborted(communicator->id);
  for (int member : communicator->members)
    remote = remote || mesh.died(member);
  if (communicator->error == ncclSuccess && remote)
    communicator->error = ncclRemoteError;
  *error = communicator->error;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int *count) {
  Scheduler::Lock lock = scheduler().enter();
  CommunicatorRef communicator = find(handle);
  if (!communicator)
    return refuse(ncclInvalidArgument, "not a communicator");
  *count = communicator->size();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int *rank) {
  Scheduler::Lock lock = scheduler().enter();
  CommunicatorRef communicator = find(handle);
  if (!communicator)
    return refuse(ncclInvalidArgument, "not a communicator");
  *rank = communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count,
                           ncclDataType_t type, ncclRedOp_t reduction,
                           ncclComm_t communicator, cudaStream_t stream) {
  return collect(communicator, stream,
                 {Kind::AllReduce, from, to, count, type, reduction, 0});
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count,
                               ncclDataType_t type, ncclRedOp_t reduction,
                               ncclComm_t communicator, cudaStream_t stream) {
  return collect(communicator, stream,
                 {Kind::ReduceScatter, from, to, count, type, reduction, 0});
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count,
                           ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  return collect(communicator, stream,
                 {Kind::AllGather, from, to, count, type, ncclSum, 0});
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count,
                           ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return collect(communicator, stream,
                 {Kind::Broadcast, from, to, count, type, ncclSum, root});
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t communicator, cudaStream_t stream) {
  return collect(communicator, stream,
                 {Kind::Send, from, nullptr, count, type, ncclSum, peer});
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return collect(communicator, stream,
                 {Kind::Recv, nullptr, to, count, type, ncclSum, peer});
}

ncclResult_t ncclGroupStart() {
  ++groupDepth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (groupDepth == 0)
    return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--groupDepth > 0)
    return ncclSuccess;
  {
    Scheduler::Lock lock = scheduler().enter();
    settleAborts(lock);
  }
  return post(std::exchange(group, {}));
}
