//===- Simulate.cpp - A table on a machine, in time -----------------------===//

#include "moe/Cost/Simulate.h"
#include "Prices.h"
#include "moe/Table/ScheduleView.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <limits>
#include <tuple>

using namespace moert;

namespace {
constexpr double kNever = std::numeric_limits<double>::infinity();
/// An op with less left than this is done: above the rounding of times.
double negligible(double now) { return 1e-15 * now + 1e-15; }

/// Where ops of several programs meet: the n-th arrivals of all roles start
/// together.
struct Meeting {
  struct Arrival {
    uint32_t program, stream;
    double seconds;
  };
  std::vector<std::deque<Arrival>> roles;
};

struct StreamState {
  struct Entry {
    int64_t call;
    uint32_t op;
    double issued;
  };
  std::vector<Entry> queue;
  size_t head = 0;
  enum { Idle, Waiting, Running } state = Idle;
  Resource resource = Resource::Compute;
  double start = 0, remaining = 0, slowdown = 0;
};

/// One rank that stands for a program.
struct Player {
  Player(const Table &table, uint32_t program)
      : view(table, program), streams(table.streams.size()),
        done(view.size(), 0), left(view.size()) {}

  ScheduleView view;
  std::vector<StreamState> streams;
  /// By flat index.
  std::vector<char> done;
  int64_t left;

  double now = 0, next = 0;
  /// The host: its time, the next op to issue, the op it waits for.
  double host = 0;
  int64_t hostCall = 0;
  uint32_t hostOp = 0;
  int64_t blockedOn = -1;

  ProgramTimes times;
};

class Simulator {
public:
  Simulator(const Table &table, const System &system, bool timeline,
            Simulation &result)
      : table(table), system(system), timeline(timeline), result(result),
        prices(priceOps(table, system)), placement(table) {
    for (uint32_t p = 0; p < table.programs.size(); ++p) {
      players.emplace_back(table, p);
      std::vector<bool> spans;
      for (uint32_t c = 0; c < table.communicators.size(); ++c)
        spans.push_back(placement.members(p, c).size() > 1);
      spanning.push_back(std::move(spans));
    }
  }

  bool run(std::string &error) {
    for (uint32_t p = 0; p < players.size(); ++p) {
      issue(p);
      startReady(p);
      plan(p);
    }
    while (true) {
      uint32_t first = 0;
      for (uint32_t p = 1; p < players.size(); ++p)
        if (players[p].next < players[first].next)
          first = p;
      if (players.empty() || players[first].next == kNever)
        break;
      step(first);
    }
    return finish(error);
  }

private:
  /// The host goes on until it waits for a copy or has nothing left: what the
  /// device does can't change these times.
  void issue(uint32_t p) {
    Player &player = players[p];
    const std::vector<Call> &calls = player.view.program().calls;
    for (; player.hostCall < static_cast<int64_t>(calls.size());
         ++player.hostCall, player.hostOp = 0) {
      uint32_t tmpl = calls[player.hostCall].tmpl;
      const std::vector<Op> &ops = table.templates[tmpl].ops;
      while (player.hostOp < ops.size()) {
        const Op &op = ops[player.hostOp];
        double seconds = prices[tmpl][player.hostOp].host;
        player.host += seconds;
        player.times.hostBusy += seconds;
        player.streams[op.stream].queue.push_back(
            {player.hostCall, player.hostOp, player.host});
        if (op.kind == OpKind::HostRead)
          player.blockedOn =
              player.view.firstOpOf(player.hostCall) + player.hostOp;
        ++player.hostOp;
        if (player.blockedOn >= 0)
          return;
      }
    }
  }

  bool waitsMet(const Player &player, const StreamState::Entry &entry) const {
    for (const Wait &wait : player.view.op(entry.call, entry.op).waits) {
      int64_t op = player.view.waitedOp(entry.call, wait);
      if (op >= 0 && !player.done[op])
        return false;
    }
    return true;
  }

  void begin(StreamState &stream, double now, double seconds) {
    stream.state = StreamState::Running;
    stream.start = now;
    stream.remaining = seconds;
  }

