//===- Oracle.cpp - What a table computes, in some order ------------------===//

#include "Oracle.h"
#include "moe/Verify/ValueMap.h"

#include <deque>
#include <random>

using namespace moert;
using namespace moert::test;

namespace {

struct FlatOp {
  int64_t call = 0;
  const Op *op = nullptr;
  bool done = false;
  /// Values of host operands, by operand, as the host issued the op.
  std::map<size_t, uint64_t> hostValues;
};

struct Rank {
  Rank(const Table &table, uint32_t program)
      : view(table, program), streams(table.streams.size()),
        communicators(table.communicators.size()) {
    for (size_t c = 0; c < view.program().calls.size(); ++c)
      for (const Op &op : view.templateOf(c).ops) {
        streams[op.stream].push_back(ops.size());
        if (communicates(op))
          communicators[op.communicator].push_back(ops.size());
        ops.push_back({int64_t(c), &op, false, {}});
      }
    for (const NamedRange &named : initialRanges(table, program))
      arena.write(named.range, value::initial(named.name));
  }

  static bool communicates(const Op &op) {
    return op.kind != OpKind::Launch && op.kind != OpKind::HostRead;
  }
  bool isDone() const { return issued == ops.size() && left() == 0; }
  size_t left() const {
    size_t n = 0;
    for (auto &stream : streams)
      n += stream.size();
    return n;
  }
  /// The host goes on up to the next host read that is not done.
  void issue() {
    while (issued < ops.size() &&
           (issued == 0 || ops[issued - 1].done ||
            ops[issued - 1].op->kind != OpKind::HostRead)) {
      FlatOp &next = ops[issued];
      for (size_t o = 0; communicates(*next.op) && o < next.op->operands.size();
           ++o)
        if (view.templateOf(next.call)
                .frames[next.op->operands[o].frame]
                .kind == FrameKind::Host)
          next.hostValues[o] = read(issued, o);
      ++issued;
    }
  }
  bool mayRun(size_t i) const {
    if (i >= issued)
      return false;
    const Op &op = *ops[i].op;
    for (const Wait &wait : op.waits) {
      int64_t waited = view.waitedOp(ops[i].call, wait);
      if (waited >= 0 && !ops[waited].done)
        return false;
    }
    return streams[op.stream].front() == i &&
           (!communicates(op) || communicators[op.communicator].front() == i);
  }
  uint64_t read(size_t i, size_t operand) const {
    auto it = ops[i].hostValues.find(operand);
    if (it != ops[i].hostValues.end())
      return it->second;
    return arena.read(view.range(ops[i].call, ops[i].op->operands[operand]));
  }
  void write(size_t i, size_t operand, uint64_t value) {
    arena.write(view.range(ops[i].call, ops[i].op->operands[operand]), value);
  }
  void finish(size_t i) {
    ops[i].done = true;
    streams[ops[i].op->stream].pop_front();
    if (communicates(*ops[i].op))
      communicators[ops[i].op->communicator].pop_front();
    issue();
  }

  ScheduleView view;
  std::vector<FlatOp> ops;
  std::vector<std::deque<size_t>> streams, communicators;
  size_t issued = 0;
  ValueMap arena;
};

class Oracle {
public:
  Oracle(const Table &table, uint64_t seed) : table(table), random(seed) {
    for (int64_t rank = 0; rank < table.ranks; ++rank)
      for (uint32_t p = 0; p < table.programs.size(); ++p)
        if (rank >= table.programs[p].firstRank &&
            rank < table.programs[p].firstRank + table.programs[p].rankCount)
          ranks.emplace_back(table, p);
  }

