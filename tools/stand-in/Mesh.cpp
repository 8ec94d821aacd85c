//===- Mesh.cpp - Messages between the processes of one machine -*- C++ -*-===//

#include "Mesh.h"
#include "Report.h"
#include "Scheduler.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace standin {
namespace {

using Time = std::chrono::steady_clock::time_point;

/// Processes start when their launcher gets to it.
constexpr double kMeetingSeconds = 60;

Time deadline(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::milliseconds(long(seconds * 1000));
}

/// In the abstract name space, which leaves no file behind.
socklen_t address(const std::string &id, int rank, sockaddr_un &result) {
  std::string name = id + "-" + std::to_string(rank);
  result = {};
  result.sun_family = AF_UNIX;
  std::memcpy(result.sun_path + 1, name.data(), name.size());
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

bool sendAll(int socket, const void *data, size_t bytes) {
  auto *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t sent = ::send(socket, next, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return false;
    next += sent;
    bytes -= size_t(sent);
  }
  return true;
}

bool receiveAll(int socket, void *data, size_t bytes) {
  auto *next = static_cast<char *>(data);
  while (bytes > 0) {
    ssize_t got = ::recv(socket, next, bytes, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    next += got;
    bytes -= size_t(got);
  }
  return true;
}

struct Hello {
  int32_t rank, size, process;
};

[[noreturn]] void missing(int rank) {
  fault("DEADLOCK", "ncclCommInitRank waits for rank " + std::to_string(rank));
}

int dial(const std::string &id, int rank, Time until) {
  sockaddr_un to;
  socklen_t length = address(id, rank, to);
  for (;;) {
    int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket, reinterpret_cast<sockaddr *>(&to), length) == 0)
      return socket;
    ::close(socket);
    if (std::chrono::steady_clock::now() > until)
      missing(rank);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

} // namespace

struct Mesh::Frame {
  Key key;
  Signature signature;
  uint64_t bytes;
};

std::shared_ptr<Mesh> Mesh::connect(const std::string &id, int size, int rank) {
  std::shared_ptr<Mesh> mesh(new Mesh(size, rank));
  Time until = deadline(std::max(kMeetingSeconds, settings().timeout));
  sockaddr_un own;
  socklen_t length = address(id, rank, own);
  int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(listening, reinterpret_cast<sockaddr *>(&own), length) != 0 ||
      ::listen(listening, size) != 0)
    fault("COLLECTIVE", "ncclCommInitRank: rank " + std::to_string(rank) +
                            " is taken twice: " + std::strerror(errno));
  Hello self{rank, size, int32_t(::getpid())};
  mesh->peers[rank].process = self.process;
  for (int i = 1; i < size; ++i) {
    int socket = -1;
    if (i <= rank) {
      socket = dial(id, i - 1, until);
    } else {
      pollfd waiting{listening, POLLIN, 0};
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - std::chrono::steady_clock::now());
      if (::poll(&waiting, 1, int(std::max<long>(left.count(), 0))) <= 0)
        for (int peer = rank + 1; peer < size; ++peer)
          if (mesh->peers[peer].socket < 0)
            missing(peer);
      socket = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    }
    Hello other;
    if (!sendAll(socket, &self, sizeof self) ||
        !receiveAll(socket, &other, sizeof other))
      fault("COLLECTIVE", "ncclCommInitRank: a rank ended");
    if (other.size != size)
      fault("COLLECTIVE", "ncclCommInitRank: rank " + std::to_string(rank) +
                              " says " + std::to_string(size) +
                              " ranks, rank " + std::to_string(other.rank) +
                              " says " + std::to_string(other.size));
    mesh->peers[other.rank].socket = socket;
    mesh->peers[other.rank].process = other.process;
  }
  ::close(listening);
  // The thread keeps the mesh until all peers have ended.
  std::thread([mesh] { mesh->receive(); }).detach();
  return mesh;
}

void Mesh::send(int to, const Key &key, const Signature &signature,
                const void *payload, size_t bytes) {
  if (to == ownRank) {
    auto *data = static_cast<const char *>(payload);
    deliver(key, {signature, std::vector<char>(data, data + bytes)});
    return;
  }
  Peer &peer = peers[to];
  Frame frame{key, signature, bytes};
  std::lock_guard<std::mutex> guard(peer.sending);
  // A peer that ended is found by the thread that receives.
  if (sendAll(peer.socket, &frame, sizeof frame))
    sendAll(peer.socket, payload, bytes);
}

void Mesh::deliver(const Key &key, Message message) {
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (key.channel == Channel::Abort)
      abortedCommunicators.insert(key.communicator);
    else if (key.channel == Channel::Leave)
      peers[key.from].left = true;
    else
      messages[key] = std::move(message);
    changed.notify_all();
  }
  scheduler().notify();
}

bool Mesh::receiveOne(int from) {
  Frame frame;
  Message message;
  if (!receiveAll(peers[from].socket, &frame, sizeof frame))
    return false;
  message.signature = frame.signature;
  message.payload.resize(frame.bytes);
  if (!receiveAll(peers[from].socket, message.payload.data(), frame.bytes))
    return false;
  deliver(frame.key, std::move(message));
  return true;
}

void Mesh::receive() {
  std::vector<pollfd> sockets;
  for (Peer &peer : peers)
    sockets.push_back({peer.socket, POLLIN, 0});
  for (int open = size() - 1; open > 0;) {
    if (::poll(sockets.data(), sockets.size(), -1) < 0)
      continue;
    for (int i = 0; i < size(); ++i) {
      if (!sockets[i].revents || receiveOne(i))
        continue;
      sockets[i].fd = -1;
      --open;
      std::lock_guard<std::mutex> guard(mutex);
      peers[i].ended = true;
    }
  }
}

bool Mesh::has(const Key &key) {
  std::lock_guard<std::mutex> guard(mutex);
  return messages.count(key) != 0;
}

Message Mesh::take(const Key &key) {
  std::lock_guard<std::mutex> guard(mutex);
  auto node = messages.extract(key);
  return std::move(node.mapped());
}

bool Mesh::waitFor(const Key &key) {
  std::unique_lock<std::mutex> guard(mutex);
  return changed.wait_until(guard, deadline(settings().timeout),
                            [&] { return messages.count(key) != 0; });
}

bool Mesh::died(int rank) {
  std::lock_guard<std::mutex> guard(mutex);
  return peers[rank].ended && !peers[rank].left;
}

bool Mesh::gone(int rank) {
  std::lock_guard<std::mutex> guard(mutex);
  return peers[rank].ended || peers[rank].left;
}

bool Mesh::aborted(uint64_t communicator) {
  std::lock_guard<std::mutex> guard(mutex);
  return abortedCommunicators.count(communicator) != 0;
}

void Mesh::leave() {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != ownRank)
      send(peer, {0, Channel::Leave, ownRank, 0}, {});
}

} // namespace standin
