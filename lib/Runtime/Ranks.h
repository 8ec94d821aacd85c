//===- Ranks.h - Virtual ranks and their groups ---------------------------===//

#ifndef MOE_LIB_RUNTIME_RANKS_H
#define MOE_LIB_RUNTIME_RANKS_H

#include "moe/Table/Table.h"

#include <cstring>
#include <memory>

namespace moert {

/// A rank's position in its group, and the rank at another position.
inline int64_t positionIn(const Communicator &c, int64_t rank) {
  return rank / c.stride % c.size;
}
inline int64_t memberOf(const Communicator &c, int64_t rank, int64_t position) {
  return rank + (position - positionIn(c, rank)) * c.stride;
}

/// Memory of one rank, aligned to pages. Zeros until written.
class Arena {
public:
  /// Null data if the system refuses.
  explicit Arena(int64_t bytes);

  char *data() const { return memory.get(); }
  /// The element type's bytes at `address`.
  template <typename T> T *at(int64_t address) const {
    return reinterpret_cast<T *>(memory.get() + address);
  }

private:
  struct Unmap {
    size_t bytes;
    void operator()(char *p) const;
  };
  std::unique_ptr<char, Unmap> memory{nullptr, {0}};
};

/// Bytes that this process may still allocate: what the machine has available
/// and what its control group permits.
int64_t availableMemory();

struct Rank {
  int64_t number = 0;
  uint32_t program = 0;
  Arena arena;
};

/// A float rounded to nearest even, and back.
inline uint16_t toBfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (value != value)
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float fromBfloat16(uint16_t value) {
  uint32_t bits = uint32_t(value) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

} // namespace moert

#endif // MOE_LIB_RUNTIME_RANKS_H
