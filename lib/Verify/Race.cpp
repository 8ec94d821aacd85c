//===- Race.cpp - Proof 1: no race ----------------------------------------===//
//
// Per segment of the arena: the last op that wrote it and, of each stream, the
// last op that has read it since. A stream is ordered, so that the last reader
// stands for those before it.
//
//===----------------------------------------------------------------------===//

#include "Flat.h"
#include "moe/Table/HostValues.h"

using namespace moert;
using namespace moert::verifier;

namespace {

enum Reason {
  Uninitialised,
  NotYetWritten,
  NotYetRead,
  WrittenTwice,
  Alias,
  UnknownRows
};

/// Positions on a stream; others for what no op wrote.
constexpr int32_t kBeforeStep = -1, kNever = -2;

class Sweep {
public:
  Sweep(const FlatProgram &program, const HappensBefore &order, Faults &faults)
      : program(program), order(order), faults(faults),
        streams(program.streamOps.size()), host(streams, -1),
        writers(program.segments()),
        readers(program.segments() * streams, kBeforeStep) {
    for (const NamedRange &named : program.initial) {
      Run run = program.runOf(named.range);
      for (int32_t s = run.begin; s < run.end; ++s)
        writers[s].position = kBeforeStep;
    }
  }

  void run() {
    program.forEachOp([&](int32_t index, int32_t call, const Op &op,
                          const FlatOperand *begin, const FlatOperand *end) {
      at = index;
      stream = op.stream;
      position = program.positionOf[index];
      // All-reduce is the one op that may run in place.
      inPlace = {};
      if (op.kind == OpKind::Collective &&
          (op.collective == CollectiveKind::AllReduceSum ||
           op.collective == CollectiveKind::AllReduceMax))
        inPlace = program.run(call, *begin);
      for (const FlatOperand *o = begin; o != end; ++o)
        if (o->reads())
          read(program.run(call, *o), *o, op.operands[o - begin]);
      for (const FlatOperand *o = begin; o != end; ++o)
        if (o->writes())
          write(program.run(call, *o), op.operands[o - begin]);
      if (op.kind == OpKind::HostRead)
        for (size_t s = 0; s < streams; ++s)
          host[s] = std::max(host[s], order.clock(index)[s]);
    });
  }

private:
  struct Writer {
    int32_t position = kNever;
    uint32_t stream = 0;
  };

  void read(Run run, const FlatOperand &flat, const Operand &operand) {
    // What the host reads as it issues must be done by then.
    const int32_t *done = flat.byHost ? host.data() : order.clock(at);
    int32_t reported = -1;
    for (int32_t s = run.begin; s < run.end; ++s) {
      Writer writer = writers[s];
      if (writer.position > done[writer.stream] || writer.position == kNever ||
          (flat.byHost && !writtenByHostRead(writer)))
        reportRead(writer, operand, flat.byHost, reported);
      // A read-write operand leaves a write, which stands for its read.
      if (flat.effect == Effect::Read && !flat.byHost)
        readers[s * streams + stream] = position;
    }
  }

  void write(Run run, const Operand &operand) {
    const int32_t *done = order.clock(at);
    int32_t reported = -1;
    bool mayAlias = run.begin == inPlace.begin && run.end == inPlace.end;
    for (int32_t s = run.begin; s < run.end; ++s) {
      Writer &writer = writers[s];
      if (writer.stream == stream && writer.position == position)
        reportAlias(operand);
      else if (writer.position > done[writer.stream])
        report(WrittenTwice, streamOp(writer.stream, writer.position), operand,
               reported);
      int32_t *reader = &readers[s * streams];
      for (uint32_t t = 0; t < streams; ++t) {
        if (t == stream && reader[t] == position) {
          if (!mayAlias)
            reportAlias(operand);
        } else if (reader[t] > done[t])
          report(NotYetRead, streamOp(t, reader[t]), operand, reported);
        reader[t] = kBeforeStep;
      }
      writer = {position, stream};
    }
  }

