//===- Mutate.cpp - Plants one fault in a table ---------------------------===//

#include "moe/Verify/Mutate.h"

#include <algorithm>
#include <functional>
#include <random>

using namespace moert;

namespace {

class Mutator {
public:
  Mutator(Table &table, uint64_t seed) : table(table), random(seed) {}

  Mutation run();

private:
  using Change = bool (Mutator::*)();
  static const std::pair<const char *, Change> kinds[];

  // The changes. Each returns false, with nothing changed, where what it
  // picked does not offer itself.
  bool swapOps();
  bool dropOp();
  bool duplicateOp();
  bool dropWait();
  bool replaceWait();
  bool moveToStream();
  bool shiftOperand();
  bool swapOperands();
  bool changeShape();
  bool reshape();
  bool changeEffect();
  bool changeKernel();
  bool changeCollective();
  bool changeCommunicator();
  bool changePeer();
  bool changeHostRead();
  bool capture();
  bool dropCall();
  bool swapCalls();
  bool duplicateCall();
  bool changeBase();
  bool changeImport();
  bool moveFrame();

  /// Uniform in [0, n); n must be positive.
  size_t below(size_t n) { return random() % n; }
  template <typename T> T &any(std::vector<T> &list) {
    return list[below(list.size())];
  }

  std::vector<Op> &ops() { return table.templates[result.tmpl].ops; }
  std::vector<Call> &calls() { return table.programs[result.program].calls; }
  Call &call() { return calls()[result.call]; }
  Op &op() { return ops()[result.op]; }
  std::string describe(int64_t i) {
    return "op " + std::to_string(i) + " '" + ops()[i].location + "'";
  }

  /// Renumbers ops of the template in waits and in events of its calls. A
  /// negative number drops waits on the op, and makes events "already done".
  void renumberOps(const std::function<int64_t(int64_t)> &number);
  /// The same for the calls of the picked program, before they are moved.
  void renumberCalls(const std::function<int64_t(int64_t)> &number);
  /// Gives the picked call its own copy of the template.
  void specialise();

