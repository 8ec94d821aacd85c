//===- Random.h - Random numbers by counter -------------------------------===//
//
// A number depends on a key and an index alone, so that ranks of any layout
// draw the same ones without drawing the others.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_RANDOM_H
#define MOE_RUNTIME_RANDOM_H

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
inline uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// The key of a named sequence: its FNV-1a hash, mixed with the seed.
inline uint64_t randomKey(uint64_t seed, const std::string &name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3;
  return splitmix64(splitmix64(seed) ^ hash);
}

inline uint64_t randomBits(uint64_t key, uint64_t index) {
  return splitmix64(key ^ splitmix64(index));
}

/// Standard normal, by Box and Muller from bits 2*index and 2*index + 1.
inline double randomNormal(uint64_t key, uint64_t index) {
  // 53 bits; the first in (0, 1] for its logarithm.
  double u = double((randomBits(key, 2 * index) >> 11) + 1) * 0x1p-53;
  double v = double(randomBits(key, 2 * index + 1) >> 11) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
}

/// Tokens of step number `step`, from 0, in [0, vocabulary).
inline std::vector<int32_t> randomTokens(uint64_t seed, int64_t step,
                                         int64_t count, int64_t vocabulary) {
  uint64_t key = randomKey(seed, "tokens of step " + std::to_string(step));
  std::vector<int32_t> tokens(count);
  for (int64_t i = 0; i < count; ++i)
    tokens[i] = static_cast<int32_t>(randomBits(key, i) % vocabulary);
  return tokens;
}

} // namespace moert

#endif // MOE_RUNTIME_RANDOM_H
