//===- Ranks.cpp - Memory of virtual ranks --------------------------------===//

#include "Ranks.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>

using namespace moert;

Arena::Arena(int64_t bytes) {
  // An empty arena has an address, too.
  size_t size = std::max<int64_t>(bytes, 1);
  void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p != MAP_FAILED)
    memory = {static_cast<char *>(p), Unmap{size}};
}

void Arena::Unmap::operator()(char *p) const { munmap(p, bytes); }

/// The number in a file that holds nothing else, or `otherwise`.
static int64_t numberIn(const char *path, int64_t otherwise) {
  std::ifstream in(path);
  int64_t value;
  return in >> value ? value : otherwise;
}

int64_t moert::availableMemory() {
  constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();
  int64_t available = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  std::ifstream info("/proc/meminfo");
  std::string word;
  int64_t kib;
  while (info >> word)
    if (word == "MemAvailable:" && info >> kib)
      available = kib * 1024;
  int64_t limit = numberIn("/sys/fs/cgroup/memory.max", unlimited);
  if (limit == unlimited)
    return available;
  return std::min(available,
                  limit - numberIn("/sys/fs/cgroup/memory.current", 0));
}
