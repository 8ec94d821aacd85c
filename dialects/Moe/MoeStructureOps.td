//===- MoeStructureOps.td - Templates, model, training loop ---*- tablegen -*-===//

#ifndef MOE_STRUCTURE_OPS_TD
#define MOE_STRUCTURE_OPS_TD

include "dialects/Moe/MoeBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

class Moe_FunctionOp<string mnemonic, list<Trait> traits = [],
                     string declarations = "">
    : Moe_Op<mnemonic, !listconcat([FunctionOpInterface, IsolatedFromAbove,
        SingleBlock], traits)> {
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    Region *getCallableRegion() { return &getBody(); }
    ArrayRef<Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ArrayRef<Type> getResultTypes() { return getFunctionType().getResults(); }
    ReturnOp getReturn();
  }] # declarations;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "StringRef":$name, "FunctionType":$type)>];
}

def Moe_LayerOp : Moe_FunctionOp<"layer", [], [{
    /// Whether the index of the application tells its parameters apart (some
    /// pattern names `{i}`): a repeated layer, that pipeline stages share out.
    bool isIndexed();
  }]> {
  let summary = "Template of a layer, applied by programs";
  let description = [{
    The first argument and result are carried from layer to layer. Parameters
    are declared inside by name pattern. After differentiation it holds one
    `moe.backward`.

    ```mlir
    moe.layer @head(%h: tensor<16x32xf32>, %labels: tensor<16xi32>)
        -> tensor<1xf32> {
      %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal
          : tensor<64x32xf32>
      %z = moe.linear %h, %w module(head)
          : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
      %loss = moe.cross_entropy %z, %labels module(head) {scale = 6.25e-02 : f64}
          : (tensor<16x64xf32>, tensor<16xi32>) -> tensor<1xf32>
      moe.return %loss : tensor<1xf32>
    }
    ```
  }];
}

def Moe_ModelOp : Moe_FunctionOp<"model"> {
  let summary = "The model: layers applied to one micro-batch";
  let description = [{
    Arguments are the token ids i32 [T] and labels i32 [T] of a micro-batch;
    the result is its part of the loss.
  }];
}

def Moe_ReturnOp : Moe_Op<"return", [Pure, ReturnLike, Terminator,
    ParentOneOf<["LayerOp", "ModelOp"]>]> {
  let summary = "Results of a layer or model";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let hasVerifier = 1;
}

def Moe_ParamOp : Moe_Op<"param", [Pure,
    ParentOneOf<["LayerOp", "BackwardOp"]>]> {
  let summary = "A parameter of the layer, by the names it is stored under";
  let description = [{
    `{i}` in a pattern is the index of the application; `{e}` stacks the
    experts along dimension 0; several patterns are concatenated along the
    rows of what each stores (for stacked ones: per expert). Equal patterns
    are the same parameter: so the backward region, and tied embeddings,
    re-declare it.

    ```mlir
    %w = moe.param ["model.layers.{i}.mlp.experts.{e}.gate_proj.weight",
                    "model.layers.{i}.mlp.experts.{e}.up_proj.weight"]
        dims [experts, gate_up_width, hidden] init normal
        : tensor<8x128x64xf32>
    ```
  }];
  let arguments = (ins StrArrayAttr:$patterns,
                       TypedArrayAttrBase<Moe_DimRoleAttr, "roles">:$dims,
                       Moe_InitAttr:$init);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = [{
    $patterns `dims` custom<Dims>($dims) `init` custom<InitKind>($init)
    attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The first pattern: identifies the parameter within its layer.
    StringRef getKey() { return cast<StringAttr>(getPatterns()[0]).getValue(); }
  }];
}

def Moe_GradOp : Moe_Op<"grad", [Pure, HasParent<"BackwardOp">]> {
  let summary = "Gradient accumulator of the parameter with these patterns";
  let description = [{
    Its value so far, f32, of the parameter's local shape. The sum goes to
    `moe.backward_return`, in the order of the `moe.grad` ops.
  }];
  let arguments = (ins StrArrayAttr:$patterns);
  let results = (outs Moe_Tensor:$result);
  let assemblyFormat = "$patterns attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    StringRef getKey() { return cast<StringAttr>(getPatterns()[0]).getValue(); }
  }];
}

