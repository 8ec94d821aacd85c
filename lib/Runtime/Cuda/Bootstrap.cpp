//===- Bootstrap.cpp - Which rank this is, and the first contact ----------===//

#include "Bootstrap.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <netdb.h>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace moert::cuda;

namespace {

/// Reads a number; absent: leaves `value` and returns false.
bool readVariable(const char *name, int64_t &value, std::string &error) {
  const char *text = std::getenv(name);
  if (!text || !*text)
    return false;
  char *end = nullptr;
  errno = 0;
  long long number = std::strtoll(text, &end, 10);
  if (*end || errno || number < 0) {
    error = std::string(name) + "='" + text + "' is not a number from 0";
    return false;
  }
  value = number;
  return true;
}

struct Launcher {
  const char *rank, *size, *localRank;
};

constexpr Launcher launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

class Socket {
public:
  explicit Socket(int handle = -1) : handle(handle) {}
  Socket(Socket &&other) : handle(std::exchange(other.handle, -1)) {}
  Socket &operator=(Socket &&other) {
    std::swap(handle, other.handle);
    return *this;
  }
  ~Socket() {
    if (handle >= 0)
      close(handle);
  }
  explicit operator bool() const { return handle >= 0; }
  int get() const { return handle; }

  bool send(const void *data, size_t bytes) const {
    auto *at = static_cast<const char *>(data);
    while (bytes > 0) {
      ssize_t n = ::send(handle, at, bytes, MSG_NOSIGNAL);
      if (n <= 0)
        return false;
      at += n;
      bytes -= n;
    }
    return true;
  }
  bool receive(void *data, size_t bytes) const {
    auto *at = static_cast<char *>(data);
    while (bytes > 0) {
      ssize_t n = ::recv(handle, at, bytes, 0);
      if (n <= 0)
        return false;
      at += n;
      bytes -= n;
    }
    return true;
  }
  /// A read that takes longer fails.
  void limit(int seconds) const {
    timeval limit{seconds, 0};
    setsockopt(handle, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }

private:
  int handle;
};

using Clock = std::chrono::steady_clock;

/// Where rank 0 is, and how long to try.
struct Meeting {
  std::string host = "127.0.0.1", port;
  Clock::time_point deadline;
  int64_t seconds = 300;
};

bool readMeeting(const World &world, Meeting &meeting, std::string &error) {
  int64_t port = 29500;
  readVariable("MASTER_PORT", port, error);
  // The launcher itself may listen at MASTER_PORT.
  ++port;
  readVariable("MOE_RT_PORT", port, error);
  readVariable("MOE_RT_TIMEOUT", meeting.seconds, error);
  if (!error.empty())
    return false;
  // Eleven days: poll() counts milliseconds by int.
  if (meeting.seconds < 1 || meeting.seconds > 1000000) {
    error = "MOE_RT_TIMEOUT='" + std::to_string(meeting.seconds) +
            "' is not a number of seconds from 1 to 1000000";
    return false;
  }
  if (port < 1 || port > 65535) {
    error = "port " + std::to_string(port) + " of rank 0 is out of range";
    return false;
  }
  meeting.port = std::to_string(port);
  if (const char *host = std::getenv("MASTER_ADDR"); host && *host)
    meeting.host = host;
  meeting.deadline = Clock::now() + std::chrono::seconds(meeting.seconds);
  return true;
}

struct Addresses {
  addrinfo *list = nullptr;
  ~Addresses() {
    if (list)
      freeaddrinfo(list);
  }
};

std::string resolve(const char *host, const Meeting &meeting, int flags,
                    Addresses &addresses) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  if (int status =
          getaddrinfo(host, meeting.port.c_str(), &hints, &addresses.list))
    return "MASTER_ADDR '" + meeting.host + "': " + gai_strerror(status);
  return "";
}

struct Hello {
  uint64_t magic = 0x6d6f652d72742d31; // "moe-rt-1"
  uint64_t key = 0;
  int64_t rank = 0, size = 0;
};

std::string listen(const Meeting &meeting, Socket &listener) {
  Addresses addresses;
  std::string problem = resolve(nullptr, meeting, AI_PASSIVE, addresses);
  for (addrinfo *a = addresses.list; a && problem.empty(); a = a->ai_next) {
    Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    int yes = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(socket.get(), a->ai_addr, a->ai_addrlen) == 0 &&
        ::listen(socket.get(), 1024) == 0) {
      listener = std::move(socket);
      return "";
    }
  }
  return problem.empty() ? "can't listen at port " + meeting.port + ": " +
                               std::strerror(errno)
                         : problem;
}

