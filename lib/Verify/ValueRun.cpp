//===- ValueRun.cpp - Proof 5: symbolic values of the whole job -----------===//
//
// Runs all programs in issue order, which is an order of execution that the
// race proof has shown to be as good as any other. Each segment of the arena
// holds a slice of a value; see ValueMap.h for the conventions.
//
//===----------------------------------------------------------------------===//

#include "Flat.h"

#include <algorithm>

using namespace moert;
using namespace moert::verifier;
using value::Piece;

namespace {

enum Reason { OtherExchange = 200, FlagTooLate };

/// Marks in State::flagReaders.
constexpr int32_t kNotFlag = -2, kUnread = -1;

} // namespace

struct ValueRun::State {
  explicit State(const FlatProgram &program)
      : program(&program), cells(program.segments()),
        writers(program.segments(), -1),
        flagReaders(program.segments(), kNotFlag) {
    static const uint64_t undefined = value::initial("undefined");
    for (int32_t s = 0; s < program.segments(); ++s)
      cells[s] = {undefined, program.cuts[s], INT64_MAX};
    for (const NamedRange &named : program.initial)
      write(program.runOf(named.range), value::initial(named.name));
    program.forEachOp([&](int32_t, int32_t call, const Op &op,
                          const FlatOperand *begin, const FlatOperand *) {
      if (!isAllToAll(op))
        return;
      Run flag = program.run(call, begin[3]);
      std::fill(&flagReaders[flag.begin], &flagReaders[flag.end], kUnread);
    });
  }

  static bool isAllToAll(const Op &op) {
    return op.kind == OpKind::Collective &&
           op.collective == CollectiveKind::AllToAll;
  }

  const std::vector<Piece> &pieces(Run run) const {
    scratch.clear();
    for (int32_t s = run.begin; s < run.end; ++s)
      value::append(scratch, {cells[s].value, cells[s].offset,
                              program->segmentBytes(s), cells[s].total});
    return scratch;
  }
  uint64_t read(Run run) const {
    if (run.end - run.begin == 1) {
      const Cell &cell = cells[run.begin];
      if (cell.total == program->segmentBytes(run.begin))
        return cell.value;
    }
    return value::combine(pieces(run));
  }
  void write(Run run, uint64_t value) {
    write(run, Piece{value, 0, 0, program->runBytes(run)});
  }
  void write(Run run, Piece piece) {
    for (int32_t s = run.begin; s < run.end; ++s) {
      cells[s] = {piece.value, piece.offset, piece.total};
      piece.offset += program->segmentBytes(s);
    }
  }
  /// A copy keeps the identity of the value it copies. What was assembled from
  /// several becomes one, as the cuts between them may not exist here.
  void copy(Run run, const std::vector<Piece> &from) {
    if (from.size() == 1 && from[0].length == program->runBytes(run))
      write(run, from[0]);
    else
      write(run, value::combine(from));
  }

  struct Cell {
    uint64_t value;
    int64_t offset, total;
  };
  const FlatProgram *program;
  std::vector<Cell> cells;
  std::vector<int32_t> writers;
  /// Of overflow flags: the last op that read it, other than all-to-alls.
  std::vector<int32_t> flagReaders;
  mutable std::vector<Piece> scratch;
  int32_t next = 0;
};

namespace {

/// What all programs share.
struct Job {
  const Table &table;
  const Peers &peers;
  Faults *faults;
  const std::vector<uint64_t> &known;
  std::vector<uint64_t> *results;
  /// Of launches and collectives, per template and op.
  std::vector<std::vector<uint64_t>> signatures;
  /// Of exchanges of counts, per communicator.
  std::vector<uint64_t> exchanges;
  /// Per channel: values sent, in order.
  std::vector<std::vector<std::vector<Piece>>> sent;
};

} // namespace

