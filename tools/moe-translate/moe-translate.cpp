#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "moe/Import/HuggingFace.h"

int main(int argc, char **argv) {
  mlir::moe::registerTranslations();
  return mlir::failed(
      mlir::mlirTranslateMain(argc, argv, "moe-translate: import and export"));
}