std::string serve(const World &world, uint64_t key, const void *data,
                  size_t bytes, const Meeting &meeting) {
  Socket listener;
  std::string problem = listen(meeting, listener);
  std::vector<Socket> peers;
  std::set<int64_t> seen;
  while (problem.empty() && int64_t(peers.size()) < world.size - 1) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        meeting.deadline - Clock::now());
    pollfd waiting{listener.get(), POLLIN, 0};
    if (left.count() <= 0 || poll(&waiting, 1, int(left.count())) <= 0) {
      problem = "only " + std::to_string(peers.size() + 1) + " of " +
                std::to_string(world.size) + " ranks came to port " +
                meeting.port + " within " + std::to_string(meeting.seconds) +
                " seconds";
      break;
    }
    Socket peer(accept(listener.get(), nullptr, nullptr));
    Hello hello;
    const uint64_t magic = hello.magic;
    peer.limit(10);
    // A stranger, such as a port scanner, is sent away.
    if (!peer || !peer.receive(&hello, sizeof hello) || hello.magic != magic)
      continue;
    if (hello.key != key || hello.size != world.size)
      problem = "rank " + std::to_string(hello.rank) +
                " runs another program or job size";
    else if (hello.rank < 1 || hello.rank >= world.size ||
             !seen.insert(hello.rank).second)
      problem = "rank " + std::to_string(hello.rank) + " came twice";
    peers.push_back(std::move(peer));
  }
  uint32_t length = problem.size();
  for (const Socket &peer : peers)
    if (!peer.send(&length, sizeof length) ||
        !peer.send(length ? problem.data() : static_cast<const char *>(data),
                   length ? length : bytes))
      problem = "a rank left before it knew the others";
  return problem;
}

std::string join(const World &world, uint64_t key, void *data, size_t bytes,
                 const Meeting &meeting) {
  std::string where = meeting.host + ":" + meeting.port;
  Socket root;
  while (!root) {
    Addresses addresses;
    std::string problem = resolve(meeting.host.c_str(), meeting, 0, addresses);
    if (!problem.empty())
      return problem;
    for (addrinfo *a = addresses.list; a && !root; a = a->ai_next) {
      Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(socket.get(), a->ai_addr, a->ai_addrlen) == 0)
        root = std::move(socket);
    }
    if (!root && Clock::now() > meeting.deadline)
      return "rank 0 does not answer at " + where + " within " +
             std::to_string(meeting.seconds) +
             " seconds (MASTER_ADDR, MOE_RT_PORT)";
    if (!root)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  Hello hello;
  hello.key = key;
  hello.rank = world.rank;
  hello.size = world.size;
  root.limit(int(meeting.seconds) + 10);
  uint32_t length = 0;
  if (!root.send(&hello, sizeof hello) || !root.receive(&length, sizeof length))
    return "rank 0 at " + where + " ended the call";
  if (length == 0)
    return root.receive(data, bytes) ? "" : "rank 0 at " + where + " left";
  std::string problem(std::min<uint32_t>(length, 4096), ' ');
  if (!root.receive(problem.data(), problem.size()))
    problem = "rank 0 at " + where + " left";
  return problem;
}

} // namespace

bool moert::cuda::readWorld(World &world, std::string &error) {
  error.clear();
  for (const Launcher &launcher : launchers) {
    World found;
    bool hasRank = readVariable(launcher.rank, found.rank, error);
    bool hasSize = readVariable(launcher.size, found.size, error);
    if (error.empty() && hasRank && hasSize) {
      readVariable(launcher.localRank, found.localRank, error);
      if (error.empty() && found.rank >= found.size)
        error = std::string(launcher.rank) + "=" + std::to_string(found.rank) +
                " is not below " + launcher.size + "=" +
                std::to_string(found.size);
      world = found;
      return error.empty();
    }
    if (!error.empty())
      return false;
  }
  world = World();
  return true;
}

bool moert::cuda::shareFromRoot(const World &world, uint64_t key, void *data,
                                size_t bytes, std::string &error) {
  error.clear();
  if (world.size == 1)
    return true;
  Meeting meeting;
  if (!readMeeting(world, meeting, error))
    return false;
  error = world.rank == 0 ? serve(world, key, data, bytes, meeting)
                          : join(world, key, data, bytes, meeting);
  return error.empty();
}