  Table &table;
  std::mt19937_64 random;
  Mutation result;
  /// What specialise() replaced.
  uint32_t shared = 0;
};

const std::pair<const char *, Mutator::Change> Mutator::kinds[] = {
    {"swap-ops", &Mutator::swapOps},
    {"drop-op", &Mutator::dropOp},
    {"duplicate-op", &Mutator::duplicateOp},
    {"drop-wait", &Mutator::dropWait},
    {"replace-wait", &Mutator::replaceWait},
    {"move-to-stream", &Mutator::moveToStream},
    {"shift-operand", &Mutator::shiftOperand},
    {"swap-operands", &Mutator::swapOperands},
    {"change-shape", &Mutator::changeShape},
    {"reshape", &Mutator::reshape},
    {"change-effect", &Mutator::changeEffect},
    {"change-kernel", &Mutator::changeKernel},
    {"change-collective", &Mutator::changeCollective},
    {"change-communicator", &Mutator::changeCommunicator},
    {"change-peer", &Mutator::changePeer},
    {"change-host-read", &Mutator::changeHostRead},
    {"capture", &Mutator::capture},
    {"drop-call", &Mutator::dropCall},
    {"swap-calls", &Mutator::swapCalls},
    {"duplicate-call", &Mutator::duplicateCall},
    {"change-base", &Mutator::changeBase},
    {"change-import", &Mutator::changeImport},
    {"move-frame", &Mutator::moveFrame},
};

Mutation Mutator::run() {
  std::vector<uint32_t> programs;
  for (uint32_t p = 0; p < table.programs.size(); ++p)
    for (const Call &c : table.programs[p].calls)
      if (!table.templates[c.tmpl].ops.empty()) {
        programs.push_back(p);
        break;
      }
  // Most picks offer themselves; the bound is for tables that offer nothing.
  for (int attempt = 0; attempt < 10000 && !programs.empty(); ++attempt) {
    result = {};
    result.program = any(programs);
    result.call = below(calls().size());
    result.tmpl = call().tmpl;
    if (ops().empty())
      continue;
    result.op = below(ops().size());
    auto [name, change] = kinds[below(std::size(kinds))];
    // Changes of calls concern one call anyway.
    bool isOfOps =
        change != &Mutator::dropCall && change != &Mutator::swapCalls &&
        change != &Mutator::duplicateCall && change != &Mutator::changeBase &&
        change != &Mutator::changeImport && change != &Mutator::moveFrame;
    bool one = isOfOps && below(2);
    if (one)
      specialise();
    if ((this->*change)()) {
      result.kind = name;
      std::string where =
          "template '" + table.templates[result.tmpl].name + "'";
      if (!isOfOps || one)
        where += ", call " + std::to_string(result.call) + " of program '" +
                 table.programs[result.program].name + "'";
      result.description =
          result.kind + " (" + where + ") " + result.description;
      return result;
    }
    if (one) {
      // Back to the shared template.
      table.templates.pop_back();
      call().tmpl = shared;
    }
  }
  result = {};
  return result;
}

//===----------------------------------------------------------------------===//
// Renumbering
//===----------------------------------------------------------------------===//

void Mutator::renumberOps(const std::function<int64_t(int64_t)> &number) {
  for (Op &op : ops()) {
    std::vector<Wait> waits;
    for (Wait wait : op.waits) {
      int64_t index = wait.isImport ? wait.index : number(wait.index);
      if (index >= 0)
        waits.push_back({wait.isImport, uint32_t(index)});
    }
    op.waits = std::move(waits);
  }
  for (Program &program : table.programs)
    for (Call &c : program.calls)
      for (EventRef &event : c.imports)
        if (event.call >= 0 && program.calls[event.call].tmpl == result.tmpl) {
          int64_t op = number(event.op);
          if (op < 0)
            event = {};
          else
            event.op = op;
        }
}

void Mutator::renumberCalls(const std::function<int64_t(int64_t)> &number) {
  for (Call &c : calls())
    for (EventRef &event : c.imports)
      if (event.call >= 0 && (event.call = number(event.call)) < 0)
        event = {};
}

void Mutator::specialise() {
  shared = result.tmpl;
  table.templates.push_back(Template(table.templates[shared]));
  result.tmpl = call().tmpl = table.templates.size() - 1;
}

//===----------------------------------------------------------------------===//
// Changes of ops
//===----------------------------------------------------------------------===//

bool Mutator::swapOps() {
  if (ops().size() < 2)
    return false;
  // Neighbours half of the time: distant ones are mostly ill-formed.
  int64_t a = result.op, b = below(ops().size());
  if (below(2))
    b = a + 1;
  if (a == b || b >= int64_t(ops().size()))
    return false;
  result.otherOp = b;
  result.description = describe(a) + " and " + describe(b);
  // Events stay with their ops.
  renumberOps([=](int64_t i) { return i == a ? b : i == b ? a : i; });
  std::swap(ops()[a], ops()[b]);
  return true;
}

bool Mutator::dropOp() {
  int64_t at = result.op;
  result.description = describe(at);
  renumberOps([=](int64_t i) { return i == at ? -1 : i - (i > at); });
  ops().erase(ops().begin() + at);
  return true;
}

bool Mutator::duplicateOp() {
  int64_t at = result.op;
  result.description = describe(at);
  result.otherOp = at + 1;
  renumberOps([=](int64_t i) { return i + (i >= at); });
  ops().insert(ops().begin() + at, Op(ops()[at]));
  return true;
}

bool Mutator::dropWait() {
  std::vector<Wait> &waits = op().waits;
  if (waits.empty())
    return false;
  size_t at = below(waits.size());
  result.description = describe(result.op) + ", wait " + std::to_string(at);
  if (!waits[at].isImport)
    result.otherOp = waits[at].index;
  waits.erase(waits.begin() + at);
  return true;
}

bool Mutator::replaceWait() {
  std::vector<Wait> &waits = op().waits;
  if (waits.empty() || result.op == 0)
    return false;
  Wait &wait = any(waits), by{false, uint32_t(below(result.op))};
  if (wait == by)
    return false;
  result.description = describe(result.op) + " waits for " + describe(by.index);
  wait = by;
  result.otherOp = by.index;
  return true;
}

bool Mutator::moveToStream() {
  uint32_t stream = below(table.streams.size());
  if (stream == op().stream)
    return false;
  op().stream = stream;
  result.description =
      describe(result.op) + " to stream " + table.streams[stream].name;
  return true;
}

bool Mutator::shiftOperand() {
  if (op().operands.empty())
    return false;
  size_t at = below(op().operands.size());
  Operand &operand = op().operands[at];
  // To where another op has something, or by a few elements.
  int64_t offset = operand.offset;
  Op &other = any(ops());
  if (below(2) && !other.operands.empty())
    offset = any(other.operands).offset;
  else
    offset += (int64_t(below(9)) - 4) * elementBytes(operand.type);
  if (offset == operand.offset)
    return false;
  result.description = describe(result.op) + ", operand " + std::to_string(at) +
                       " from offset " + std::to_string(operand.offset) +
                       " to " + std::to_string(offset);
  operand.offset = offset;
  return true;
}

bool Mutator::swapOperands() {
  std::vector<Operand> &operands = op().operands;
  if (operands.size() < 2)
    return false;
  size_t a = below(operands.size()), b = below(operands.size());
  if (a == b || operands[a].effect != operands[b].effect ||
      (operands[a].frame == operands[b].frame &&
       operands[a].offset == operands[b].offset))
    return false;
  std::swap(operands[a], operands[b]);
  result.description = describe(result.op) + ", operands " + std::to_string(a) +
                       " and " + std::to_string(b);
  return true;
}

bool Mutator::changeShape() {
  if (op().operands.empty())
    return false;
  size_t at = below(op().operands.size());
  std::vector<int64_t> &shape = op().operands[at].shape;
  if (shape.empty() || shape[0] < 2)
    return false;
  shape[0] /= 2;
  result.description =
      describe(result.op) + ", half of operand " + std::to_string(at);
  return true;
}

bool Mutator::reshape() {
  // The same bytes in other rows: of one operand, or of all that are matrices,
  // which kernels may well take.
  std::vector<Operand> &operands = op().operands;
  size_t one = below(operands.size() + 1);
  bool changed = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::vector<int64_t> &shape = operands[i].shape;
    if ((one < operands.size() && i != one) || shape.size() < 2 ||
        shape[0] % 2 || shape[0] == 0)
      continue;
    shape[0] /= 2;
    shape[1] *= 2;
    changed = true;
  }
  result.description = describe(result.op) + ", half as many rows, of " +
                       (one < operands.size() ? "operand " + std::to_string(one)
                                              : std::string("all operands"));
  return changed;
}

