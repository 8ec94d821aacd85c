//===- Link.h - Linking a program with the runtime --------------*- C++ -*-===//

#ifndef MOE_LIB_TOOLS_MOECOMPILE_LINK_H
#define MOE_LIB_TOOLS_MOECOMPILE_LINK_H

#include "mlir/Support/LLVM.h"

#include <string>
#include <vector>

namespace mlir::moe {

struct LinkJob {
  enum class Runtime { None, Host, Cuda };

  std::vector<std::string> objects;
  std::string output;
  /// A shared library; else an executable with the runtime's main.
  bool shared = false;
  Runtime runtime = Runtime::Host;
  /// Folder of the CUDA toolkit, for Runtime::Cuda.
  std::string toolkit;
  /// Linked on another machine: its shell knows the compiler (CXX) and the
  /// folders of runtime and toolkit (MOE_RUNTIME, CUDA_HOME).
  bool elsewhere = false;
};

/// The folder of the toolkit: `given`, or CUDA_HOME, or that of nvcc on PATH.
/// Empty: none has ptxas and fatbinary.
std::string findToolkit(StringRef given);

/// The compiler driver and its arguments.
std::vector<std::string> linkLine(const LinkJob &job);

/// The same for a shell.
std::string linkScript(const LinkJob &job);

/// Links; the output appears whole or not at all. Returns why it can't; empty:
/// done.
std::string link(const LinkJob &job);

} // namespace mlir::moe

#endif // MOE_LIB_TOOLS_MOECOMPILE_LINK_H
