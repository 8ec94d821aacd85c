//===- HostValues.cpp - What the host knows of device memory --------------===//

#include "moe/Table/HostValues.h"

#include <stdexcept>

using namespace moert;

void HostValues::overwrite(Range range) {
  auto at = entries.upper_bound(range.begin);
  if (at != entries.begin() && std::prev(at)->second.end > range.begin)
    --at;
  while (at != entries.end() && at->first < range.end)
    at = entries.erase(at);
}

std::shared_ptr<HostValues::Version> HostValues::versionOf(Range range) {
  auto found = entries.find(range.begin);
  if (found != entries.end() && found->second.end == range.end)
    return found->second.version;
  // A range that is another's part is not followed.
  overwrite(range);
  Entry &entry = entries[range.begin];
  entry.end = range.end;
  entry.version = std::make_shared<Version>();
  entry.version->size = (range.end - range.begin) / 4;
  return entry.version;
}

void HostValues::set(Range range, const int32_t *values) {
  versionOf(range)->values.assign(values,
                                  values + (range.end - range.begin) / 4);
}

void HostValues::derive(Range counts, int64_t ranks, Range rows) {
  std::shared_ptr<Version> source = versionOf(counts);
  overwrite(rows);
  std::shared_ptr<Version> version = versionOf(rows);
  if (ranks < 1 || source->size % ranks ||
      source->size / ranks != version->size)
    return;
  version->counts = source;
  version->ranks = ranks;
}

const std::vector<int32_t> *HostValues::find(Range range) {
  auto found = entries.find(range.begin);
  if (found == entries.end() || found->second.end != range.end)
    return nullptr;
  Version &version = *found->second.version;
  if (version.values.empty() && version.counts &&
      !version.counts->values.empty()) {
    version.values.assign(version.size, 0);
    for (int64_t r = 0; r < version.ranks; ++r)
      for (int64_t e = 0; e < version.size; ++e)
        version.values[e] += version.counts->values[r * version.size + e];
    version.counts = nullptr;
  }
  return version.values.empty() ? nullptr : &version.values;
}

//===----------------------------------------------------------------------===//
// Along a program
//===----------------------------------------------------------------------===//

void HostValues::follow(const ScheduleView &view, int64_t call, uint32_t local,
                        const int32_t *read) {
  const Op &op = view.op(call, local);
  const Template &t = view.templateOf(call);
  auto rangeOf = [&](size_t operand) {
    return view.range(call, op.operands[operand]);
  };
  if (op.kind == OpKind::HostRead) {
    set(rangeOf(0), read);
    return;
  }
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (op.operands[i].effect != Effect::Read &&
        t.frames[op.operands[i].frame].kind != FrameKind::Host)
      overwrite(rangeOf(i));
  if (op.kind != OpKind::Launch)
    return;
  const Kernel &kernel = view.table().kernels[op.kernel];
  auto ranks = kernel.attributes.find("ranks");
  if (kernel.op == "local_rows" && ranks != kernel.attributes.end() &&
      op.operands.size() == 2)
    derive(rangeOf(0), int64_t(ranks->second), rangeOf(1));
}

[[noreturn]] static void failUnknown(const ScheduleView &view, int64_t call,
                                     uint32_t local) {
  throw std::runtime_error(
      "'" + view.location(call, local) +
      "' takes the rows of its experts from the host, which does not know "
      "them: no sched.host_read before it reads them, or the counts that "
      "they are sums of");
}

const std::vector<int32_t> &HostValues::rowsOf(const ScheduleView &view,
                                               int64_t call, uint32_t local) {
  const std::vector<int32_t> *rows =
      find(view.range(call, view.op(call, local).operands[2]));
  if (!rows)
    failUnknown(view, call, local);
  return *rows;
}

void moert::findUnknownRows(
    const ScheduleView &view,
    const std::function<bool(uint32_t tmpl, uint32_t local)> &takes,
    const std::function<void(int64_t call, uint32_t local)> &unknown) {
  HostValues values;
  // Which values does not matter.
  std::vector<int32_t> read;
  int64_t calls = view.program().calls.size();
  for (int64_t call = 0; call < calls; ++call)
    for (uint32_t local = 0; local < view.templateOf(call).ops.size();
         ++local) {
      const Op &op = view.op(call, local);
      if (takes(view.program().calls[call].tmpl, local) &&
          !values.find(view.range(call, op.operands[2])))
        unknown(call, local);
      if (op.kind == OpKind::HostRead)
        read.resize(op.operands[0].elements());
      values.follow(view, call, local, read.data());
    }
}

void moert::checkRows(
    const ScheduleView &view,
    const std::function<bool(uint32_t tmpl, uint32_t local)> &takes) {
  findUnknownRows(view, takes, [&](int64_t call, uint32_t local) {
    failUnknown(view, call, local);
  });
}