/// Executes one op symbolically.
template <typename State> struct Step {
  Job &job;
  State &state;
  int32_t index, call;
  const Op &op;
  const uint64_t signature;
  const FlatOperand *begin, *end;
  OpRef &stray;
  std::vector<uint64_t> &operands;

  Run run(const FlatOperand &o) const { return state.program->run(call, o); }

  void define(const FlatOperand &o, uint64_t value) {
    state.write(run(o), value);
    record(value);
  }

  /// A value that the op computes, or copies.
  void record(uint64_t value) {
    if (job.results)
      job.results->push_back(value);
    if (!job.known.empty() && !stray.program &&
        !std::binary_search(job.known.begin(), job.known.end(), value))
      stray = {state.program, index};
  }

  /// Results apply(signature, reads, i) into the written operands.
  void apply() {
    operands.clear();
    for (const FlatOperand *o = begin; o != end; ++o)
      if (o->reads())
        operands.push_back(state.read(run(*o)));
    uint32_t result = 0;
    for (const FlatOperand *o = begin; o != end; ++o)
      if (o->writes())
        define(*o, value::apply(signature, operands, result++));
  }

  void allToAll() {
    uint64_t send = state.read(run(begin[1])), recv = state.read(run(begin[2]));
    auto exchanged = [&](uint64_t counts) {
      return value::apply(job.exchanges[op.communicator], {counts}, 0);
    };
    if (job.faults && recv != exchanged(send) && send != exchanged(recv))
      reportCounts();
    Run flag = run(begin[3]);
    int32_t reader = state.flagReaders[flag.begin];
    if (job.faults && reader >= 0)
      job.faults->add(Proof::Value, FlagTooLate, {state.program, index},
                      {state.program, reader}, [&] {
                        return state.program->describe(index) +
                               " may set the overflow flag after " +
                               state.program->describe(reader) +
                               " has read it (" +
                               state.program->describeRanks() + ")";
                      });
    operands = {state.read(run(begin[0])), send, recv};
    define(begin[4], value::apply(signature, operands, 0));
  }

  void reportCounts() {
    int32_t sends = state.writers[run(begin[1]).begin];
    int32_t receives = state.writers[run(begin[2]).begin];
    auto tell = [&](int32_t writer) {
      return writer < 0 ? "nothing" : state.program->describe(writer);
    };
    job.faults->add(
        Proof::Agreement, OtherExchange, {state.program, index},
        {state.program, receives}, [&] {
          return state.program->describe(index) +
                 " sends and receives by counts that are not two sides of one "
                 "exchange on communicator '" +
                 job.table.communicators[op.communicator].name +
                 "': they were read by " + tell(sends) + " and " +
                 tell(receives) + " (" + state.program->describeRanks() + ")";
        });
  }

  /// Returns false if it is a receive whose value was not sent yet.
  bool execute() {
    switch (op.kind) {
    case OpKind::Launch:
      apply();
      break;
    case OpKind::Collective:
      if (State::isAllToAll(op))
        allToAll();
      else
        apply();
      break;
    case OpKind::HostRead:
      state.copy(run(begin[1]), state.pieces(run(begin[0])));
      record(state.read(run(begin[1])));
      break;
    case OpKind::Send:
    case OpKind::Recv: {
      int32_t channel = job.peers.channelOf(state.program->index, op);
      if (channel < 0)
        break; // Proof agreement has reported it.
      auto &sent = job.sent[channel];
      size_t number = job.peers.ordinal[state.program->index][index];
      if (op.kind == OpKind::Send) {
        sent.push_back(state.pieces(run(begin[0])));
        record(value::combine(sent.back()));
      } else if (number >= sent.size())
        return false;
      else {
        state.copy(run(begin[0]), sent[number]);
      }
      break;
    }
    }
    note();
    return true;
  }

  /// Remembers who wrote what, and who read a flag.
  void note() {
    bool setsFlag = State::isAllToAll(op);
    for (const FlatOperand *o = begin; o != end; ++o) {
      Run range = run(*o);
      if (!o->writes()) {
        if (range.begin != range.end &&
            state.flagReaders[range.begin] != kNotFlag)
          state.flagReaders[range.begin] = index;
        continue;
      }
      bool isFlag = setsFlag && o - begin == 3;
      for (int32_t s = range.begin; s < range.end; ++s) {
        if (!isFlag && state.flagReaders[s] >= 0)
          state.flagReaders[s] = kUnread;
        state.writers[s] = index;
      }
    }
  }
};

ValueRun::ValueRun(const Table &table, const std::vector<FlatProgram> &programs,
                   const Peers &peers, Faults *faults,
                   const std::vector<uint64_t> &known,
                   std::vector<uint64_t> *results) {
  Job job{table, peers, faults, known, results, {}, {}, {}};
  for (const Template &t : table.templates) {
    job.signatures.emplace_back();
    for (const Op &op : t.ops)
      job.signatures.back().push_back(value::signatureOf(table, op));
  }
  for (const Communicator &c : table.communicators)
    job.exchanges.push_back(
        value::collectiveSignature(CollectiveKind::ExchangeCounts, c.name));
  job.sent.resize(peers.channels.size());
  for (const FlatProgram &program : programs)
    states.emplace_back(program);

  // A program runs until it receives what was not sent yet.
  std::vector<uint64_t> operands;
  auto advance = [&](State &state) {
    const ScheduleView &view = state.program->view;
    int32_t start = state.next;
    while (state.next < state.program->size()) {
      int32_t call = state.program->callOf[state.next];
      uint32_t local = state.next - view.firstOpOf(call);
      const FlatTemplate &info = state.program->flat(call);
      Step<State> step{job,
                       state,
                       state.next,
                       call,
                       view.op(call, local),
                       job.signatures[view.program().calls[call].tmpl][local],
                       info.begin(local),
                       info.end(local),
                       stray,
                       operands};
      if (!step.execute())
        break;
      ++state.next;
    }
    return state.next != start;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (State &state : states)
      progress |= advance(state);
  }
  if (results) {
    std::sort(results->begin(), results->end());
    results->erase(std::unique(results->begin(), results->end()),
                   results->end());
  }
}

ValueRun::~ValueRun() = default;

bool ValueRun::finished(uint32_t program) const {
  return states[program].next == states[program].program->size();
}

uint64_t ValueRun::read(uint32_t program, Run run) const {
  return states[program].read(run);
}

int32_t ValueRun::lastWriter(uint32_t program, Run run) const {
  int32_t last = -1;
  for (int32_t s = run.begin; s < run.end; ++s)
    last = std::max(last, states[program].writers[s]);
  return last;
}
