//===- Safetensors.h - Tensors in .safetensors files ------------*- C++ -*-===//
//
// The file: eight bytes with the length of the header (little endian), the
// header (JSON: name -> dtype, shape, [begin, end) in the data), the data.
// What the format forbids (holes, overlaps, trailing bytes, names that occur
// twice) is an error here, too.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SAFETENSORS_H
#define MOE_RUNTIME_SAFETENSORS_H

#include "moe/Runtime/Engine.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace moert {

/// An integer tensor by its stored name.
struct NamedIntegers {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<int64_t> values;
};

/// Reads every tensor of the file, in the order of its data. F32, BF16 and F16
/// become f32 without loss; another dtype is an error. On failure returns
/// false, `error` names the file, the tensor and the reason, and `tensors` is
/// unchanged.
bool readSafetensors(const std::string &path, std::vector<NamedTensor> &tensors,
                     std::string &error);

/// The same for a file of I32 and I64 tensors, such as tokens.
bool readSafetensors(const std::string &path,
                     std::vector<NamedIntegers> &tensors, std::string &error);

/// The same as the first, a tensor after the other, so that one is in memory at
/// a time. `check` gets all names and shapes first (no values), then `take`
/// each tensor; either returns why it ends there, empty: it goes on.
bool readSafetensors(
    const std::string &path,
    const std::function<std::string(const std::vector<NamedTensor> &)> &check,
    const std::function<std::string(const NamedTensor &)> &take,
    std::string &error);

/// Writes the tensors, in their order, as F32. The file appears under `path`
/// whole or not at all; one that was there stays on failure, which returns
/// false and says why in `error`: a name that is repeated, reserved or not
/// UTF-8, values that do not fill their shape, or the system's reason.
bool writeSafetensors(const std::string &path,
                      const std::vector<NamedTensor> &tensors,
                      std::string &error);

/// The same, a tensor after the other: `tensors` have names and shapes;
/// `values` is called for each, in order, when it is written.
bool writeSafetensors(const std::string &path,
                      const std::vector<NamedTensor> &tensors,
                      const std::function<std::vector<float>(size_t)> &values,
                      std::string &error);

} // namespace moert

#endif // MOE_RUNTIME_SAFETENSORS_H
