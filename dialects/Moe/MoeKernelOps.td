//===- MoeKernelOps.td - Kernels and their calls --------------*- tablegen -*-===//

#ifndef MOE_KERNEL_OPS_TD
#define MOE_KERNEL_OPS_TD

include "dialects/Moe/MoeBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Moe_KernelOp : Moe_Op<"kernel", [IsolatedFromAbove, Symbol, SingleBlock,
    NoTerminator, AutomaticAllocationScope]> {
  let summary = "A kernel: what a launch runs";
  let description = [{
    `op` is the library entry (include/moe/Runtime/Kernels.h); a generated
    kernel has a body, a block over memrefs: inputs, then outputs (`!moe.rows<E>`
    is a `memref<Exi32>`). Cost is that of the sizes the program was imported
    with; `--shrink` leaves it. With `accumulates` the last input is updated in
    place and is the result: it is one argument of the body.

    ```mlir
    moe.kernel @linear_0 op "linear" {flops = 1.0e+09 : f64, bytes = 1.0e+06 : f64,
        numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
        : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$op,
                       TypeAttrOf<FunctionType>:$function_type,
                       Moe_NumericClassAttr:$numeric_class,
                       F64Attr:$flops, F64Attr:$bytes,
                       DictionaryAttr:$numbers, UnitAttr:$accumulates);
  let regions = (region MaxSizedRegion<1>:$body);
  let extraClassDeclaration = [{
    /// The types of the body's arguments.
    SmallVector<Type> getBodyArgumentTypes();
  }];
  let assemblyFormat = [{
    $sym_name `op` $op attr-dict `:` $function_type ($body^)?
  }];
  let hasVerifier = 1;
}

def Moe_CallOp : Moe_Op<"call", [Pure,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Run a kernel on values";
  let description = [{
    A clone calls the same kernel, so recompute can't change bits.

    ```mlir
    %y = moe.call @linear_0(%x, %w) module(attn)
        : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Moe_Any>:$inputs,
                       Moe_ModuleAttr:$module);
  let results = (outs Variadic<Moe_Any>:$outputs);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` `module` `` $module attr-dict
    `:` functional-type($inputs, $outputs)
  }];
}

#endif // MOE_KERNEL_OPS_TD
