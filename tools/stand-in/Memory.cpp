//===- Memory.cpp - Device and pinned memory --------------------*- C++ -*-===//

#include "Memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace standin {
namespace {

/// The largest of a host's pages, Arm's.
constexpr size_t kPage = 65536;
constexpr size_t kRegion = size_t(512) << 30;
constexpr int kPoison = 0xff;
constexpr size_t kPoisonBytes = size_t(4) << 20;

size_t pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// A file of kPoisonBytes of poison; -1: none could be made.
int makePoison() {
  int file = ::memfd_create("stand-in poison", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, kPoisonBytes) != 0)
    return -1;
  void *bytes = ::mmap(nullptr, kPoisonBytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED)
    return -1;
  std::memset(bytes, kPoison, kPoisonBytes);
  ::munmap(bytes, kPoisonBytes);
  return file;
}

/// Copies of the poison, each page when it is first written: a program may
/// allocate much more than it uses.
bool mapPoison(uintptr_t begin, size_t bytes) {
  static const int file = makePoison();
  for (size_t at = 0; at < bytes; at += kPoisonBytes)
    if (::mmap(reinterpret_cast<void *>(begin + at),
               std::min(kPoisonBytes, bytes - at), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) == MAP_FAILED)
      return false;
  return true;
}

} // namespace

Memory::Memory() {
  for (Region *region : {&device, &pinned}) {
    void *base = ::mmap(nullptr, kRegion, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
      std::perror("stand-in: cannot reserve addresses");
      std::abort();
    }
    region->begin = region->next = uintptr_t(base);
    region->end = region->begin + kRegion;
  }
}

void *Memory::allocate(Place place, size_t bytes) {
  Region &region = place == Place::Device ? device : pinned;
  if (place == Place::Device && usedBytes + bytes > total())
    return nullptr;
  // A page that is never used keeps neighbours apart.
  size_t size = pages(bytes) + kPage;
  if (region.end - region.next < size)
    return nullptr;
  void *result = reinterpret_cast<void *>(region.next);
  bool usable =
      place == Place::Device
          ? mapPoison(region.next, pages(bytes))
          : ::mprotect(result, pages(bytes), PROT_READ | PROT_WRITE) == 0;
  if (!usable)
    return nullptr;
  region.next += size;
  allocations[uintptr_t(result)] = {bytes, ++lastNumber, false};
  if (place == Place::Device)
    usedBytes += bytes;
  return result;
}

size_t Memory::sizeOf(Place place, const void *pointer) const {
  auto it = allocations.find(uintptr_t(pointer));
  return it == allocations.end() || it->second.freed ||
                 placeOf(it->first) != place
             ? 0
             : it->second.bytes;
}

void Memory::release(const void *pointer) {
  Allocation &allocation = allocations.at(uintptr_t(pointer));
  allocation.freed = true;
  if (isDevice(uintptr_t(pointer)))
    usedBytes -= allocation.bytes;
  void *begin = const_cast<void *>(pointer);
  ::madvise(begin, pages(allocation.bytes), MADV_DONTNEED);
  ::mprotect(begin, pages(allocation.bytes), PROT_NONE);
}

Place Memory::placeOf(uintptr_t address) const {
  if (address >= device.begin && address < device.end)
    return Place::Device;
  return address >= pinned.begin && address < pinned.end ? Place::Pinned
                                                         : Place::Host;
}

const Memory::Allocation *Memory::find(uintptr_t address,
                                       uintptr_t &begin) const {
  auto it = allocations.upper_bound(address);
  if (it == allocations.begin())
    return nullptr;
  --it;
  begin = it->first;
  return &it->second;
}

std::string Memory::fault(uintptr_t begin, uintptr_t end) const {
  if (placeOf(begin) == Place::Host)
    return "is neither device nor pinned memory";
  uintptr_t base = 0;
  const Allocation *allocation = find(begin, base);
  if (!allocation || end > base + allocation->bytes)
    return "is outside of the allocation";
  return allocation->freed ? "was freed" : "";
}

std::string Memory::describe(uintptr_t address) const {
  char text[64];
  uintptr_t base = 0;
  if (placeOf(address) == Place::Host) {
    std::snprintf(text, sizeof text, "host memory 0x%zx", size_t(address));
  } else {
    const Allocation *allocation = find(address, base);
    std::snprintf(text, sizeof text, "%s allocation %d + %zu",
                  isDevice(address) ? "device" : "pinned",
                  allocation ? allocation->number : 0, size_t(address - base));
  }
  return text;
}

Memory &memory() {
  static Memory &result = *new Memory;
  return result;
}

} // namespace standin
