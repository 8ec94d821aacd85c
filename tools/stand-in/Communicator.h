//===- Communicator.h - NCCL's communicators and their ops ------*- C++ -*-===//

#ifndef MOE_TOOLS_STAND_IN_COMMUNICATOR_H
#define MOE_TOOLS_STAND_IN_COMMUNICATOR_H

#include "Calls.h"
#include "Mesh.h"

namespace standin {

/// Last op of each lane that used a communicator.
struct Use {
  uint32_t tick;
  std::string name;
  long group;
};

struct Communicator {
  std::string name;
  std::shared_ptr<Mesh> mesh;
  /// Agreed by all members.
  uint64_t id = 0;
  /// Ranks of the mesh, by rank of the communicator.
  std::vector<int> members;
  int rank = 0;
  bool blocking = true;
  /// Answers of ncclInProgress that are left to give.
  int unsettled = 0;
  ncclResult_t error = ncclSuccess;
  bool aborted = false;

  /// Ops run in the order in which they are issued, as NCCL makes sure.
  OpRef last;
  int64_t collectives = 0, splits = 0;
  std::map<int, int64_t> sent, received;
  std::map<int, Use> uses;

  int size() const { return int(members.size()); }
  Key key(Channel channel, int from, int64_t sequence) const {
    return {id, channel, members[from], sequence};
  }
  void send(int to, Channel channel, int64_t sequence,
            const Signature &signature, const void *payload = nullptr,
            size_t bytes = 0) const {
    mesh->send(members[to], key(channel, rank, sequence), signature, payload,
               bytes);
  }
};
using CommunicatorRef = std::shared_ptr<Communicator>;

/// Those that this process has not destroyed.
std::map<ncclComm_t, CommunicatorRef> &communicators();

enum class Kind : int32_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  Broadcast,
  Send,
  Recv
};

/// A call: several in one group are one op.
struct Part {
  Kind kind;
  const void *from;
  void *to;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  /// Root or peer.
  int root;
};

/// Bytes of an element; 0: the stand-in doesn't have the type.
size_t elementBytes(ncclDataType_t type);

/// `group`: ops of the same group are posted at once.
std::shared_ptr<Work> makeWork(CommunicatorRef communicator,
                               std::vector<Part> parts, long group);

} // namespace standin

#endif // MOE_TOOLS_STAND_IN_COMMUNICATOR_H
