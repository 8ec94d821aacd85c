//===- Agreement.cpp - Proof 2: ranks agree -------------------------------===//
//
// The ranks of a program issue the same ops, so that only programs whose ranks
// share a group are compared: their collectives one by one, sends with
// receives, and the order of collectives on communicators that share ranks.
// Where all of this agrees, Deadlock.cpp plays the job to its end.
//
//===----------------------------------------------------------------------===//

#include "Deadlock.h"

using namespace moert;
using namespace moert::verifier;

namespace {

enum Reason { Differ, Missing, MixedPeers, Unmatched, Unordered, Interleaving };

const char *collectiveName(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::ExchangeCounts:
    return "exchange of counts";
  case CollectiveKind::AllToAll:
    return "all-to-all";
  case CollectiveKind::AllReduceSum:
    return "all-reduce (sum)";
  case CollectiveKind::AllReduceMax:
    return "all-reduce (max)";
  case CollectiveKind::ReduceScatter:
    return "reduce-scatter";
  case CollectiveKind::AllGather:
    return "all-gather";
  }
  return "";
}

std::string typeText(const Operand &operand) {
  const char *names[] = {"f32", "bf16", "i32"};
  std::string text = names[int(operand.type)];
  text += '[';
  for (size_t i = 0; i < operand.shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(operand.shape[i]);
  return text + ']';
}

/// "'optimizer/norm' on stream main (all-reduce (sum) of f32[1]; program ...)".
std::string tell(OpRef ref) {
  const Op &op = ref.program->op(ref.op);
  std::string what = op.kind == OpKind::Collective
                         ? collectiveName(op.collective)
                     : op.kind == OpKind::Send ? "send"
                                               : "receive";
  return ref.program->describe(ref.op) + " (" + what + " of " +
         typeText(op.operands.front()) + "; " + ref.program->describeRanks() +
         ")";
}

bool sameOperands(const Op &a, const Op &b) {
  if (a.operands.size() != b.operands.size())
    return false;
  for (size_t i = 0; i < a.operands.size(); ++i)
    if (a.operands[i].type != b.operands[i].type ||
        a.operands[i].shape != b.operands[i].shape)
      return false;
  return true;
}

bool sameTransfer(const Op &send, const Op &receive) {
  const Operand &x = send.operands[0], &y = receive.operands[0];
  return x.type == y.type && x.elements() == y.elements();
}

/// One collective of the job: what ranks do together. The symbolic values of
/// proof 5 do not tell two sums of equal shape apart across programs; an op's
/// location is its name, so it does.
bool sameCollective(const Op &a, const Op &b) {
  return a.collective == b.collective && sameOperands(a, b) &&
         a.location == b.location;
}

class Agreement {
public:
  Agreement(const Table &table, const std::vector<FlatProgram> &programs,
            const Peers &peers, Faults &faults)
      : table(table), programs(programs), peers(peers), faults(faults) {}

  bool run() {
    for (OpRef ref : peers.mixed)
      fail(MixedPeers, ref, {}, [&] {
        return tell(ref) + " has peers that run different programs";
      });
    for (uint32_t c = 0; c < table.communicators.size(); ++c)
      for (uint32_t p = 0; p < programs.size(); ++p)
        if (uint32_t q = peers.classOf(c, p); q != p)
          compareCollectives(c, q, p);
    for (const Peers::Channel &channel : peers.channels)
      compareChannel(channel);
    if (agreed)
      for (uint32_t p = 0; p < programs.size(); ++p)
        for (uint32_t q = 0; q < p; ++q)
          compareInterleaving(q, p);
    return agreed;
  }

private:
  template <typename Fn>
  void fail(Reason reason, OpRef at, OpRef other, Fn message) {
    agreed = false;
    faults.add(Proof::Agreement, reason, at, other, message);
  }

  /// Of two lists that must match, reports the first place where they do not.
  template <typename Same>
  void compare(const FlatProgram &a, const std::vector<int32_t> &first,
               const FlatProgram &b, const std::vector<int32_t> &second,
               const std::string &where, Reason reason, Same same) {
    size_t both = std::min(first.size(), second.size());
    for (size_t i = 0; i < both; ++i)
      if (!same(a.op(first[i]), b.op(second[i]))) {
        OpRef x{&a, first[i]}, y{&b, second[i]};
        return fail(reason, x, y, [&] {
          return "number " + std::to_string(i) + " on " + where + ": " +
                 tell(x) + " meets " + tell(y);
        });
      }
    if (first.size() == second.size())
      return;
    bool isFirst = first.size() > both;
    const FlatProgram &lacks = isFirst ? b : a;
    OpRef extra = isFirst ? OpRef{&a, first[both]} : OpRef{&b, second[both]};
    fail(Missing, extra, {}, [&] {
      return "number " + std::to_string(both) + " on " + where + ": " +
             tell(extra) + " meets nothing in " + lacks.describeRanks();
    });
  }

  std::string name(uint32_t c) const {
    return "communicator '" + table.communicators[c].name + "'";
  }

  void compareCollectives(uint32_t c, uint32_t q, uint32_t p) {
    compare(programs[q], peers.collectives(q, c), programs[p],
            peers.collectives(p, c), name(c), Differ, sameCollective);
  }

  void compareChannel(const Peers::Channel &channel) {
    compare(programs[channel.from], channel.sends, programs[channel.to],
            channel.receives, name(channel.communicator), Unmatched,
            sameTransfer);
  }

  /// Collectives on two communicators that share ranks, in two programs that
  /// share groups of both.
  void compareInterleaving(uint32_t p, uint32_t q) {
    for (uint32_t c = 0; c < table.communicators.size(); ++c)
      for (uint32_t d = 0; d < c; ++d) {
        if (peers.classOf(c, p) != peers.classOf(c, q) ||
            peers.classOf(d, p) != peers.classOf(d, q) ||
            !peers.overlap(c, d, p))
          continue;
        // How many of d come before each of c.
        const auto &inP = peers.collectives(p, c);
        const auto &inQ = peers.collectives(q, c);
        size_t beforeP = 0, beforeQ = 0;
        for (size_t i = 0; i < inP.size(); ++i) {
          const auto &dp = peers.collectives(p, d);
          const auto &dq = peers.collectives(q, d);
          while (beforeP < dp.size() && dp[beforeP] < inP[i])
            ++beforeP;
          while (beforeQ < dq.size() && dq[beforeQ] < inQ[i])
            ++beforeQ;
          if (beforeP == beforeQ)
            continue;
          OpRef x{&programs[p], inP[i]};
          OpRef y{&programs[p], dp[std::min(beforeP, beforeQ)]};
          fail(Interleaving, x, y, [&] {
            return tell(x) + " and " + tell(y) +
                   " are issued the other way round by " +
                   programs[q].describeRanks() + "; " + name(c) + " and " +
                   name(d) + " share ranks";
          });
          break;
        }
      }
  }

  const Table &table;
  const std::vector<FlatProgram> &programs;
  const Peers &peers;
  Faults &faults;
  bool agreed = true;
};

} // namespace

