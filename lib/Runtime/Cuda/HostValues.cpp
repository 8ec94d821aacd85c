//===- HostValues.cpp - What the host knows of device memory --------------===//

#include "HostValues.h"

using namespace moert;
using namespace moert::cuda;

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
