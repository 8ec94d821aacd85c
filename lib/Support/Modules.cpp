#include "moe/Support/Modules.h"

using namespace mlir;
using namespace mlir::moe;

namespace {
struct Name {
  StringLiteral name;
  std::initializer_list<Module> modules;
};
} // namespace

/// What each name stands for. `attn` is the whole attention block without its
/// norm; `moe` is everything between the router's norm and the residual.
static const Name table[] = {
    {"norm", {Module::Norm}},
    {"layernorm", {Module::Norm}},
    {"core_attn", {Module::CoreAttn}},
    {"attn", {Module::Attn, Module::CoreAttn}},
    {"moe",
     {Module::MoeRouter, Module::MoePreprocess, Module::MoeDispatch,
      Module::MoeExperts, Module::MoeAct, Module::MoeCombine}},
    {"moe_router", {Module::MoeRouter}},
    {"moe_preprocess", {Module::MoePreprocess}},
    {"moe_act", {Module::MoeAct}},
};

std::string mlir::moe::knownModules() {
  std::string text;
  for (const Name &entry : table)
    text += (text.empty() ? "" : ", ") + entry.name.str();
  return text;
}

bool mlir::moe::parseModules(ArrayRef<std::string> names, ModuleSet &set,
                             std::string &error) {
  for (const std::string &name : names) {
    const Name *found = llvm::find_if(
        table, [&](const Name &entry) { return entry.name == name; });
    if (found == std::end(table)) {
      error = "unknown module '" + name + "'; known: " + knownModules();
      return false;
    }
    for (Module module : found->modules)
      set.insert(module);
  }
  return true;
}