void verifier::proveCollectiveOrder(const FlatProgram &program,
                                    const HappensBefore &order,
                                    const Peers &peers, Faults &faults) {
  size_t count = program.view.table().communicators.size();
  size_t streams = program.streamOps.size();
  // Other communicators that are used here and share ranks with this one.
  std::vector<std::vector<uint32_t>> related(count);
  for (uint32_t c = 0; c < count; ++c)
    for (uint32_t d = 0; d < count; ++d)
      if (c != d && !peers.collectives(program.index, c).empty() &&
          !peers.collectives(program.index, d).empty() &&
          peers.overlap(c, d, program.index))
        related[c].push_back(d);

  // The last collective of each communicator on each stream; a stream is
  // ordered, so that it stands for those before it.
  std::vector<int32_t> last(count * streams, -1);
  program.forEachOp([&](int32_t index, int32_t, const Op &op,
                        const FlatOperand *, const FlatOperand *) {
    if (op.kind != OpKind::Collective)
      return;
    const int32_t *clock = order.clock(index);
    for (uint32_t d : related[op.communicator])
      for (size_t s = 0; s < streams; ++s) {
        int32_t other = last[d * streams + s];
        if (other < 0 || program.positionOf[other] <= clock[s])
          continue;
        OpRef x{&program, index}, y{&program, other};
        faults.add(Proof::Agreement, Unordered, x, y, [&] {
          return tell(x) + " and " + tell(y) +
                 " have no order, and their communicators share ranks; let "
                 "the first wait for the second";
        });
      }
    last[op.communicator * streams + op.stream] = index;
  });
}

bool verifier::proveAgreement(const Table &table,
                              const std::vector<FlatProgram> &programs,
                              const Peers &peers, Faults &faults) {
  return Agreement(table, programs, peers, faults).run() &&
         proveNoDeadlock(table, programs, peers, faults);
}
