//===- Modules.h - Names of modules for flags -----------------------------===//
//
// `--recompute=`, `--cuda-graph=` name modules; each name stands for a set of
// what ops carry (moe::Module).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_SUPPORT_MODULES_H
#define MOE_SUPPORT_MODULES_H

#include "dialects/Moe/MoeEnums.h"
#include "llvm/ADT/SmallSet.h"

namespace mlir::moe {

/// A set of op modules.
class ModuleSet {
public:
  void insert(Module module) { bits |= 1u << static_cast<unsigned>(module); }
  bool contains(Module module) const {
    return bits >> static_cast<unsigned>(module) & 1;
  }
  bool empty() const { return bits == 0; }
  ModuleSet &operator|=(ModuleSet other) {
    bits |= other.bits;
    return *this;
  }

private:
  uint32_t bits = 0;
};

/// All names that parseModules knows, for messages: "norm, core_attn, ...".
std::string knownModules();

/// Parses names such as {"moe", "norm"} (aliases: layernorm) into `set`.
/// False and `error`, which lists the known names, for an unknown one.
bool parseModules(ArrayRef<std::string> names, ModuleSet &set,
                  std::string &error);

} // namespace mlir::moe

#endif // MOE_SUPPORT_MODULES_H
