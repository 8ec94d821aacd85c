#include "moe/Schedule/Dataflow.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace moert {

static bool overlaps(const Operand &a, const Operand &b) {
  return a.frame == b.frame && a.offset < b.offset + b.bytes() &&
         b.offset < a.offset + a.bytes();
}

/// All-to-all: x, sendCounts, recvCounts, flag, y.
static bool isFlag(const Op &op, size_t operand) {
  return op.kind == OpKind::Collective &&
         op.collective == CollectiveKind::AllToAll && operand == 3;
}

/// Whether `b`, which comes later, must stay behind `a`.
static bool conflict(const Op &a, const Op &b) {
  for (size_t i = 0; i < a.operands.size(); ++i)
    for (size_t j = 0; j < b.operands.size(); ++j) {
      if (a.operands[i].effect == Effect::Read &&
          b.operands[j].effect == Effect::Read && a.kind != OpKind::HostRead)
        continue;
      if (isFlag(a, i) && isFlag(b, j))
        continue;
      if (overlaps(a.operands[i], b.operands[j]))
        return true;
    }
  return false;
}

std::vector<PairProblem::Edge> dependences(const Template &tmpl) {
  std::vector<PairProblem::Edge> edges;
  for (uint32_t j = 0; j < tmpl.ops.size(); ++j)
    for (uint32_t i = 0; i < j; ++i)
      if (conflict(tmpl.ops[i], tmpl.ops[j]))
        edges.push_back({i, j});
  return edges;
}

void reorder(Template &tmpl, const std::vector<uint32_t> &order) {
  std::vector<Op> ops;
  ops.reserve(order.size());
  for (uint32_t index : order) {
    ops.push_back(std::move(tmpl.ops[index]));
    ops.back().waits.clear();
  }
  tmpl.ops = std::move(ops);
}

namespace {

/// A buffer of a temporary frame: bytes that are placed as one.
struct Buffer {
  int64_t begin = 0, end = 0;
  /// First access, and the last one on each stream (-1: none).
  int64_t first = -1;
  std::vector<int64_t> last;
  int64_t place = 0;

  int64_t bytes() const { return end - begin; }
};

/// clock[op][s]: last op of stream s that is done before `op` starts (itself
/// included).
std::vector<std::vector<int64_t>> clocks(const Template &tmpl,
                                         uint32_t streams) {
  std::vector<std::vector<int64_t>> clock(tmpl.ops.size(),
                                          std::vector<int64_t>(streams, -1));
  auto join = [&](std::vector<int64_t> &into,
                  const std::vector<int64_t> &from) {
    for (uint32_t s = 0; s < streams; ++s)
      into[s] = std::max(into[s], from[s]);
  };
  std::vector<std::vector<uint32_t>> predecessors(tmpl.ops.size());
  for (const PairProblem::Edge &edge : dependences(tmpl))
    predecessors[edge.to].push_back(edge.from);
  std::vector<int64_t> previous(streams, -1);
  std::vector<int64_t> host(streams, -1);
  for (size_t i = 0; i < tmpl.ops.size(); ++i) {
    const Op &op = tmpl.ops[i];
    join(clock[i], host);
    if (previous[op.stream] >= 0)
      join(clock[i], clock[previous[op.stream]]);
    for (uint32_t p : predecessors[i])
      join(clock[i], clock[p]);
    clock[i][op.stream] = i;
    previous[op.stream] = i;
    if (op.kind == OpKind::HostRead)
      join(host, clock[i]);
  }
  return clock;
}

constexpr int64_t kAlignment = 256;

int64_t align(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void packFrame(Template &tmpl, uint32_t frame, uint32_t streams,
               const std::vector<std::vector<int64_t>> &clock) {
  // Buffers: maximal unions of overlapping ranges.
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const Op &op : tmpl.ops)
    for (const Operand &operand : op.operands)
      if (operand.frame == frame)
        ranges.emplace_back(operand.offset, operand.offset + operand.bytes());
  std::sort(ranges.begin(), ranges.end());
  std::vector<Buffer> buffers;
  for (auto [begin, end] : ranges) {
    if (!buffers.empty() && begin < buffers.back().end) {
      buffers.back().end = std::max(buffers.back().end, end);
      continue;
    }
    Buffer buffer;
    buffer.begin = begin;
    buffer.end = end;
    buffer.last.assign(streams, -1);
    buffers.push_back(buffer);
  }
  auto find = [&](const Operand &operand) -> Buffer & {
    auto it = std::upper_bound(
        buffers.begin(), buffers.end(), operand.offset,
        [](int64_t offset, const Buffer &b) { return offset < b.begin; });
    return *(it - 1);
  };
  for (size_t i = 0; i < tmpl.ops.size(); ++i)
    for (const Operand &operand : tmpl.ops[i].operands)
      if (operand.frame == frame) {
        Buffer &buffer = find(operand);
        if (buffer.first < 0)
          buffer.first = i;
        buffer.last[tmpl.ops[i].stream] = i;
      }

  auto before = [&](const Buffer &a, const Buffer &b) {
    for (uint32_t s = 0; s < streams; ++s)
      if (a.last[s] >= 0 && clock[b.first][s] < a.last[s])
        return false;
    // An op may not write over what it reads.
    for (uint32_t s = 0; s < streams; ++s)
      if (a.last[s] == b.first)
        return false;
    return true;
  };

  std::vector<uint32_t> bySize(buffers.size());
  std::iota(bySize.begin(), bySize.end(), 0);
  std::sort(bySize.begin(), bySize.end(), [&](uint32_t a, uint32_t b) {
    return std::make_pair(-buffers[a].bytes(), buffers[a].first) <
           std::make_pair(-buffers[b].bytes(), buffers[b].first);
  });
  std::vector<uint32_t> placed;
  int64_t size = 0;
  for (uint32_t index : bySize) {
    Buffer &buffer = buffers[index];
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (uint32_t other : placed)
      if (!before(buffers[other], buffer) && !before(buffer, buffers[other]))
        taken.emplace_back(buffers[other].place,
                           buffers[other].place + buffers[other].bytes());
    std::sort(taken.begin(), taken.end());
    int64_t place = 0;
    for (auto [begin, end] : taken) {
      if (place + buffer.bytes() <= begin)
        break;
      place = std::max(place, align(end));
    }
    buffer.place = place;
    size = std::max(size, place + align(buffer.bytes()));
    placed.push_back(index);
  }
  for (Op &op : tmpl.ops)
    for (Operand &operand : op.operands)
      if (operand.frame == frame) {
        Buffer &buffer = find(operand);
        operand.offset += buffer.place - buffer.begin;
      }
  tmpl.frames[frame].bytes = size;
}

} // namespace

void packTemporaries(Template &tmpl, uint32_t streams) {
  std::vector<std::vector<int64_t>> clock = clocks(tmpl, streams);
  for (uint32_t frame = 0; frame < tmpl.frames.size(); ++frame)
    if (tmpl.frames[frame].kind == FrameKind::Temporary)
      packFrame(tmpl, frame, streams, clock);
}

} // namespace moert
