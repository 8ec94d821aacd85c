//===- Flat.cpp - A program of the table as the proofs read it ------------===//

#include "Flat.h"

#include <algorithm>

using namespace moert;
using namespace moert::verifier;

FlatTemplate::FlatTemplate(const Template &t) : slots(t.frames.size()) {
  first.reserve(t.ops.size() + 1);
  first.push_back(0);
  std::map<std::pair<int64_t, int64_t>, uint32_t> seen;
  std::vector<decltype(seen)> known(t.frames.size());
  for (const Op &op : t.ops) {
    for (const Operand &operand : op.operands) {
      Range range{operand.offset, operand.offset + operand.bytes()};
      auto [it, isNew] = known[operand.frame].try_emplace(
          {range.begin, range.end}, slots[operand.frame].size());
      if (isNew)
        slots[operand.frame].push_back(range);
      bool byHost = op.kind == OpKind::Collective &&
                    t.frames[operand.frame].kind == FrameKind::Host;
      operands.push_back({operand.frame, it->second, operand.effect, byHost});
    }
    first.push_back(operands.size());
  }
  // begin() and end() may point past the last operand.
  operands.push_back({});
}

FlatProgram::FlatProgram(const Table &table,
                         const std::vector<FlatTemplate> &templates,
                         uint32_t program, const std::vector<Range> &alsoNamed)
    : view(table, program), index(program),
      initial(initialRanges(table, program)), templates(&templates) {
  const std::vector<Call> &calls = view.program().calls;
  callOf.reserve(view.size());
  positionOf.reserve(view.size());
  streamOps.resize(table.streams.size());

  // Number the runs, and remember their ranges.
  std::vector<Range> ranges;
  // By template and frame: first run of each base that calls bind.
  std::vector<std::vector<std::unordered_map<int64_t, uint32_t>>> bound;
  for (const FlatTemplate &t : templates)
    bound.emplace_back(t.slots.size());
  for (size_t c = 0; c < calls.size(); ++c) {
    const Call &call = calls[c];
    const FlatTemplate &info = templates[call.tmpl];
    firstFrame.push_back(frameRuns.size());
    for (uint32_t f = 0; f < call.bases.size(); ++f) {
      auto [it, isNew] =
          bound[call.tmpl][f].try_emplace(call.bases[f], ranges.size());
      if (isNew)
        for (Range slot : info.slots[f])
          ranges.push_back(
              {call.bases[f] + slot.begin, call.bases[f] + slot.end});
      frameRuns.push_back(it->second);
    }
    for (const Op &op : table.templates[call.tmpl].ops) {
      int32_t flat = callOf.size();
      positionOf.push_back(streamOps[op.stream].size());
      streamOps[op.stream].push_back(flat);
      callOf.push_back(c);
    }
  }

  cuts.reserve(2 * (ranges.size() + initial.size() + alsoNamed.size()));
  auto addCuts = [&](Range range) {
    cuts.push_back(range.begin);
    cuts.push_back(range.end);
  };
  for (Range range : ranges)
    addCuts(range);
  for (const NamedRange &named : initial)
    addCuts(named.range);
  if (!cuts.empty())
    highWater = *std::max_element(cuts.begin(), cuts.end());
  for (Range range : alsoNamed)
    addCuts(range);
  if (cuts.empty())
    cuts.push_back(0);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  runs.reserve(ranges.size());
  for (Range range : ranges)
    runs.push_back(runOf(range));
}

Run FlatProgram::runOf(Range range) const {
  auto begin = std::lower_bound(cuts.begin(), cuts.end(), range.begin);
  // Most runs are short.
  auto end = begin;
  for (int i = 0; i < 4 && end != cuts.end() && *end < range.end; ++i)
    ++end;
  end = std::lower_bound(end, cuts.end(), range.end);
  return {int32_t(begin - cuts.begin()), int32_t(end - cuts.begin())};
}

std::string FlatProgram::describe(int32_t op) const {
  int32_t call = callOf[op];
  uint32_t local = op - view.firstOpOf(call);
  return "'" + view.location(call, local) + "' on stream " +
         view.table().streams[view.op(call, local).stream].name;
}

std::string FlatProgram::describeRanks() const {
  const Program &p = view.program();
  return "program '" + p.name + "', ranks " + std::to_string(p.firstRank) +
         " to " + std::to_string(p.firstRank + p.rankCount - 1);
}

//===----------------------------------------------------------------------===//
// HappensBefore
//===----------------------------------------------------------------------===//

static void join(int32_t *into, const int32_t *from, size_t streams) {
  for (size_t s = 0; s < streams; ++s)
    into[s] = std::max(into[s], from[s]);
}

HappensBefore::HappensBefore(const FlatProgram &program)
    : program(program), streams(program.streamOps.size()),
      clocks(program.size() * streams) {
  std::vector<int32_t> host(streams, -1);
  std::vector<std::vector<int32_t>> current(streams, host);
  program.forEachOp([&](int32_t index, int32_t call, const Op &op,
                        const FlatOperand *, const FlatOperand *) {
    int32_t *mine = current[op.stream].data();
    join(mine, host.data(), streams);
    for (const Wait &wait : op.waits) {
      int64_t waited = program.view.waitedOp(call, wait);
      if (waited >= 0)
        join(mine, clock(waited), streams);
    }
    mine[op.stream] = program.positionOf[index];
    std::copy(mine, mine + streams, &clocks[size_t(index) * streams]);
    if (op.kind == OpKind::HostRead)
      join(host.data(), mine, streams);
  });
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

void Faults::add(Proof proof, int reason, OpRef at, OpRef other,
                 const std::function<std::string()> &message) {
  Fault fault;
  fault.proof = proof;
  auto place = [](OpRef ref, int64_t &tmpl, int64_t &op) {
    if (!ref.program || ref.op < 0)
      return;
    int32_t call = ref.program->callOf[ref.op];
    tmpl = ref.program->view.program().calls[call].tmpl;
    op = ref.op - ref.program->view.firstOpOf(call);
  };
  place(at, fault.tmpl, fault.op);
  place(other, fault.otherTmpl, fault.otherOp);
  if (at.program)
    fault.program = at.program->index;
  std::string key;
  // Faults without an op are told apart by program.
  for (int64_t part :
       {int64_t(proof), int64_t(reason), fault.tmpl, fault.op, fault.otherTmpl,
        fault.otherOp, fault.op < 0 ? fault.program : -1})
    key += std::to_string(part) + ' ';
  auto [it, isNew] = known.try_emplace(key, faults.size());
  if (!isNew) {
    if (it->second < faults.size())
      ++faults[it->second].count;
    return;
  }
  if (faults.size() >= 50) {
    it->second = SIZE_MAX;
    return;
  }
  fault.message = std::string(proofName(proof)) + ": " + message();
  faults.push_back(std::move(fault));
}
