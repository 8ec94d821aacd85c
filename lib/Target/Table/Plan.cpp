#include "Plan.h"

#include <algorithm>
#include <set>

using namespace moert;

/// No arena ends here.
static constexpr int64_t kFarAddress = int64_t(1) << 60;

static int64_t align(int64_t bytes) { return (bytes + 255) / 256 * 256; }

void FramePlan::run(std::vector<Frame> &frames) {
  for (const Operand *buffer : given)
    end[buffer->frame] =
        std::max(end[buffer->frame], buffer->offset + buffer->bytes());
  for (Operand *buffer : open) {
    buffer->offset = align(end[buffer->frame]);
    end[buffer->frame] = buffer->offset + buffer->bytes();
  }
  for (size_t i = 0; i < frames.size(); ++i)
    if (frames[i].bytes < 0)
      frames[i].bytes = end[i];
}

bool FramePlan::openTemporaries(const std::vector<Frame> &frames) const {
  return std::any_of(open.begin(), open.end(), [&](const Operand *buffer) {
    return frames[buffer->frame].kind == FrameKind::Temporary;
  });
}

void moert::planCalls(const Table &table, Program &program,
                      const std::vector<size_t> &open, bool arenaGiven,
                      bool inputs) {
  int64_t end = 0;
  // What overflows is no range at all; checkTable will say so.
  auto include = [&](int64_t address, int64_t bytes) {
    int64_t to;
    if (address >= 0 && bytes >= 0 &&
        !__builtin_add_overflow(address, bytes, &to) && to < kFarAddress)
      end = std::max(end, to);
  };
  auto times = [](int64_t a, int64_t b) {
    return __builtin_mul_overflow(a, b, &a) ? -1 : a;
  };
  int64_t ids = times(times(table.microBatches, table.microBatchSamples),
                      times(table.sequence, 4));
  include(program.tokens, ids);
  include(program.labels, ids);
  for (int64_t address :
       {program.loss, program.gradNorm, program.flag, program.step})
    include(address, 4);
  for (const Parameter &p : program.parameters) {
    Operand value{0, 0, p.type, p.shape, Effect::Read};
    include(p.address, value.bytes());
    include(p.gradient, value.elements() * 4);
  }
  for (const Bucket &b : program.buckets) {
    int64_t shard = b.elements / table.communicators[b.communicator].size * 4;
    include(b.weights, times(b.elements, 4));
    include(b.gradients, times(b.elements, 4));
    for (int64_t address : {b.master, b.moment1, b.moment2})
      include(address, shard);
  }
  for (const Call &call : program.calls)
    for (size_t i = 0; i < call.bases.size(); ++i)
      include(call.bases[i], table.templates[call.tmpl].frames[i].bytes);

  std::map<std::string, int64_t> places;
  for (size_t index : open)
    for (const Frame &frame : table.templates[program.calls[index].tmpl].frames)
      places[frame.name] = std::max(places[frame.name], frame.bytes);
  for (auto &[name, place] : places) {
    int64_t bytes = place;
    place = align(end);
    end = place + bytes;
  }
  std::set<std::string> named;
  for (size_t index : open) {
    Call &call = program.calls[index];
    for (const Frame &frame : table.templates[call.tmpl].frames) {
      call.bases.push_back(places[frame.name]);
      bool local =
          frame.kind == FrameKind::Temporary || frame.kind == FrameKind::Host;
      if (!inputs || local || frame.bytes == 0 ||
          !named.insert(frame.name).second)
        continue;
      Parameter input;
      input.names = {frame.name};
      input.shape = input.storedShape = {frame.bytes / 4};
      input.address = input.gradient = places[frame.name];
      program.parameters.push_back(std::move(input));
    }
  }
  if (!arenaGiven)
    program.arenaBytes = end;
}