bool Mutator::changeEffect() {
  if (op().operands.empty())
    return false;
  Operand &operand = any(op().operands);
  Effect effect = Effect(below(3));
  if (effect == operand.effect)
    return false;
  operand.effect = effect;
  result.description = describe(result.op);
  return true;
}

bool Mutator::changeKernel() {
  if (op().kind != OpKind::Launch)
    return false;
  uint32_t kernel = below(table.kernels.size());
  if (kernel == op().kernel)
    return false;
  op().kernel = kernel;
  result.description =
      describe(result.op) + " launches " + table.kernels[kernel].name;
  return true;
}

bool Mutator::changeCollective() {
  if (op().kind != OpKind::Collective)
    return false;
  CollectiveKind kind = CollectiveKind(below(6));
  if (kind == op().collective)
    return false;
  op().collective = kind;
  result.description =
      describe(result.op) + " to kind " + std::to_string(int(kind));
  return true;
}

bool Mutator::changeCommunicator() {
  if (op().kind == OpKind::Launch || op().kind == OpKind::HostRead)
    return false;
  uint32_t c = below(table.communicators.size());
  if (c == op().communicator)
    return false;
  op().communicator = c;
  result.description =
      describe(result.op) + " to " + table.communicators[c].name;
  return true;
}

bool Mutator::changePeer() {
  if (op().kind != OpKind::Send && op().kind != OpKind::Recv)
    return false;
  int32_t peer = int32_t(below(5)) - 2;
  if (peer == op().peer)
    return false;
  op().peer = peer;
  result.description = describe(result.op) + " to " + std::to_string(peer);
  return true;
}

