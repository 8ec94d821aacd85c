//===- Verify.cpp - Five proofs over a table ------------------------------===//

#include "Flat.h"

using namespace moert;
using namespace moert::verifier;

const char *moert::proofName(Proof proof) {
  switch (proof) {
  case Proof::Race:
    return "race";
  case Proof::Agreement:
    return "agreement";
  case Proof::Memory:
    return "memory";
  case Proof::Capture:
    return "capture";
  case Proof::Value:
    return "value";
  }
  return "";
}

namespace {

/// The table, flat. Programs keep their addresses: others point to them.
struct FlatTable {
  FlatTable(const Table &table, const std::vector<ExpectedValue> &expected) {
    for (const Template &t : table.templates)
      templates.emplace_back(t);
    programs.reserve(table.programs.size());
    for (uint32_t p = 0; p < table.programs.size(); ++p) {
      std::vector<Range> named;
      for (const ExpectedValue &e : expected)
        if (e.program == p)
          named.push_back({e.address, e.address + e.bytes});
      programs.emplace_back(table, templates, p, named);
    }
  }

  std::vector<FlatTemplate> templates;
  std::vector<FlatProgram> programs;
};

class ValueProof {
public:
  ValueProof(const Table &table, const std::vector<FlatProgram> &programs,
             const Peers &peers, Faults &faults)
      : table(table), programs(programs), peers(peers), faults(faults),
        values(table, programs, peers, &faults, {}, nullptr) {}

  void compare(const std::vector<ExpectedValue> &expected,
               const std::vector<uint64_t> &known) {
    if (expected.empty())
      return faults.add(Proof::Value, NoReference, {}, {}, [] {
        return std::string("there is no reference to compare with");
      });
    OpRef stray;
    bool searched = known.empty();
    for (const ExpectedValue &e : expected) {
      if (e.program >= programs.size()) {
        faults.add(Proof::Value, NoReference, {}, {}, [&] {
          return "'" + e.name + "' is expected of a program that the table " +
                 "does not have";
        });
        continue;
      }
      const FlatProgram &program = programs[e.program];
      Run run = program.runOf({e.address, e.address + e.bytes});
      // A program that waits forever was reported by proof agreement.
      if (!values.finished(e.program) || values.read(e.program, run) == e.value)
        continue;
      if (!searched)
        stray = ValueRun(table, programs, peers, nullptr, known, nullptr)
                    .firstStray();
      searched = true;
      report(e, {&program, values.lastWriter(e.program, run)}, stray);
    }
  }

private:
  enum Reason { Differs, NoReference };

  void report(const ExpectedValue &e, OpRef writer, OpRef stray) {
    faults.add(
        Proof::Value, Differs, stray.program ? stray : writer, writer, [&] {
          std::string text =
              "'" + e.name + "' of " + writer.program->describeRanks();
          text += writer.op < 0
                      ? " is not written"
                      : " is not what the serial program leaves; " +
                            writer.program->describe(writer.op) + " wrote it";
          if (stray.program)
            text += "; the first result that the serial program does "
                    "not have is of " +
                    stray.program->describe(stray.op);
          return text;
        });
  }

  const Table &table;
  const std::vector<FlatProgram> &programs;
  const Peers &peers;
  Faults &faults;
  ValueRun values;
};

} // namespace

VerifyResult moert::verify(const Table &table,
                           const std::vector<ExpectedValue> &expected,
                           const VerifyOptions &options) {
  VerifyResult result;
  Faults faults(result.faults);
  // A clock has an entry per stream: without a limit, memory has none.
  constexpr size_t kMaxStreams = 64;
  if (table.streams.size() > kMaxStreams) {
    faults.add(Proof::Race, 0, {}, {}, [&] {
      return "the table has " + std::to_string(table.streams.size()) +
             " streams, more than the " + std::to_string(kMaxStreams) +
             " that can be proven";
    });
    return result;
  }
  FlatTable flat(table, expected);
  Peers peers(table, flat.programs);
  for (const FlatProgram &program : flat.programs) {
    result.ops += program.size();
    HappensBefore order(program);
    proveNoRace(program, order, faults);
    proveCollectiveOrder(program, order, peers, faults);
    int64_t highWater = 0, livePeak = 0;
    proveMemory(program, faults, highWater, livePeak);
    result.highWater.push_back(highWater);
    result.livePeak.push_back(livePeak);
  }
  proveAgreement(table, flat.programs, peers, faults);
  result.graphInstances = proveCapture(table, flat.programs, faults);
  ValueProof values(table, flat.programs, peers, faults);
  if (options.value)
    values.compare(expected, options.known);
  return result;
}

std::vector<ExpectedValue>
moert::valuesAfterStep(const Table &table, std::vector<uint64_t> *results) {
  std::vector<ExpectedValue> values;
  for (uint32_t p = 0; p < table.programs.size(); ++p)
    for (const NamedRange &named : finalRanges(table, p)) {
      auto [begin, end] = named.range;
      values.push_back({named.name, p, begin, end - begin, 0});
    }
  FlatTable flat(table, values);
  Peers peers(table, flat.programs);
  ValueRun run(table, flat.programs, peers, nullptr, {}, results);
  std::vector<ExpectedValue> done;
  for (ExpectedValue &e : values) {
    if (!run.finished(e.program))
      continue;
    const FlatProgram &program = flat.programs[e.program];
    e.value =
        run.read(e.program, program.runOf({e.address, e.address + e.bytes}));
    done.push_back(std::move(e));
  }
  return done;
}
