//===- TranslateCuda.cpp - moe-translate: generated kernels ---------------===//

#include "dialects/Moe/MoeDialect.h"
#include "moe/Target/CudaKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace mlir::moe;

static void registerBodies(DialectRegistry &registry) {
  registry.insert<MoeDialect, arith::ArithDialect, linalg::LinalgDialect,
                  math::MathDialect, memref::MemRefDialect, scf::SCFDialect>();
}

static LogicalResult print(FailureOr<std::string> text, raw_ostream &output) {
  if (failed(text))
    return failure();
  output << *text;
  return success();
}

void moe::registerCudaTranslations() {
  static llvm::cl::opt<std::string> chip(
      "cuda-chip", llvm::cl::desc("Chip that --emit-ptx is for"),
      llvm::cl::init(cudaChips().front().name.str()));
  static llvm::cl::opt<std::string> toolkit(
      "cuda-toolkit",
      llvm::cl::desc("Folder of the CUDA toolkit, for --emit-cuda-image"),
      llvm::cl::init("/usr/local/cuda"));
  static TranslateFromMLIRRegistration ptx(
      "emit-ptx", "generated kernels of a module to PTX, for reading",
      [](Operation *op, raw_ostream &output) -> LogicalResult {
        for (const CudaChip &known : cudaChips())
          if (known.name == chip)
            return print(emitPtx(cast<ModuleOp>(op), known), output);
        InFlightDiagnostic error = op->emitError("no chip '") << chip << "'";
        for (const CudaChip &known : cudaChips())
          error << (&known == cudaChips().begin() ? "; there is " : ", ")
                << known.name;
        return error;
      },
      registerBodies);
  static TranslateFromMLIRRegistration image(
      "emit-cuda-image", "generated kernels of a module to a fat binary",
      [](Operation *op, raw_ostream &output) {
        return print(emitCudaImage(cast<ModuleOp>(op), toolkit), output);
      },
      registerBodies);
}
