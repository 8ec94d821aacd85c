//===- Numbers.h - Types of elements ----------------------------*- C++ -*-===//

#ifndef MOE_TOOLS_STAND_IN_NUMBERS_H
#define MOE_TOOLS_STAND_IN_NUMBERS_H

#include <cstdint>
#include <cstring>

namespace standin {

struct Bf16 {
  uint16_t bits;
  Bf16() = default;
  /// Rounds to nearest, ties to even; NaN stays NaN.
  explicit Bf16(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    bits = value != value ? uint16_t(word >> 16 | 0x40)
                          : uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    uint32_t word = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
};

} // namespace standin

#endif // MOE_TOOLS_STAND_IN_NUMBERS_H
