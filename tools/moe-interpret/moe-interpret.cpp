//===- moe-interpret.cpp - The reference interpreter as a program ---------===//

#include "dialects/Moe/MoeDialect.h"
#include "dialects/Sched/SchedDialect.h"
#include "mlir/Parser/Parser.h"
#include "moe/Interpret/Interpreter.h"
#include "moe/Runtime/Safetensors.h"
#include "moe/Support/Phase.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

static cl::OptionCategory category("moe-interpret");
static cl::opt<std::string> input(cl::Positional, cl::desc("<module>"),
                                  cl::init("-"), cl::cat(category));
static cl::opt<std::string>
    weights("weights",
            cl::desc("Start from the tensors of this .safetensors "
                     "file, by their Hugging Face names"),
            cl::value_desc("file"), cl::cat(category));
static cl::opt<std::string>
    tokens("tokens",
           cl::desc("Take tokens [steps][samples][sequence + 1] from the only "
                    "tensor of this .safetensors file"),
           cl::value_desc("file"), cl::cat(category));
static cl::opt<uint64_t>
    seed("seed", cl::desc("Seed of what --weights and --tokens do not give"),
         cl::init(0), cl::cat(category));
static cl::opt<int64_t> steps("steps", cl::desc("Steps to run"), cl::init(1),
                              cl::cat(category));
static cl::opt<std::string>
    saveGradients("save-gradients",
                  cl::desc("Write the gradients of the last step"),
                  cl::value_desc("file"), cl::cat(category));
static cl::opt<std::string> save("save",
                                 cl::desc("Write the parameters at the end"),
                                 cl::value_desc("file"), cl::cat(category));

static LogicalResult error(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "moe-interpret") << message << "\n";
  return failure();
}

/// All tokens of the file, one step after the other; empty without --tokens.
static LogicalResult readTokens(int64_t perStep, std::vector<int64_t> &values) {
  if (tokens.empty())
    return success();
  std::vector<moert::NamedIntegers> tensors;
  std::string message;
  if (!moert::readSafetensors(tokens, tensors, message))
    return error(message);
  if (tensors.size() != 1)
    return error(tokens + ": expected one tensor, but there are " +
                 llvm::Twine(tensors.size()));
  values = tensors[0].values;
  int64_t given = values.size();
  if (steps > given / perStep)
    return error(tokens + ": " + llvm::Twine(steps) + " steps need " +
                 llvm::Twine(perStep) + " tokens each, but there are " +
                 llvm::Twine(given) + "; --steps may be at most " +
                 llvm::Twine(given / perStep));
  for (int64_t value : values)
    if (value != static_cast<int32_t>(value))
      return error(tokens + ": has the value " + llvm::Twine(value) +
                   ", which is no token");
  return success();
}

static moert::NamedTensor named(const std::string &name,
                                const StoredTensor &tensor) {
  return {name, tensor.shape,
          std::vector<float>(tensor.values.begin(), tensor.values.end())};
}

static LogicalResult write(const std::string &path,
                           const std::vector<moert::NamedTensor> &tensors) {
  std::string message;
  if (path.empty() || moert::writeSafetensors(path, tensors, message))
    return success();
  return error(message);
}

static LogicalResult setParameters(Interpreter &interpreter) {
  if (weights.empty())
    return interpreter.initialize(seed);
  std::vector<moert::NamedTensor> tensors;
  std::string message;
  if (!moert::readSafetensors(weights, tensors, message))
    return error(message);
  return interpreter.setParameters(tensors);
}

static LogicalResult run(ModuleOp module) {
  if (steps < 1)
    return error("--steps must be at least 1, but is " + llvm::Twine(steps));
  FailureOr<std::unique_ptr<Interpreter>> created = Interpreter::create(module);
  FailureOr<Phase> phase = getPhase(module);
  if (failed(phase) || failed(created))
    return failure();
  Interpreter &interpreter = **created;
  std::vector<int64_t> given;
  int64_t perStep = interpreter.tokenCount();
  if (failed(setParameters(interpreter)) || failed(readTokens(perStep, given)))
    return failure();
  for (int64_t i = 0; i < steps; ++i) {
    FailureOr<std::vector<int32_t>> now;
    if (tokens.empty())
      now = interpreter.randomTokens(seed, i);
    else
      now = std::vector<int32_t>(given.begin() + i * perStep,
                                 given.begin() + (i + 1) * perStep);
    if (failed(now))
      return failure();
    if (*phase == Phase::Training) {
      FailureOr<InterpretedStep> step = interpreter.step(*now);
      if (failed(step))
        return failure();
      llvm::outs() << llvm::format("step %lld loss %.9g grad_norm %.9g\n",
                                   static_cast<long long>(i + 1), step->loss,
                                   step->gradNorm);
    } else {
      FailureOr<double> loss = interpreter.forward(*now);
      if (failed(loss))
        return failure();
      llvm::outs() << llvm::format("step %lld loss %.9g\n",
                                   static_cast<long long>(i + 1), *loss);
    }
  }
  std::vector<moert::NamedTensor> parameters, gradients;
  for (const std::string &name : interpreter.parameterNames())
    parameters.push_back(named(name, *interpreter.parameter(name)));
  for (auto &[name, gradient] : interpreter.gradients())
    gradients.push_back(named(name, gradient));
  return success(succeeded(write(saveGradients, gradients)) &&
                 succeeded(write(save, parameters)));
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "moe-interpret: the reference interpreter of model, spmd and training "
      "IR\n\nPrints the loss of each step; training IR is trained.\n");
  MLIRContext context;
  context.printOpOnDiagnostic(false);
  // sched only to say that it is not interpreted.
  context.loadDialect<MoeDialect, mlir::sched::SchedDialect>();
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(input, sources, ParserConfig(&context));
  return !module || failed(run(*module));
}
