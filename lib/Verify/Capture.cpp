//===- Capture.cpp - Proof 4: captures are legal --------------------------===//
//
// checkTable has shown that a capture's ops follow each other and that waits
// name earlier ops, so that a wait of a captured op on an op outside of the
// capture is on one issued before the graph starts.
//
//===----------------------------------------------------------------------===//

#include "Flat.h"

#include <set>
#include <unordered_set>

using namespace moert;
using namespace moert::verifier;

namespace {
struct Occurrence {
  OpRef first;
  int64_t calls = 0;
};
} // namespace

int64_t verifier::proveCapture(const Table &table,
                               const std::vector<FlatProgram> &programs,
                               Faults &faults) {
  // Templates where they are called first, and eager ops of communicators.
  std::vector<Occurrence> uses(table.templates.size());
  std::vector<OpRef> eager(table.communicators.size());
  for (const FlatProgram &program : programs)
    for (size_t c = 0; c < program.view.program().calls.size(); ++c) {
      uint32_t tmpl = program.view.program().calls[c].tmpl;
      if (uses[tmpl].calls++)
        continue;
      int32_t first = program.view.firstOpOf(c);
      uses[tmpl].first = {&program, first};
      const std::vector<Op> &ops = table.templates[tmpl].ops;
      for (size_t i = 0; i < ops.size(); ++i)
        if (communicates(ops[i]) && ops[i].capture < 0 &&
            !eager[ops[i].communicator].program)
          eager[ops[i].communicator] = {&program, int32_t(first + i)};
    }

  enum { HostReadInside, HostOperand, GroupedProduct, Interleaved };
  for (size_t t = 0; t < table.templates.size(); ++t) {
    const Template &tmpl = table.templates[t];
    for (size_t i = 0; uses[t].calls && i < tmpl.ops.size(); ++i) {
      const Op &op = tmpl.ops[i];
      if (op.capture < 0)
        continue;
      const FlatProgram &program = *uses[t].first.program;
      OpRef at{&program, int32_t(uses[t].first.op + i)};
      auto name = [&] {
        return program.describe(at.op) + " in capture '" +
               tmpl.captures[op.capture].name + "'";
      };
      if (op.kind == OpKind::HostRead) {
        faults.add(Proof::Capture, HostReadInside, at, {}, [&] {
          return name() + " is a host read: a graph can't make the host wait";
        });
        continue;
      }
      for (const Operand &operand : op.operands)
        if (tmpl.frames[operand.frame].kind == FrameKind::Host) {
          faults.add(Proof::Capture, HostOperand, at, {}, [&] {
            return name() + " reads host frame '" +
                   tmpl.frames[operand.frame].name +
                   "', whose values would freeze at the first replay";
          });
          break;
        }
      if (op.kind == OpKind::Launch &&
          isGroupedProduct(table.kernels[op.kernel]))
        faults.add(Proof::Capture, GroupedProduct, at, {}, [&] {
          return name() + " launches a product for each expert by the rows "
                          "that the host knows, which would freeze at the "
                          "first replay; leave it out of the capture";
        });
      if (communicates(op) && eager[op.communicator].program)
        faults.add(
            Proof::Capture, Interleaved, at, eager[op.communicator], [&] {
              OpRef other = eager[op.communicator];
              return name() + " uses communicator '" +
                     table.communicators[op.communicator].name + "', which " +
                     other.program->describe(other.op) + " uses eagerly";
            });
    }
  }

  // Graphs: a capture is instantiated anew for other addresses.
  std::vector<std::vector<std::set<uint32_t>>> frames;
  for (const Template &tmpl : table.templates) {
    frames.emplace_back(tmpl.captures.size());
    for (const Op &op : tmpl.ops)
      for (const Operand &operand : op.operands)
        if (op.capture >= 0)
          frames.back()[op.capture].insert(operand.frame);
  }
  std::set<std::vector<int64_t>> instances;
  for (const FlatProgram &program : programs)
    for (const Call &call : program.view.program().calls)
      for (size_t c = 0; c < frames[call.tmpl].size(); ++c) {
        if (frames[call.tmpl][c].empty())
          continue;
        std::vector<int64_t> key{program.index, call.tmpl, int64_t(c)};
        for (uint32_t frame : frames[call.tmpl][c])
          key.push_back(call.bases[frame]);
        instances.insert(std::move(key));
      }
  return instances.size();
}
