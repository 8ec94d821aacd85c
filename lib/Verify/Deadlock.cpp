//===- Deadlock.cpp - Whether the job comes to its end --------------------===//

#include "Deadlock.h"

#include <algorithm>
#include <tuple>

using namespace moert;
using namespace moert::verifier;

namespace {

class Player {
public:
  Player(const std::vector<FlatProgram> &programs, const Peers &peers)
      : programs(programs), peers(peers) {
    for (const FlatProgram &program : programs) {
      Rank rank;
      rank.streams.resize(program.streamOps.size());
      rank.done.resize(program.size());
      rank.communicators.resize(program.view.table().communicators.size());
      program.forEachOp([&](int32_t index, int32_t, const Op &op,
                            const FlatOperand *, const FlatOperand *) {
        if (communicates(op))
          rank.communicators[op.communicator].ops.push_back(index);
        if (op.kind == OpKind::HostRead)
          rank.stops.push_back(index);
      });
      rank.stops.push_back(program.size() - 1);
      ranks.push_back(std::move(rank));
    }
  }

  void play() {
    for (uint32_t p = 0; p < programs.size(); ++p)
      wakeAll(p);
    while (!work.empty()) {
      auto [p, s] = work.back();
      work.pop_back();
      advance(p, s);
    }
  }

  /// Heads of streams that the host has issued and that wait; first those that
  /// wait for other ranks, which hold up the rest.
  std::vector<OpRef> stuck() const {
    std::vector<OpRef> result;
    for (uint32_t p = 0; p < programs.size(); ++p)
      for (uint32_t s = 0; s < ranks[p].streams.size(); ++s) {
        int32_t head = headOf(p, s);
        if (head >= 0 && head <= issuedTo(p))
          result.push_back({&programs[p], head});
      }
    auto waitsHere = [&](OpRef ref) {
      return waitsFor(ref.program->index, ref.op) >= 0;
    };
    std::sort(result.begin(), result.end(), [&](OpRef a, OpRef b) {
      return std::tuple(waitsHere(a), a.program->index, a.op) <
             std::tuple(waitsHere(b), b.program->index, b.op);
    });
    return result;
  }

  /// What a stuck op waits for.
  std::string reason(OpRef ref) const {
    uint32_t p = ref.program->index;
    int32_t waited = waitsFor(p, ref.op);
    if (waited >= 0)
      return "waits for " + ref.program->describe(waited);
    for (OpRef partner : partnersOf(p, ref.op))
      if (headOf(partner.program->index,
                 partner.program->op(partner.op).stream) != partner.op ||
          partner.op > issuedTo(partner.program->index) ||
          waitsFor(partner.program->index, partner.op) >= 0)
        return "waits for " + partner.program->describe(partner.op) + " of " +
               partner.program->describeRanks();
    return "waits";
  }

private:
  struct StreamState {
    int32_t head = 0;
    /// The op of this rank whose end the head waits for, -1: none.
    int32_t blockedOn = -1;
  };
  /// A communicator runs its ops in issue order, too.
  struct CommunicatorState {
    std::vector<int32_t> ops;
    size_t next = 0;
  };
  struct Rank {
    std::vector<StreamState> streams;
    std::vector<CommunicatorState> communicators;
    std::vector<bool> done;
    /// Host reads in issue order, and the last op; the host has issued all up
    /// to stops[stop].
    std::vector<int32_t> stops;
    size_t stop = 0;
  };

  int32_t issuedTo(uint32_t p) const { return ranks[p].stops[ranks[p].stop]; }
  int32_t headOf(uint32_t p, uint32_t s) const {
    const std::vector<int32_t> &ops = programs[p].streamOps[s];
    int32_t head = ranks[p].streams[s].head;
    return head < int32_t(ops.size()) ? ops[head] : -1;
  }
  /// What must be done on this rank before a head of a stream, -1: nothing.
  int32_t waitsFor(uint32_t p, int32_t index) const {
    const Op &op = programs[p].op(index);
    for (const Wait &wait : op.waits) {
      int64_t waited =
          programs[p].view.waitedOp(programs[p].callOf[index], wait);
      if (waited >= 0 && !ranks[p].done[waited])
        return waited;
    }
    if (communicates(op)) {
      const CommunicatorState &c = ranks[p].communicators[op.communicator];
      if (c.ops[c.next] != index)
        return c.ops[c.next];
    }
    return -1;
  }
  void wakeAll(uint32_t p) {
    for (uint32_t s = 0; s < ranks[p].streams.size(); ++s)
      work.push_back({p, s});
  }