  /// Starts the heads of streams that may run now.
  void startReady(uint32_t p) {
    Player &player = players[p];
    for (uint32_t s = 0; s < player.streams.size(); ++s) {
      StreamState &stream = player.streams[s];
      if (stream.state != StreamState::Idle ||
          stream.head == stream.queue.size())
        continue;
      const StreamState::Entry entry = stream.queue[stream.head];
      if (entry.issued > player.now || !waitsMet(player, entry))
        continue;
      const Op &op = player.view.op(entry.call, entry.op);
      const Price &price =
          prices[player.view.program().calls[entry.call].tmpl][entry.op];
      stream.resource = price.resource;
      stream.slowdown = price.slowdown;
      if (price.resource == Resource::Pair ||
          (op.kind == OpKind::Collective && spanning[p][op.communicator]))
        meet(p, s, op, price);
      else
        begin(stream, player.now, price.seconds);
    }
  }

  /// An op that needs other programs is ready.
  void meet(uint32_t p, uint32_t s, const Op &op, const Price &price) {
    Player &player = players[p];
    StreamState &stream = player.streams[s];
    stream.state = StreamState::Waiting;
    stream.resource = Resource::Pair;
    Meeting *meeting;
    size_t role;
    double seconds = price.seconds;
    if (op.kind == OpKind::Collective) {
      std::vector<uint32_t> members = placement.members(p, op.communicator);
      role = static_cast<size_t>(std::find(members.begin(), members.end(), p) -
                                 members.begin());
      meeting = &collectives[{op.communicator, members}];
      meeting->roles.resize(members.size());
    } else {
      int64_t peer = placement.peerOf(p, op);
      uint32_t other = placement.programOf(peer);
      seconds =
          sendSeconds(system, op.bytes, peer - player.view.program().firstRank);
      // The sender's offset names the channel.
      bool sends = op.kind == OpKind::Send;
      int64_t size = table.communicators[op.communicator].size;
      int64_t offset = ((sends ? op.peer : -op.peer) % size + size) % size;
      role = sends ? 0 : 1;
      meeting = &sendPairs[{op.communicator, sends ? p : other,
                            sends ? other : p, offset}];
      meeting->roles.resize(2);
    }
    meeting->roles[role].push_back({p, s, seconds});
    for (const auto &arrivals : meeting->roles)
      if (arrivals.empty())
        return;
    double longest = 0;
    for (const auto &arrivals : meeting->roles)
      longest = std::max(longest, arrivals.front().seconds);
    for (auto &arrivals : meeting->roles) {
      Meeting::Arrival arrival = arrivals.front();
      arrivals.pop_front();
      Player &member = players[arrival.program];
      // Its next event is not before now: see run().
      advance(member, player.now);
      begin(member.streams[arrival.stream], player.now, longest);
      if (arrival.program != p)
        plan(arrival.program);
    }
  }

  struct Rates {
    double of[5] = {};
    bool computes = false, communicates = false;
  };
  Rates rates(const Player &player) const {
    int running[5] = {};
    double slowdown = 0;
    for (const StreamState &stream : player.streams)
      if (stream.state == StreamState::Running) {
        ++running[int(stream.resource)];
        slowdown = std::max(slowdown, stream.slowdown);
      }
    Rates rates;
    auto count = [&](Resource r) { return running[int(r)]; };
    rates.computes = count(Resource::Compute);
    rates.communicates = count(Resource::NVLink) + count(Resource::Network) +
                         count(Resource::Pair);
    double communication =
        rates.computes ? 1 - system.communicationSlowdown : 1;
    rates.of[int(Resource::Compute)] =
        (1 - slowdown) / std::max(1, count(Resource::Compute));
    for (Resource link : {Resource::NVLink, Resource::Network})
      rates.of[int(link)] = communication / std::max(1, count(link));
    rates.of[int(Resource::Copy)] = rates.of[int(Resource::Pair)] = 1;
    return rates;
  }