def Moe_BackwardOp : Moe_Op<"backward", [IsolatedFromAbove, SingleBlock,
    HasParent<"LayerOp">]> {
  let summary = "Backward of the layer; its operands are what forward saves";
  let description = [{
    Block arguments: the cotangents of the layer's float results, then the
    saved values. Isolated, so that a recomputed value can't be merged with
    the forward's.

    ```mlir
    moe.backward saved(%x : tensor<16x32xf32>) {
    ^bb0(%dy: tensor<16x32xf32>, %sx: tensor<16x32xf32>):
      %w = moe.param ["w"] dims [hidden, hidden] init normal : tensor<32x32xf32>
      %g = moe.grad ["w"] : tensor<32x32xf32>
      %dx = moe.linear_dgrad %dy, %w module(attn) : ...
      %g1 = moe.linear_wgrad %sx, %dy, %g module(attn) : ...
      moe.backward_return %dx grads(%g1) : tensor<16x32xf32>, tensor<32x32xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Moe_Any>:$saved);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`saved` `(` $saved^ `:` type($saved) `)`)? $body attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Number of cotangents: block arguments before the saved values.
    unsigned getNumCotangents() {
      return getBody().getNumArguments() - getSaved().size();
    }
    BlockArgument getCotangent(unsigned i) { return getBody().getArgument(i); }
    BlockArgument getSavedArgument(unsigned i) {
      return getBody().getArgument(getNumCotangents() + i);
    }
    BackwardReturnOp getReturn();
  }];
}

def Moe_BackwardReturnOp : Moe_Op<"backward_return", [Pure, ReturnLike,
    Terminator, AttrSizedOperandSegments, HasParent<"BackwardOp">]> {
  let summary = "Cotangents of the layer's float arguments; gradient sums";
  let arguments = (ins Variadic<Moe_Tensor>:$cotangents,
                       Variadic<Moe_Tensor>:$grads);
  let assemblyFormat = [{
    ($cotangents^ `:` type($cotangents))?
    (`grads` `(` $grads^ `:` type($grads) `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

def Moe_ApplyOp : Moe_Op<"apply", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Apply a layer template for a range of indices";
  let description = [{
    The first operand and result are carried through the range; the other
    operands are shared by all applications. `stage` is the pipeline stage
    that holds the range. In training IR a last result
    `!moe.saved<@layer>` is what backward needs.

    ```mlir
    %h1 = moe.apply @decoder [0 to 48] (%h) : (tensor<16x32xf32>) -> tensor<16x32xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$layer, I64Attr:$lower, I64Attr:$upper,
                       OptionalAttr<I64Attr>:$stage,
                       Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyType>:$outputs);
  let assemblyFormat = [{
    $layer ` ` `[` $lower `to` $upper `]` (`stage` $stage^)? `(` $inputs `)`
    attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Moe_ApplyBackwardOp : Moe_Op<"apply_backward", [
    AllTypesMatch<["grads", "sums"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Backward of an apply: last index first";
  let description = [{
    Takes the cotangents of the layer's float results, the saved values of the
    apply and the gradient sums so far; gives the cotangents of the float
    arguments and the new sums.

    ```mlir
    %dh0, %g1 = moe.apply_backward @decoder [0 to 48] (%dh) saved(%s) grads(%g : ...)
        : (tensor<16x32xf32>) -> tensor<16x32xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$layer, I64Attr:$lower, I64Attr:$upper,
                       OptionalAttr<I64Attr>:$stage,
                       Variadic<Moe_Tensor>:$cotangents,
                       Moe_SavedType:$saved, Moe_GradsType:$grads);
  let results = (outs Variadic<Moe_Tensor>:$results, Moe_GradsType:$sums);
  let assemblyFormat = [{
    $layer ` ` `[` $lower `to` $upper `]` (`stage` $stage^)? `(` $cotangents `)`
    `saved` `(` $saved `:` type($saved) `)`
    `grads` `(` $grads `:` type($grads) `)`
    attr-dict `:` functional-type($cotangents, $results)
  }];
}

def Moe_TrainOp : Moe_Op<"train", [IsolatedFromAbove, Symbol, SingleBlock,
    NoTerminator]> {
  let summary = "A training step";
  let description = [{
    Zero gradients, the loop over this rank's micro-batches, the optimizer.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $body attr-dict";
}

def Moe_ZeroGradsOp : Moe_Op<"zero_grads", [Pure]> {
  let summary = "Gradient sums of a range of layers, zero";
  let arguments = (ins I64Attr:$lower, I64Attr:$upper,
                       OptionalAttr<I64Attr>:$stage);
  let results = (outs Moe_GradsType:$result);
  let assemblyFormat = [{
    `[` $lower `to` $upper `]` (`stage` $stage^)? attr-dict `:` type($result)
  }];
}

def Moe_MicroBatchesOp : Moe_Op<"micro_batches", [SingleBlock]> {
  let summary = "Loop over the micro-batches of a step, in order";
  let description = [{
    Block arguments: token ids i32 [T], labels i32 [T], then one per initial
    value. The terminator gives the next values; `loss` of the terminator is
    summed over micro-batches (and ranks).
  }];
  let arguments = (ins I64Attr:$count, Variadic<Moe_GradsType>:$initial);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Moe_Tensor:$loss, Variadic<Moe_GradsType>:$sums);
  let assemblyFormat = [{
    $count (`init` `(` $initial^ `:` type($initial) `)`)? $body attr-dict
    `:` type(results)
  }];
  let hasVerifier = 1;
}

def Moe_YieldOp : Moe_Op<"yield", [Pure, ReturnLike, Terminator,
    HasParent<"MicroBatchesOp">]> {
  let summary = "Loss and gradient sums after a micro-batch";
  let arguments = (ins Moe_Tensor:$loss, Variadic<Moe_GradsType>:$sums);
  let assemblyFormat = [{
    $loss `:` type($loss) (`sums` `(` $sums^ `:` type($sums) `)`)? attr-dict
  }];
}

def Moe_OptimizerOp : Moe_Op<"optimizer", []> {
  let summary = "AdamW over flat data-parallel shards";
  let description = [{
    Reduce-scatters the gradients (dense ones over dp, experts' over edp),
    takes the norm over all of them, updates the f32 master shards, gathers
    the parameters. Commits nothing if a capacity overflowed.
  }];
  let arguments = (ins Variadic<Moe_GradsType>:$grads,
    F64Attr:$lr, F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps,
    F64Attr:$weight_decay, F64Attr:$clip);
  let assemblyFormat = "($grads^ `:` type($grads))? attr-dict";
}

#endif // MOE_STRUCTURE_OPS_TD
