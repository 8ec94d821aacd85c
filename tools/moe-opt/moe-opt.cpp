#include "dialects/Moe/MoeDialect.h"
#include "dialects/Sched/SchedDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "moe/Pipelines/FrontDoor.h"
#include "moe/Pipelines/Passes.h"
#include "moe/Transforms/Kernels/Passes.h"
#include "moe/Transforms/Sched/Passes.h"
#include "moe/Transforms/Spmd/Passes.h"
#include "moe/Transforms/Training/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Debug.h"
#include "llvm/Support/InitLLVM.h"

#ifndef NDEBUG
// libLLVM.so is built without assertions and so does not register this flag.
static void enableDebugType(const std::string &type) {
  static std::vector<std::string> storage;
  storage.push_back(type);
  std::vector<const char *> types;
  for (const std::string &name : storage)
    types.push_back(name.c_str());
  llvm::DebugFlag = true;
  llvm::setCurrentDebugTypes(types.data(), types.size());
}
static llvm::cl::list<std::string> debugOnly(
    "debug-only", llvm::cl::CommaSeparated,
    llvm::cl::desc("Print the debug output of these types"),
    llvm::cl::callback([](const std::string &type) { enableDebugType(type); }));
#endif

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, mlir::moe::MoeDialect,
                  mlir::sched::SchedDialect>();
  // The bodies of generated kernels.
  registry.insert<mlir::arith::ArithDialect, mlir::gpu::GPUDialect,
                  mlir::linalg::LinalgDialect, mlir::math::MathDialect,
                  mlir::memref::MemRefDialect, mlir::NVVM::NVVMDialect,
                  mlir::scf::SCFDialect, mlir::vector::VectorDialect>();
  mlir::registerTransformsPasses();
  mlir::moe::registerMoeTransformsKernelsPasses();
  mlir::moe::registerMoeTransformsSchedPasses();
  mlir::moe::registerMoeTransformsSpmdPasses();
  mlir::moe::registerMoeTransformsTrainingPasses();
  mlir::moe::registerMoePipelinesPasses();
  mlir::moe::registerFrontDoor();

  llvm::InitLLVM init(argc, argv);
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "moe-opt: schedules of Mixture-of-Experts training\n",
      registry);
  return mlir::asMainReturnCode(
      mlir::moe::hasFrontDoorFlags()
          ? mlir::moe::runFrontDoor(input, output, registry)
          : mlir::MlirOptMain(argc, argv, input, output, registry));
}
