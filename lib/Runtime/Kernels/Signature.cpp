//===- Signature.cpp - What operands a kernel takes, as text --------------===//

#include "Signature.h"

#include <cmath>
#include <optional>

using namespace moert;
using namespace moert::kernels;

namespace {

std::vector<std::string> split(const std::string &text,
                               const std::string &separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return parts;
}

const char *typeName(ElementType type) {
  switch (type) {
  case ElementType::F32:
    return "f32";
  case ElementType::BF16:
    return "bf16";
  case ElementType::I32:
    return "i32";
  }
  return "unknown";
}

const char *effectName(Effect effect) {
  switch (effect) {
  case Effect::Read:
    return "read";
  case Effect::Write:
    return "written";
  case Effect::ReadWrite:
    return "read and written";
  }
  return "unknown";
}

struct Formal {
  std::string name, type;
  std::vector<std::string> dims;
  bool open = false;
  Effect effect;
};

std::vector<Formal> parse(const std::string &text) {
  std::vector<Formal> formals;
  size_t arrow = text.find("-> ");
  auto add = [&](const std::string &list, Effect effect) {
    for (const std::string &item : split(list, ", ")) {
      std::vector<std::string> words = split(item, " ");
      Formal f;
      f.name = words[0];
      f.effect = words[1] == "rw" ? Effect::ReadWrite : effect;
      const std::string &type = words.back();
      size_t bracket = type.find('[');
      f.type = type.substr(0, bracket);
      f.dims = split(type.substr(bracket + 1, type.size() - bracket - 2), ",");
      if (!f.dims.empty() && f.dims.back() == "...") {
        f.dims.pop_back();
        f.open = true;
      }
      formals.push_back(f);
    }
  };
  std::string reads = text.substr(0, arrow);
  while (!reads.empty() && reads.back() == ' ')
    reads.pop_back();
  add(reads, Effect::Read);
  if (arrow != std::string::npos)
    add(text.substr(arrow + 3), Effect::Write);
  return formals;
}

class Matcher {
public:
  Matcher(const Signature &signature, const Kernel &kernel,
          const std::vector<Operand> &operands)
      : signature(signature), kernel(kernel), operands(operands),
        formals(parse(signature.operands)) {}

  std::string run() {
    std::string error;
    if ((error = checkAttributes()).empty() &&
        (error = checkOperands()).empty() && (error = checkShapes()).empty())
      error = checkConditions();
    return error.empty()
               ? error
               : "kernel '" + kernel.name + "' (" + kernel.op + "): " + error;
  }

private:
  std::string checkAttributes() {
    for (std::string name : split(signature.attributes, " ")) {
      char kind = name.back();
      if (kind == '#' || kind == '?')
        name.pop_back();
      auto it = kernel.attributes.find(name);
      if (it == kernel.attributes.end())
        return "attribute '" + name + "' is missing";
      double value = it->second;
      if (!std::isfinite(value))
        return "attribute '" + name + "' is not finite";
      if (kind == '?' && value != 0 && value != 1)
        return "attribute '" + name + "' must be 0 or 1";
      if (kind != '#')
        continue;
      if (value < 1 || value > double(INT32_MAX) || value != std::floor(value))
        return "attribute '" + name + "' must be a positive integer";
      symbols[name] = int64_t(value);
    }
    return "";
  }

  std::string describe(size_t i) const {
    return "operand " + std::to_string(i) + " (" + formals[i].name + ")";
  }

