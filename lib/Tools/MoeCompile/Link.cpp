//===- Link.cpp - Linking a program with the runtime ----------------------===//

#include "Link.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace mlir::moe;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

static std::string below(StringRef folder, StringRef name) {
  SmallString<128> result(folder);
  path::append(result, name);
  return std::string(result);
}

std::string mlir::moe::findToolkit(StringRef given) {
  std::vector<std::string> folders;
  if (!given.empty()) {
    folders.push_back(given.str());
  } else {
    if (auto home = llvm::sys::Process::GetEnv("CUDA_HOME"))
      folders.push_back(*home);
    if (auto nvcc = llvm::sys::findProgramByName("nvcc")) {
      SmallString<128> real;
      if (!fs::real_path(*nvcc, real))
        folders.push_back(path::parent_path(path::parent_path(real)).str());
    }
  }
  for (const std::string &folder : folders)
    if (fs::exists(below(folder, "bin/ptxas")) &&
        fs::exists(below(folder, "bin/fatbinary")))
      return folder;
  return "";
}

/// The runtime's libraries lie beside the tools.
static std::string runtimeFolder() {
  static int anchor;
  std::string tool = fs::getMainExecutable(nullptr, &anchor);
  return below(path::parent_path(path::parent_path(tool)), "lib/runtime");
}

/// The compiler driver that built the runtime, or another one.
static std::string compiler() {
  if (auto named = llvm::sys::Process::GetEnv("CXX")) {
    auto found = llvm::sys::findProgramByName(*named);
    return found ? *found : *named;
  }
  for (StringRef name : {MOE_CXX_COMPILER, "clang++-22", "clang++", "c++"})
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
  return "c++";
}

std::vector<std::string> mlir::moe::linkLine(const LinkJob &job) {
  std::vector<std::string> line = {job.elsewhere ? "${CXX:-c++}" : compiler()};
  if (job.shared)
    line.insert(line.end(), {"-shared", "-fPIC"});
  line.insert(line.end(), job.objects.begin(), job.objects.end());
  std::string folder = job.elsewhere ? "\"$MOE_RUNTIME\"" : runtimeFolder();
  auto add = [&](StringRef library) {
    line.push_back(below(folder, ("lib" + library + ".a").str()));
  };
  if (job.runtime != LinkJob::Runtime::None) {
    // All of the C ABI, though nothing in the library calls it.
    if (job.shared)
      line.push_back("-Wl,--whole-archive");
    else
      add("MoeRtMain");
    add("MoeRtProgram");
    add(job.runtime == LinkJob::Runtime::Cuda ? "MoeRtCuda" : "MoeRtHost");
    if (job.shared)
      line.push_back("-Wl,--no-whole-archive");
  }
  if (job.runtime == LinkJob::Runtime::Cuda) {
    for (StringRef library : {"MoeCudaAttention", "MoeDeviceKernels"})
      add(library);
  }
  if (job.runtime != LinkJob::Runtime::None) {
    for (StringRef library : {"MoeRuntime", "MoeTable"})
      add(library);
    line.push_back("-lpthread");
  }
  if (job.runtime == LinkJob::Runtime::Cuda) {
    // Shared libraries, never libcuda: without a driver the program itself
    // says so. RUNPATH lets LD_LIBRARY_PATH come first.
    std::string libraries =
        below(job.elsewhere ? "\"$CUDA_HOME\"" : job.toolkit, "lib64");
    line.insert(line.end(), {"-L" + libraries, "-lcudart", "-lcublasLt",
                             "-lcudnn", "-lnccl", "-ldl",
                             "-Wl,--enable-new-dtags,-rpath," + libraries});
  }
  line.insert(line.end(), {"-o", job.output});
  return line;
}

/// The word as a shell reads it.
static std::string quoted(StringRef word) {
  if (llvm::all_of(word, [](char c) {
        return llvm::isAlnum(c) || StringRef("_-+./,:=@%").contains(c);
      }))
    return word.str();
  std::string result = "'";
  for (char c : word)
    result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

std::string mlir::moe::linkScript(const LinkJob &job) {
  LinkJob words = job;
  for (std::string &object : words.objects)
    object = quoted(object);
  words.output = quoted(job.output);
  words.toolkit = quoted(job.toolkit);
  return llvm::join(linkLine(words), " ");
}

std::string mlir::moe::link(const LinkJob &job) {
  if (job.runtime == LinkJob::Runtime::Cuda &&
      !fs::exists(below(runtimeFolder(), "libMoeRtCuda.a")))
    return "this build has no CUDA runtime: configure it where the CUDA "
           "toolkit is";
  // A device would be replaced by the program.
  if (fs::exists(job.output) && !fs::is_regular_file(job.output))
    return job.output + ": is there and is no file";
  SmallString<128> temporary;
  if (std::error_code code = fs::createUniqueFile(
          job.output + ".%%%%%%", temporary, fs::all_read | fs::all_write))
    return job.output + ": " + code.message();
  LinkJob partial = job;
  partial.output = std::string(temporary);
  std::vector<std::string> line = linkLine(partial);
  SmallVector<StringRef> arguments(line.begin(), line.end());
  std::string reason;
  int status = llvm::sys::ExecuteAndWait(line[0], arguments, std::nullopt, {},
                                         0, 0, &reason);
  if (status == 0) {
    if (std::error_code code = fs::rename(temporary, job.output))
      reason = job.output + ": " + code.message();
    else
      return "";
  }
  // If that fails, too, the first error is the one to tell.
  (void)fs::remove(temporary);
  return "linking failed" + (reason.empty() ? "" : ": " + reason) + ": " +
         llvm::join(line, " ");
}