  /// Moves a program's clock, and books the time to what it did.
  void advance(Player &player, double time) {
    double dt = time - player.now;
    if (dt <= 0)
      return;
    Rates r = rates(player);
    bool waits = false, copies = false;
    for (StreamState &stream : player.streams) {
      waits |= stream.state == StreamState::Waiting;
      if (stream.state != StreamState::Running)
        continue;
      stream.remaining -= dt * r.of[int(stream.resource)];
      copies |= stream.resource == Resource::Copy;
    }
    ProgramTimes &t = player.times;
    if (r.computes)
      t.compute += dt;
    if (r.communicates)
      t.communication += dt;
    if (r.communicates && !r.computes)
      t.exposed += dt;
    if (!r.communicates && !r.computes)
      (waits || !player.left ? t.bubble : copies ? t.copy : t.host) += dt;
    player.now = time;
  }

  /// Computes the time of a program's next event.
  void plan(uint32_t p) {
    Player &player = players[p];
    Rates r = rates(player);
    player.next = kNever;
    for (const StreamState &stream : player.streams) {
      if (stream.state == StreamState::Running) {
        // A kernel may be at a standstill beside a collective.
        double wait = stream.remaining <= 0
                          ? 0
                          : stream.remaining / r.of[int(stream.resource)];
        player.next = std::min(player.next, player.now + wait);
      } else if (stream.state == StreamState::Idle &&
                 stream.head < stream.queue.size()) {
        const StreamState::Entry &entry = stream.queue[stream.head];
        if (entry.issued > player.now && waitsMet(player, entry))
          player.next = std::min(player.next, entry.issued);
      }
    }
  }

  void step(uint32_t p) {
    Player &player = players[p];
    advance(player, player.next);
    for (uint32_t s = 0; s < player.streams.size(); ++s) {
      StreamState &stream = player.streams[s];
      if (stream.state == StreamState::Running &&
          stream.remaining <= negligible(player.now))
        complete(p, s);
    }
    startReady(p);
    plan(p);
  }

  void complete(uint32_t p, uint32_t s) {
    Player &player = players[p];
    StreamState &stream = player.streams[s];
    const StreamState::Entry &entry = stream.queue[stream.head];
    int64_t flat = player.view.firstOpOf(entry.call) + entry.op;
    player.done[flat] = 1;
    --player.left;
    player.times.end = player.now;
    if (timeline)
      result.timeline.push_back(
          {p, entry.call, entry.op, stream.start, player.now});
    stream.state = StreamState::Idle;
    ++stream.head;
    if (flat != player.blockedOn)
      return;
    player.blockedOn = -1;
    player.times.hostBlocked += std::max(0.0, player.now - player.host);
    player.times.hostBusy += system.hostSync;
    player.host = std::max(player.host, player.now) + system.hostSync;
    issue(p);
  }

  bool finish(std::string &error) {
    error.clear();
    for (Player &player : players) {
      result.makespan = std::max(result.makespan, player.times.end);
      // Rather an op that waits for other programs than one that waits for it.
      const StreamState *stuck = nullptr;
      for (const StreamState &stream : player.streams)
        if (stream.head < stream.queue.size() &&
            (!stuck || (stuck->state == StreamState::Idle &&
                        stream.state == StreamState::Waiting)))
          stuck = &stream;
      if (!stuck)
        continue;
      const StreamState::Entry &entry = stuck->queue[stuck->head];
      const Op &op = player.view.op(entry.call, entry.op);
      error += (error.empty() ? "ops wait for each other: " : ", ") +
               player.view.program().name + " " +
               player.view.location(entry.call, entry.op) + " on " +
               table.streams[op.stream].name;
    }
    for (Player &player : players) {
      player.times.bubble += result.makespan - player.now;
      result.programs.push_back(player.times);
    }
    return error.empty();
  }

  const Table &table;
  const System &system;
  bool timeline;
  Simulation &result;
  std::vector<std::vector<Price>> prices;
  Placement placement;
  std::vector<Player> players;
  /// Does the communicator of a program's ranks span programs?
  std::vector<std::vector<bool>> spanning;
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, Meeting> collectives;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, int64_t>, Meeting>
      sendPairs;
};
} // namespace

bool moert::simulate(const Table &table, const System &system, bool timeline,
                     Simulation &result, std::string &error) {
  result = Simulation();
  if (Simulator(table, system, timeline, result).run(error))
    return true;
  result = Simulation();
  return false;
}