  std::string checkOperands() {
    size_t n = formals.size();
    if (operands.size() != n)
      return "has " + std::to_string(operands.size()) + " operands, needs " +
             std::to_string(n) + ": " + signature.operands;
    if (kernel.effects.size() != n)
      return "has effects for " + std::to_string(kernel.effects.size()) +
             " operands, needs " + std::to_string(n);
    std::optional<ElementType> common;
    for (size_t i = 0; i < n; ++i) {
      const Formal &f = formals[i];
      const Operand &o = operands[i];
      std::string type = typeName(o.type);
      if (f.type != "x" && f.type != type)
        return describe(i) + " is " + type + ", must be " + f.type;
      if (f.type == "x") {
        if (o.type != ElementType::F32 && o.type != ElementType::BF16)
          return describe(i) + " is " + type + ", must be f32 or bf16";
        if (common && *common != o.type)
          return describe(i) + " is " + type +
                 ", but an operand before it is " + typeName(*common);
        common = o.type;
      }
      for (Effect effect : {o.effect, kernel.effects[i]})
        if (effect != f.effect)
          return describe(i) + " is marked as " + effectName(effect) +
                 ", but is " + effectName(f.effect);
      if (f.open ? o.shape.size() < f.dims.size()
                 : o.shape.size() != f.dims.size())
        return describe(i) + " has " + std::to_string(o.shape.size()) +
               " dimensions, needs " + (f.open ? "at least " : "") +
               std::to_string(f.dims.size());
      for (int64_t d : o.shape)
        if (d < 1)
          return describe(i) + " has a dimension of " + std::to_string(d);
    }
    return "";
  }

  /// The product of the known factors; the unknown one, if any, in `unknown`.
  /// Nothing if two are unknown.
  std::optional<int64_t> evaluate(const std::string &product,
                                  std::string &unknown) const {
    int64_t value = 1;
    unknown.clear();
    for (const std::string &factor : split(product, "*")) {
      if (isdigit(factor[0])) {
        value *= std::stoll(factor);
      } else if (auto it = symbols.find(factor); it != symbols.end()) {
        value *= it->second;
      } else if (unknown.empty()) {
        unknown = factor;
      } else {
        return std::nullopt;
      }
    }
    return value;
  }

  /// Solves for the symbols, dimension by dimension until nothing is new, so
  /// that a product may come before what fixes its factors.
  std::string checkShapes() {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t i = 0; i < formals.size(); ++i)
        for (size_t axis = 0; axis < formals[i].dims.size(); ++axis) {
          const std::string &dim = formals[i].dims[axis];
          int64_t actual = operands[i].shape[axis];
          std::string unknown;
          std::optional<int64_t> known = evaluate(dim, unknown);
          if (!known)
            continue;
          if (unknown.empty() ? *known != actual : actual % *known != 0)
            return describe(i) + ": dimension " + std::to_string(axis) +
                   " is " + std::to_string(actual) + ", must be " + dim +
                   (unknown.empty() ? " = " : ", a multiple of ") +
                   std::to_string(*known);
          if (!unknown.empty()) {
            symbols[unknown] = actual / *known;
            progress = true;
          }
        }
    }
    std::optional<std::vector<int64_t>> rest;
    for (size_t i = 0; i < formals.size(); ++i) {
      if (!formals[i].open)
        continue;
      const std::vector<int64_t> &shape = operands[i].shape;
      std::vector<int64_t> own(shape.begin() + formals[i].dims.size(),
                               shape.end());
      if (rest && *rest != own)
        return describe(i) + " has another shape than an operand before it";
      rest = own;
    }
    return "";
  }

  std::string checkConditions() {
    for (const std::string &condition : split(signature.conditions, " ")) {
      size_t at = condition.find_first_of("|<");
      bool divides = condition[at] == '|';
      std::string left = condition.substr(0, at), unknown;
      std::string right = condition.substr(at + (divides ? 1 : 2));
      int64_t a = *evaluate(left, unknown), b = *evaluate(right, unknown);
      if (divides && b % a != 0)
        return right + " = " + std::to_string(b) + " must be a multiple of " +
               left + " = " + std::to_string(a);
      if (!divides && a > b)
        return left + " = " + std::to_string(a) + " must be at most " + right +
               " = " + std::to_string(b);
    }
    return "";
  }

  const Signature &signature;
  const Kernel &kernel;
  const std::vector<Operand> &operands;
  std::vector<Formal> formals;
  std::map<std::string, int64_t> symbols;
};

} // namespace

std::string kernels::match(const Signature &signature, const Kernel &kernel,
                           const std::vector<Operand> &operands) {
  return Matcher(signature, kernel, operands).run();
}
