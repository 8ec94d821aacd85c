//===- HostValues.h - What the host knows of device memory ------*- C++ -*-===//
//
// The host reads counts (sched.host_read): the rows of each expert, or with an
// exchange those of each rank and expert. Then the rows are sums of them, which
// the device computes by the kernel local_rows; the host computes them, too,
// and so needs no second read to launch a product per expert. The last op
// issued that writes a range is the one that later ops see (proof "race"), so
// that following the issue order is enough.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TABLE_HOSTVALUES_H
#define MOE_TABLE_HOSTVALUES_H

#include "moe/Table/ScheduleView.h"

#include <functional>
#include <map>
#include <memory>

namespace moert {

class HostValues {
public:
  /// The op was issued. `read`: what a host_read read.
  void follow(const ScheduleView &view, int64_t call, uint32_t local,
              const int32_t *read);
  /// Rows of each expert that a grouped product takes. Throws, with its
  /// location, if the host does not know them.
  const std::vector<int32_t> &rowsOf(const ScheduleView &view, int64_t call,
                                     uint32_t local);

  /// An op that writes the range was issued: what was known of it is over.
  void overwrite(Range range);
  /// The host has read the range.
  void set(Range range, const int32_t *values);
  /// local_rows was issued: `rows` are sums of `counts` over `ranks` ranks, if
  /// there are as many. The counts may be read later.
  void derive(Range counts, int64_t ranks, Range rows);
  /// Values of the range, null: not known.
  const std::vector<int32_t> *find(Range range);

private:
  /// What a range holds from one write to the next.
  struct Version {
    std::vector<int32_t> values;
    std::shared_ptr<Version> counts;
    int64_t ranks = 1, size = 0;
  };
  struct Entry {
    int64_t end = 0;
    std::shared_ptr<Version> version;
  };

  std::shared_ptr<Version> versionOf(Range range);

  /// By first byte; ranges do not overlap.
  std::map<int64_t, Entry> entries;
};

/// Calls unknown(call, op) for each op of the program that takes rows from the
/// host, and finds them unknown.
void findUnknownRows(
    const ScheduleView &view,
    const std::function<bool(uint32_t tmpl, uint32_t local)> &takes,
    const std::function<void(int64_t call, uint32_t local)> &unknown);
/// Throws as rowsOf() would for the first of them.
void checkRows(const ScheduleView &view,
               const std::function<bool(uint32_t tmpl, uint32_t local)> &takes);

} // namespace moert

#endif // MOE_TABLE_HOSTVALUES_H