bool Mutator::changeHostRead() {
  if (op().kind != OpKind::HostRead)
    return false;
  // Another buffer of as many bytes.
  Op &other = any(ops());
  if (other.operands.empty())
    return false;
  const Operand &from = any(other.operands);
  Operand &source = op().operands[0];
  if (from.bytes() != source.bytes() ||
      (from.frame == source.frame && from.offset == source.offset))
    return false;
  source.frame = from.frame;
  source.offset = from.offset;
  result.description = describe(result.op) + " reads frame '" +
                       table.templates[result.tmpl].frames[from.frame].name +
                       "' at " + std::to_string(from.offset);
  return true;
}

bool Mutator::capture() {
  std::vector<Capture> &captures = table.templates[result.tmpl].captures;
  // Most ops are launches, which graphs may hold: half of the time, another.
  if (below(2))
    while (op().kind == OpKind::Launch && result.op + 1 < int64_t(ops().size()))
      ++result.op;
  // Into a new graph, a neighbour's, or out of its own.
  int32_t to = captures.size();
  if (result.op > 0 && below(2))
    to = ops()[result.op - 1].capture;
  if (to == op().capture)
    return false;
  if (to == int32_t(captures.size()))
    captures.push_back({"planted"});
  op().capture = to;
  result.description =
      describe(result.op) + (to < 0 ? " is eager" : " into a graph");
  return true;
}

//===----------------------------------------------------------------------===//
// Changes of calls
//===----------------------------------------------------------------------===//

bool Mutator::dropCall() {
  int64_t at = result.call;
  renumberCalls([=](int64_t c) { return c == at ? -1 : c - (c > at); });
  calls().erase(calls().begin() + at);
  return true;
}

bool Mutator::swapCalls() {
  int64_t a = result.call, b = below(2) ? a + 1 : below(calls().size());
  if (a == b || b >= int64_t(calls().size()))
    return false;
  result.otherCall = b;
  result.description = "with call " + std::to_string(b) + " of '" +
                       table.templates[calls()[b].tmpl].name + "'";
  renumberCalls([=](int64_t c) { return c == a ? b : c == b ? a : c; });
  std::swap(calls()[a], calls()[b]);
  return true;
}

bool Mutator::duplicateCall() {
  int64_t at = result.call;
  result.otherCall = at + 1;
  renumberCalls([=](int64_t c) { return c + (c >= at); });
  calls().insert(calls().begin() + at, Call(calls()[at]));
  return true;
}

bool Mutator::changeBase() {
  if (call().bases.empty())
    return false;
  size_t frame = below(call().bases.size());
  // What another call binds, or 4 bytes beside.
  Call &other = any(calls());
  int64_t base = call().bases[frame];
  if (below(4) && !other.bases.empty())
    base = other.tmpl == call().tmpl ? other.bases[frame] : any(other.bases);
  else
    base += below(2) ? 4 : -4;
  if (base == call().bases[frame])
    return false;
  result.description =
      "frame '" + table.templates[result.tmpl].frames[frame].name + "' from " +
      std::to_string(call().bases[frame]) + " to " + std::to_string(base);
  call().bases[frame] = base;
  return true;
}

bool Mutator::moveFrame() {
  std::vector<int64_t> &bases = call().bases;
  if (bases.empty())
    return false;
  // To bytes of its own, as if its life met that of all others.
  size_t frame = below(bases.size());
  const Frame &moved = table.templates[result.tmpl].frames[frame];
  int64_t &end = table.programs[result.program].arenaBytes;
  if (moved.bytes == 0)
    return false;
  bases[frame] = (end + 3) / 4 * 4;
  end = bases[frame] + moved.bytes;
  result.description =
      "frame '" + moved.name + "' to " + std::to_string(bases[frame]);
  return true;
}

bool Mutator::changeImport() {
  if (call().imports.empty())
    return false;
  EventRef &event = any(call().imports), by;
  if (below(2) && result.call > 0) {
    by.call = below(result.call);
    size_t count = table.templates[calls()[by.call].tmpl].ops.size();
    if (count == 0)
      return false;
    by.op = below(count);
  }
  if (by.call == event.call && (by.call < 0 || by.op == event.op))
    return false;
  event = by;
  result.description = by.call < 0 ? "an event is done before"
                                   : "an event is op " + std::to_string(by.op) +
                                         " of call " + std::to_string(by.call);
  return true;
}

} // namespace

Mutation moert::mutate(Table &table, uint64_t seed) {
  return Mutator(table, seed).run();
}