  bool writtenByHostRead(Writer writer) const {
    return writer.position >= 0 &&
           program.op(streamOp(writer.stream, writer.position)).kind ==
               OpKind::HostRead;
  }

  int32_t streamOp(uint32_t s, int32_t p) const {
    return program.streamOps[s][p];
  }

  /// "bytes [0, 64) of frame 'temp'".
  std::string bytes(const Operand &operand) const {
    const Template &t = program.view.templateOf(program.callOf[at]);
    return "bytes [" + std::to_string(operand.offset) + ", " +
           std::to_string(operand.offset + operand.bytes()) + ") of frame '" +
           t.frames[operand.frame].name + "'";
  }

  void reportRead(Writer writer, const Operand &operand, bool byHost,
                  int32_t &reported) {
    if (writer.position >= 0) {
      int32_t other = streamOp(writer.stream, writer.position);
      if (byHost && other != reported)
        faults.add(
            Proof::Race, NotYetWritten, {&program, at}, {&program, other}, [&] {
              return program.describe(at) + " reads " + bytes(operand) +
                     " as the host issues it, but " + program.describe(other) +
                     " that writes them is not a host read (" +
                     program.describeRanks() + ")";
            });
      else if (!byHost)
        report(NotYetWritten, other, operand, reported);
      reported = other;
      return;
    }
    if (reported == at)
      return;
    reported = at;
    faults.add(Proof::Race, Uninitialised, {&program, at}, {}, [&] {
      return program.describe(at) + " reads " + bytes(operand) +
             (byHost ? " that no host read wrote before ("
                     : " that nothing wrote before (") +
             program.describeRanks() + ")";
    });
  }

  /// The pair (other, this op), once per operand (`reported`: the last one).
  void report(Reason reason, int32_t other, const Operand &operand,
              int32_t &reported) {
    if (other == reported)
      return;
    reported = other;
    faults.add(Proof::Race, reason, {&program, at}, {&program, other}, [&] {
      return program.describe(at) +
             (reason == NotYetWritten ? " reads " : " writes ") +
             bytes(operand) + " that " + program.describe(other) +
             (reason == NotYetRead ? " reads" : " writes") +
             ", and no event orders them (" + program.describeRanks() +
             "); let the first wait for the second";
    });
  }

  void reportAlias(const Operand &operand) {
    faults.add(Proof::Race, Alias, {&program, at}, {}, [&] {
      return program.describe(at) + " writes " + bytes(operand) +
             " that it has as another operand, too (" +
             program.describeRanks() + ")";
    });
  }

  const FlatProgram &program;
  const HappensBefore &order;
  Faults &faults;
  const uint32_t streams;
  /// What is known to be done when the host issues the next op.
  std::vector<int32_t> host;
  std::vector<Writer> writers;
  std::vector<int32_t> readers;
  int32_t at = 0, position = 0;
  /// The run that this op may both read and write.
  Run inPlace;
  uint32_t stream = 0;
};

/// The host launches a product for each expert: in issue order, it must have
/// read their rows before.
void proveRowsKnown(const FlatProgram &program, Faults &faults) {
  const ScheduleView &view = program.view;
  const Table &table = view.table();
  auto takes = [&](uint32_t tmpl, uint32_t local) {
    const Op &op = table.templates[tmpl].ops[local];
    return op.kind == OpKind::Launch && op.operands.size() > 2 &&
           isGroupedProduct(table.kernels[op.kernel]);
  };
  findUnknownRows(view, takes, [&](int64_t call, uint32_t local) {
    int32_t index = int32_t(view.firstOpOf(call) + local);
    faults.add(Proof::Race, UnknownRows, {&program, index}, {}, [&] {
      return program.describe(index) +
             " takes the rows of its experts from the host, which has not "
             "read them; a sched.host_read of them, or of the counts that "
             "they are sums of, must come before (" +
             program.describeRanks() + ")";
    });
  });
}

} // namespace

void verifier::proveNoRace(const FlatProgram &program,
                           const HappensBefore &order, Faults &faults) {
  Sweep(program, order, faults).run();
  proveRowsKnown(program, faults);
}
