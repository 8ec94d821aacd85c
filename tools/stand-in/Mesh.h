//===- Mesh.h - Messages between the processes of one machine ---*- C++ -*-===//
//
// Each pair of processes that share a unique id has a connection. A thread
// takes in whatever comes, so that a send never waits for the peer's program.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_STAND_IN_MESH_H
#define MOE_TOOLS_STAND_IN_MESH_H

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace standin {

enum class Channel : int32_t { Collective, Data, Posted, Split, Abort, Leave };

/// Names a message: its communicator, channel, sender (a rank of the mesh) and
/// number among those.
struct Key {
  uint64_t communicator;
  Channel channel;
  int32_t from;
  int64_t sequence;
  bool operator<(const Key &other) const {
    return std::tie(communicator, channel, from, sequence) <
           std::tie(other.communicator, other.channel, other.from,
                    other.sequence);
  }
};

/// What an op must agree about with its peers.
struct Signature {
  int32_t kind = 0, type = 0, reduction = 0, root = 0;
  int64_t count = 0;
  bool operator==(const Signature &other) const {
    return std::tie(kind, type, reduction, root, count) ==
           std::tie(other.kind, other.type, other.reduction, other.root,
                    other.count);
  }
};

struct Message {
  Signature signature;
  std::vector<char> payload;
};

class Mesh {
public:
  /// Meets the other ranks; faults if one doesn't come.
  static std::shared_ptr<Mesh> connect(const std::string &id, int size,
                                       int rank);

  int rank() const { return ownRank; }
  int size() const { return int(peers.size()); }
  /// Process that a rank is.
  int process(int rank) const { return peers[rank].process; }

  /// `key.from` is this rank.
  void send(int to, const Key &key, const Signature &signature,
            const void *payload = nullptr, size_t bytes = 0);
  bool has(const Key &key);
  Message take(const Key &key);
  /// Waits for a message; false: it did not come in time.
  bool waitFor(const Key &key);

  /// Ended without a word.
  bool died(int rank);
  /// Died, or has destroyed its communicators.
  bool gone(int rank);
  /// A peer has aborted the communicator.
  bool aborted(uint64_t communicator);
  /// Tells the peers that nothing more will come.
  void leave();

private:
  struct Frame;
  struct Peer {
    int socket = -1;
    int process = 0;
    bool left = false, ended = false;
    std::mutex sending;
  };

  Mesh(int size, int rank) : ownRank(rank), peers(size) {}
  void receive();
  bool receiveOne(int from);
  void deliver(const Key &key, Message message);

  int ownRank;
  std::vector<Peer> peers;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Key, Message> messages;
  std::set<uint64_t> abortedCommunicators;
};

} // namespace standin

#endif // MOE_TOOLS_STAND_IN_MESH_H
