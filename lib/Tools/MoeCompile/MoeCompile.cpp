//===- MoeCompile.cpp - Executables of schedules --------------------------===//

#include "moe/Tools/MoeCompile.h"

#include "Link.h"
#include "dialects/Moe/MoeOps.h"
#include "mlir/IR/AsmState.h"
#include "moe/Target/CudaKernels.h"
#include "moe/Target/HostKernels.h"
#include "moe/Target/Program.h"
#include "moe/Target/Table.h"
#include "moe/Tools/ScheduleFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

namespace {

enum class Machine { Host, H100, GB200 };
enum class Form { Executable, Shared, Object, Twins };

struct Options {
  cl::OptionCategory category{"moe-compile"};
  cl::opt<std::string> input{cl::Positional, cl::Required,
                             cl::desc("<schedule.mlir | table.json>"),
                             cl::cat(category)};
  cl::opt<std::string> output{"o", cl::Required, cl::desc("Output file"),
                              cl::value_desc("file"), cl::cat(category)};
  cl::opt<Machine> target{
      "target", cl::Required, cl::desc("What it runs on"),
      cl::values(
          clEnumValN(Machine::Host, "host", "CPUs, all ranks in one process"),
          clEnumValN(Machine::H100, "h100", "CUDA and NCCL, a process a GPU"),
          clEnumValN(Machine::GB200, "gb200",
                     "the same; its hosts are Arm (see --host-triple)")),
      cl::cat(category)};
  cl::opt<Form> emit{
      "emit", cl::desc("What is made (default exe)"),
      cl::values(clEnumValN(Form::Executable, "exe", "an executable"),
                 clEnumValN(Form::Shared, "shared",
                            "a shared library with the C ABI of moe_rt.h"),
                 clEnumValN(Form::Object, "object",
                            "object files; the link line is printed"),
                 clEnumValN(Form::Twins, "twins",
                            "host twins of the generated kernels, for the "
                            "stand-in of the CUDA libraries")),
      cl::init(Form::Executable), cl::cat(category)};
  cl::opt<std::string> hostTriple{
      "host-triple",
      cl::desc("Machine that the program, or twins, run on (default: x86-64 "
               "for h100, Arm for gb200, else this one; another than this one: "
               "objects only)"),
      cl::cat(category)};
  cl::opt<std::string> toolkit{
      "toolkit",
      cl::desc("Folder of the CUDA toolkit (default: CUDA_HOME, or "
               "that of nvcc)"),
      cl::cat(category)};
  cl::opt<bool> noVerify{"no-verify",
                         cl::desc("Compile without proving the schedule"),
                         cl::cat(category)};

  bool cuda() const { return target != Machine::Host; }
};

LogicalResult error(const Twine &message) {
  llvm::errs() << "moe-compile: error: " << message << "\n";
  return failure();
}

/// Removes its files unless they are what was asked for.
class Scratch {
public:
  ~Scratch() {
    for (const std::string &file : files)
      (void)llvm::sys::fs::remove(file);
  }

