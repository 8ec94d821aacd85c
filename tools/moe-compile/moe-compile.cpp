#include "dialects/Moe/MoeDialect.h"
#include "dialects/Sched/SchedDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "moe/Tools/MoeCompile.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, mlir::moe::MoeDialect,
                  mlir::sched::SchedDialect>();
  return mlir::failed(mlir::moe::moeCompileMain(argc, argv, registry));
}