  /// Ops of other programs that must run together with this one.
  std::vector<OpRef> partnersOf(uint32_t p, int32_t index) const {
    const Op &op = programs[p].op(index);
    int32_t number = peers.ordinal[p][index];
    std::vector<OpRef> partners;
    if (op.kind == OpKind::Collective) {
      if (peers.classSize(op.communicator, p) > 1)
        for (uint32_t q = 0; q < programs.size(); ++q)
          if (q != p && peers.classOf(op.communicator, q) ==
                            peers.classOf(op.communicator, p))
            partners.push_back(
                {&programs[q], peers.collectives(q, op.communicator)[number]});
    } else if (op.kind == OpKind::Send || op.kind == OpKind::Recv) {
      const Peers::Channel &channel = peers.channels[peers.channelOf(p, op)];
      partners.push_back(
          op.kind == OpKind::Send
              ? OpRef{&programs[channel.to], channel.receives[number]}
              : OpRef{&programs[channel.from], channel.sends[number]});
    }
    return partners;
  }

  bool ready(uint32_t p, int32_t op) const {
    return headOf(p, programs[p].op(op).stream) == op && op <= issuedTo(p) &&
           waitsFor(p, op) < 0;
  }

  void advance(uint32_t p, uint32_t s) {
    StreamState &stream = ranks[p].streams[s];
    for (;;) {
      int32_t op = headOf(p, s);
      if (op < 0 || op > issuedTo(p))
        return;
      stream.blockedOn = waitsFor(p, op);
      if (stream.blockedOn >= 0)
        return;
      std::vector<OpRef> partners = partnersOf(p, op);
      for (OpRef partner : partners)
        if (!ready(partner.program->index, partner.op))
          return;
      for (OpRef partner : partners) {
        uint32_t q = partner.program->index;
        finish(q, partner.op);
        work.push_back({q, partner.program->op(partner.op).stream});
      }
      finish(p, op);
    }
  }

  void finish(uint32_t p, int32_t index) {
    Rank &rank = ranks[p];
    const Op &op = programs[p].op(index);
    uint32_t own = op.stream;
    if (communicates(op))
      ++rank.communicators[op.communicator].next;
    rank.done[index] = true;
    ++rank.streams[own].head;
    for (uint32_t s = 0; s < rank.streams.size(); ++s)
      if (s != own && rank.streams[s].blockedOn == index)
        work.push_back({p, s});
    if (index == issuedTo(p) && rank.stop + 1 < rank.stops.size()) {
      ++rank.stop;
      wakeAll(p);
    }
  }

  const std::vector<FlatProgram> &programs;
  const Peers &peers;
  std::vector<Rank> ranks;
  std::vector<std::pair<uint32_t, uint32_t>> work;
};

} // namespace

bool verifier::proveNoDeadlock(const Table &table,
                               const std::vector<FlatProgram> &programs,
                               const Peers &peers, Faults &faults) {
  Player player(programs, peers);
  player.play();
  std::vector<OpRef> stuck = player.stuck();
  if (stuck.empty())
    return true;
  constexpr int kDeadlock = 100;
  faults.add(Proof::Agreement, kDeadlock, stuck[0],
             stuck.size() > 1 ? stuck[1] : OpRef(), [&] {
               std::string text = "the job stops, ops wait in a cycle:";
               for (size_t i = 0; i < stuck.size() && i < 8; ++i)
                 text += (i ? "; " : " ") +
                         stuck[i].program->describe(stuck[i].op) + " of " +
                         stuck[i].program->describeRanks() + " " +
                         player.reason(stuck[i]);
               return text;
             });
  return false;
}