  /// Writes a new object file with `write`.
  template <typename F> FailureOr<std::string> object(StringRef name, F write) {
    int handle;
    SmallString<128> path;
    if (std::error_code code = llvm::sys::fs::createTemporaryFile(
            "moe-compile-" + name, "o", handle, path))
      return error("no temporary file: " + code.message());
    files.push_back(std::string(path));
    llvm::raw_fd_ostream stream(handle, /*shouldClose=*/true);
    if (failed(write(stream)))
      return failure();
    stream.flush();
    if (stream.has_error())
      return error(path + ": " + stream.error().message());
    return files.back();
  }

private:
  std::vector<std::string> files;
};

std::string defaultTriple(const Options &options) {
  if (!options.hostTriple.empty())
    return llvm::Triple::normalize(options.hostTriple);
  if (options.emit == Form::Twins)
    return llvm::sys::getDefaultTargetTriple();
  if (options.target == Machine::GB200)
    return "aarch64-unknown-linux-gnu";
  if (options.target == Machine::H100)
    return "x86_64-unknown-linux-gnu";
  return llvm::sys::getDefaultTargetTriple();
}

bool isThisMachine(StringRef triple) {
  llvm::Triple wanted(triple), own(llvm::sys::getDefaultTargetTriple());
  return wanted.getArch() == own.getArch() && wanted.getOS() == own.getOS();
}

/// The program, and the code of its kernels.
LogicalResult compile(ScheduleFile &schedule, const Options &options,
                      StringRef toolkit, StringRef triple, Scratch &scratch,
                      std::vector<std::string> &objects) {
  StringRef other = isThisMachine(triple) ? "" : triple;
  ModuleOp module = schedule.getModule();
  OwningOpRef<ModuleOp> kernels;
  if (module) {
    FailureOr<OwningOpRef<ModuleOp>> generated = schedule.generateKernels();
    if (failed(generated))
      return failure();
    kernels = std::move(*generated);
  } else if (options.cuda() || options.emit == Form::Twins) {
    return error(options.input + ": a table has no code for the kernels that "
                                 "are compiled from the program; give the "
                                 "module that it was exported from");
  }
  if (options.emit == Form::Twins) {
    FailureOr<std::string> twins =
        scratch.object("twins", [&](llvm::raw_pwrite_stream &stream) {
          return emitTwinObject(*kernels, other, stream);
        });
    if (failed(twins))
      return failure();
    objects.push_back(*twins);
    return success();
  }

  std::vector<std::string> generated;
  for (const moert::Kernel &kernel : schedule.getTable().kernels)
    if (kernel.provider == moert::Provider::Generated)
      generated.push_back(kernel.name);
  ProgramObject program;
  if (options.cuda() && !generated.empty()) {
    FailureOr<std::string> image = emitCudaImage(*kernels, toolkit);
    if (failed(image))
      return failure();
    program.image = std::move(*image);
  } else if (!options.cuda() && kernels) {
    program.hostKernels = generated;
    FailureOr<std::string> code =
        scratch.object("kernels", [&](llvm::raw_pwrite_stream &stream) {
          return emitHostObject(*kernels, other, stream);
        });
    if (failed(code))
      return failure();
    objects.push_back(*code);
  }
  program.table = moert::toJson(schedule.getTable());
  FailureOr<std::string> data =
      scratch.object("program", [&](llvm::raw_pwrite_stream &stream) {
        std::string reason = emitProgramObject(program, triple, stream);
        return reason.empty() ? success() : error(reason);
      });
  if (failed(data))
    return failure();
  objects.push_back(*data);
  return success();
}

/// Copies the objects beside the output and says how to link them.
LogicalResult keepObjects(const Options &options, const LinkJob &job,
                          StringRef triple) {
  LinkJob kept = job;
  kept.objects.clear();
  kept.output = options.output;
  for (auto [i, object] : llvm::enumerate(job.objects)) {
    std::string path = options.output + (i ? ".kernels.o" : ".o");
    if (job.objects.size() == 2)
      path = options.output + (i ? ".o" : ".kernels.o");
    if (std::error_code code = llvm::sys::fs::copy_file(object, path))
      return error(path + ": " + code.message());
    kept.objects.push_back(path);
  }
  llvm::errs() << "moe-compile: wrote " << llvm::join(kept.objects, ", ")
               << " for " << triple << "; link there";
  if (job.elsewhere && job.runtime != LinkJob::Runtime::None)
    llvm::errs() << ", with MOE_RUNTIME naming lib/runtime of a build of this "
                    "project there (MOE_RUNTIME_ONLY will do)";
  if (job.elsewhere && job.runtime == LinkJob::Runtime::Cuda)
    llvm::errs() << " and CUDA_HOME the toolkit";
  llvm::errs() << ":\n";
  llvm::outs() << linkScript(kept) << "\n";
  return success();
}

} // namespace

LogicalResult moe::moeCompileMain(int argc, char **argv,
                                  DialectRegistry &registry) {
  // Of libLLVM's options none is ours, and some have our names.
  cl::ResetCommandLineParser();
  Options options;
  cl::HideUnrelatedOptions(options.category);
  cl::ParseCommandLineOptions(
      argc, argv, "moe-compile: make an executable of a schedule\n");
  std::string triple = defaultTriple(options);
  if (!llvm::Triple(triple).isOSLinux())
    return error("--host-triple=" + options.hostTriple +
                 ": the runtime is for Linux; nearest is " +
                 llvm::Triple::getArchTypeName(llvm::Triple(triple).getArch()) +
                 "-linux-gnu");
  LinkJob job;
  job.shared = options.emit == Form::Shared || options.emit == Form::Twins;
  job.runtime = options.emit == Form::Twins ? LinkJob::Runtime::None
                : options.cuda()            ? LinkJob::Runtime::Cuda
                                            : LinkJob::Runtime::Host;
  if (options.cuda() && options.emit != Form::Twins) {
    job.toolkit = findToolkit(options.toolkit);
    if (job.toolkit.empty())
      return error(options.toolkit.empty()
                       ? "needs the CUDA toolkit 13 (nvcc, ptxas, fatbinary, "
                         "cuBLASLt, cuDNN, NCCL): put nvcc on PATH, or name "
                         "its folder by CUDA_HOME or --toolkit"
                       : options.toolkit + ": no CUDA toolkit is there "
                                           "(bin/ptxas, bin/fatbinary)");
  }

  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  ScheduleFile schedule("moe-compile", sources);
  if (failed(schedule.read(options.input, context)))
    return failure();
  if (!options.noVerify &&
      failed(proveSchedule(schedule.getTable(), schedule.getModule(), &context,
                           llvm::errs())))
    return failure();
  Scratch scratch;
  if (failed(compile(schedule, options, job.toolkit, triple, scratch,
                     job.objects)))
    return failure();
  job.elsewhere = !isThisMachine(triple);
  if (options.emit == Form::Object || job.elsewhere)
    return keepObjects(options, job, triple);
  job.output = options.output;
  std::string reason = link(job);
  return reason.empty() ? success() : error(reason);
}
