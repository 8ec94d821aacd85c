#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "moe/Import/HuggingFace.h"
#include "moe/Target/CudaKernels.h"
#include "moe/Target/Table.h"

int main(int argc, char **argv) {
  mlir::moe::registerTranslations();
  mlir::moe::registerTableTranslations();
  mlir::moe::registerCudaTranslations();
  return mlir::failed(
      mlir::mlirTranslateMain(argc, argv, "moe-translate: import and export"));
}
