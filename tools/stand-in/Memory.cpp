//===- Memory.cpp - Device and pinned memory --------------------*- C++ -*-===//

#include "Memory.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace standin {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kRegion = size_t(512) << 30;
constexpr int kPoison = 0xff;

size_t pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

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
  if (::mprotect(result, pages(bytes), PROT_READ | PROT_WRITE) != 0)
    return nullptr;
  region.next += size;
  allocations[uintptr_t(result)] = {bytes, ++lastNumber, false};
  if (place == Place::Device) {
    std::memset(result, kPoison, bytes);
    usedBytes += bytes;
  }
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