  std::vector<std::string> run() {
    for (Rank &rank : ranks)
      rank.issue();
    while (step()) {
    }
    std::vector<std::string> texts;
    for (Rank &rank : ranks) {
      if (!rank.isDone())
        return {"deadlock"};
      uint32_t program = &rank.view.program() - table.programs.data();
      for (const NamedRange &named : finalRanges(table, program))
        texts.push_back(named.name + " " +
                        std::to_string(rank.arena.read(named.range)));
    }
    return texts;
  }

private:
  /// Ranks that take part in the op at the head of `rank`'s communicator.
  std::vector<int64_t> members(int64_t rank, const Op &op) const {
    if (!Rank::communicates(op))
      return {rank};
    const Communicator &c = table.communicators[op.communicator];
    if (op.kind != OpKind::Collective) {
      int64_t other = rank + op.peer * c.stride;
      return op.kind == OpKind::Send ? std::vector<int64_t>{rank, other}
                                     : std::vector<int64_t>{other, rank};
    }
    std::vector<int64_t> all;
    int64_t base = rank - (rank / c.stride) % c.size * c.stride;
    for (int64_t i = 0; i < c.size; ++i)
      all.push_back(base + i * c.stride);
    return all;
  }
  static bool matches(const Op &a, const Op &b) {
    if (a.kind == OpKind::Collective)
      return b.kind == OpKind::Collective && a.collective == b.collective &&
             a.operands[0].shape == b.operands[0].shape;
    return ((a.kind == OpKind::Send && b.kind == OpKind::Recv) ||
            (a.kind == OpKind::Recv && b.kind == OpKind::Send)) &&
           a.peer == -b.peer && a.operands[0].bytes() == b.operands[0].bytes();
  }

  bool step() {
    // (rank, op) that may run; of several members, the first one stands.
    std::vector<std::pair<int64_t, size_t>> ready;
    for (int64_t r = 0; r < int64_t(ranks.size()); ++r)
      for (auto &stream : ranks[r].streams) {
        if (stream.empty() || !ranks[r].mayRun(stream.front()))
          continue;
        size_t i = stream.front();
        const Op &op = *ranks[r].ops[i].op;
        bool all = members(r, op).front() == r;
        for (int64_t m : members(r, op))
          if (m != r) {
            auto &queue = ranks[m].communicators[op.communicator];
            all &= !queue.empty() && ranks[m].mayRun(queue.front()) &&
                   matches(op, *ranks[m].ops[queue.front()].op);
          }
        if (all)
          ready.push_back({r, i});
      }
    if (ready.empty())
      return false;
    auto [r, i] = ready[random() % ready.size()];
    execute(r, i);
    return true;
  }

  void execute(int64_t r, size_t i) {
    Rank &rank = ranks[r];
    const Op &op = *rank.ops[i].op;
    if (Rank::communicates(op))
      return communicate(members(r, op), op.communicator);
    if (op.kind == OpKind::HostRead) {
      rank.write(i, 1, rank.read(i, 0));
    } else {
      std::vector<uint64_t> operands;
      for (size_t o = 0; o < op.operands.size(); ++o)
        if (op.operands[o].effect != Effect::Write)
          operands.push_back(rank.read(i, o));
      uint32_t result = 0;
      for (size_t o = 0; o < op.operands.size(); ++o)
        if (op.operands[o].effect != Effect::Read)
          rank.write(
              i, o,
              value::apply(value::signatureOf(table, op), operands, result++));
    }
    rank.finish(i);
  }

  void communicate(const std::vector<int64_t> &group, uint32_t c) {
    std::vector<size_t> heads;
    for (int64_t m : group)
      heads.push_back(ranks[m].communicators[c].front());
    const Op &op = *ranks[group[0]].ops[heads[0]].op;
    if (op.kind != OpKind::Collective) {
      ranks[group[1]].write(heads[1], 0, ranks[group[0]].read(heads[0], 0));
    } else {
      // Overflow flags stay: nothing overflows.
      size_t reads = op.collective == CollectiveKind::AllToAll ? 3 : 1;
      std::vector<uint64_t> operands;
      for (size_t m = 0; m < group.size(); ++m)
        for (size_t o = 0; o < reads; ++o)
          operands.push_back(ranks[group[m]].read(heads[m], o));
      uint64_t signature = value::signatureOf(table, op);
      for (size_t m = 0; m < group.size(); ++m) {
        const Op &mine = *ranks[group[m]].ops[heads[m]].op;
        ranks[group[m]].write(heads[m], mine.operands.size() - 1,
                              value::apply(signature, operands, 0));
      }
    }
    for (size_t m = 0; m < group.size(); ++m)
      ranks[group[m]].finish(heads[m]);
  }

  const Table &table;
  std::mt19937_64 random;
  std::deque<Rank> ranks;
};

} // namespace

std::vector<std::string> test::runInSomeOrder(const Table &table,
                                              uint64_t seed) {
  return Oracle(table, seed).run();
}
