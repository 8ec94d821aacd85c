//===- Memory.h - Device and pinned memory ----------------------*- C++ -*-===//

#ifndef MOE_TOOLS_STAND_IN_MEMORY_H
#define MOE_TOOLS_STAND_IN_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace standin {

enum class Place { Host, Pinned, Device };

/// Addresses come from two reserved regions and are never used twice, so that
/// any address tells what it is, and freed memory stays unusable.
class Memory {
public:
  Memory();
  /// Device memory is filled with bytes that are NaN as any float. Null: full.
  void *allocate(Place place, size_t bytes);
  /// Bytes of the allocation that begins at `pointer`; 0: none does.
  size_t sizeOf(Place place, const void *pointer) const;
  void release(const void *pointer);

  Place placeOf(uintptr_t address) const;
  bool isDevice(uintptr_t address) const {
    return placeOf(address) == Place::Device;
  }
  /// What is wrong with these bytes as an operand of a kernel; empty: nothing.
  std::string fault(uintptr_t begin, uintptr_t end) const;
  /// "allocation 3 + 256" or "host memory 0x...".
  std::string describe(uintptr_t address) const;

  size_t used() const { return usedBytes; }
  static size_t total() { return size_t(80) << 30; }

private:
  struct Region {
    uintptr_t begin = 0, next = 0, end = 0;
  };
  struct Allocation {
    size_t bytes;
    int number;
    bool freed;
  };
  const Allocation *find(uintptr_t address, uintptr_t &begin) const;

  Region device, pinned;
  std::map<uintptr_t, Allocation> allocations;
  size_t usedBytes = 0;
  int lastNumber = 0;
};

Memory &memory();

} // namespace standin

#endif // MOE_TOOLS_STAND_IN_MEMORY_H
