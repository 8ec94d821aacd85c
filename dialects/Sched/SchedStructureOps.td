//===- SchedStructureOps.td - Job, streams, templates, programs -*- tablegen -*-===//

#ifndef SCHED_STRUCTURE_OPS_TD
#define SCHED_STRUCTURE_OPS_TD

include "dialects/Sched/SchedBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

defvar Sched_Positive = ConfinedAttr<I64Attr, [IntPositive]>;
defvar Sched_One = DefaultValuedAttr<I64Attr, "1">;

def Sched_JobOp : Sched_Op<"job", [IsolatedFromAbove, SymbolTable, SingleBlock,
    NoTerminator, HasParent<"::mlir::ModuleOp">]> {
  let summary = "A schedule for all ranks";
  let description = [{
    The whole table: what it needs of streams, communicators and kernels, its
    templates, and a program per class of ranks. Sizes are of a step of one
    rank: micro-batches, samples of a micro-batch, tokens of a sample.

    ```mlir
    sched.job "qwen3" target "h100x16" ranks(16) micro_batches(64)
        sequence(4096) data_parallel(16) vocabulary(151936)
        memory_limit(81604378624) {
      sched.stream @compute
      ...
    }
    ```
  }];
  let arguments = (ins StrAttr:$model, Sched_String:$target, Sched_One:$ranks,
    Sched_One:$micro_batches, Sched_One:$micro_batch_samples,
    Sched_One:$sequence, Sched_One:$data_parallel, Sched_One:$vocabulary,
    DefaultValuedAttr<F64Attr, "0.02">:$init_std,
    DefaultValuedAttr<I64Attr, "0">:$memory_limit);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $model (`target` $target^)? (`ranks` `(` $ranks^ `)`)?
    (`micro_batches` `(` $micro_batches^ `)`)?
    (`micro_batch_samples` `(` $micro_batch_samples^ `)`)?
    (`sequence` `(` $sequence^ `)`)? (`data_parallel` `(` $data_parallel^ `)`)?
    (`vocabulary` `(` $vocabulary^ `)`)? (`init_std` `(` $init_std^ `)`)?
    (`memory_limit` `(` $memory_limit^ `)`)? $body attr-dict
  }];
}

class Sched_Object<string mnemonic, list<Trait> traits = []>
    : Sched_Op<mnemonic, !listconcat([Symbol, HasParent<"JobOp">], traits)>;

def Sched_StreamOp : Sched_Object<"stream"> {
  let summary = "A queue of device work";
  let description = [{
    Ops on one stream run in issue order. When two streams compete the one of
    higher priority runs first.

    ```mlir
    sched.stream @comm priority(1)
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       DefaultValuedAttr<I32Attr, "0">:$priority);
  let assemblyFormat = "$sym_name (`priority` `(` $priority^ `)`)? attr-dict";
}

def Sched_CommunicatorOp : Sched_Object<"communicator"> {
  let summary = "Ranks that issue the same collectives";
  let description = [{
    The group of rank r is base + i * stride for i < size, where
    base = r - ((r / stride) % size) * stride. `sms`: how many SMs its kernels
    may take; without it the library decides.

    ```mlir
    sched.communicator @ep size(16) sms(20)
    sched.communicator @pp size(4) stride(16)
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Sched_Positive:$size,
                       DefaultValuedAttr<Sched_Positive, "1">:$stride,
                       DefaultValuedAttr<I64Attr, "0">:$sms);
  let assemblyFormat = [{
    $sym_name `size` `(` $size `)` (`stride` `(` $stride^ `)`)?
    (`sms` `(` $sms^ `)`)? attr-dict
  }];
}

def Sched_KernelOp : Sched_Object<"kernel"> {
  let summary = "A kernel of the table: what a launch runs";
  let description = [{
    `op` is the library entry (include/moe/Runtime/Kernels.h), or with
    `generated` the code is that of the kernel's name. Effects are those of the
    operands, in order; `numbers` are what the entry asks for. Cost is that of
    the original sizes. A launch may name a `moe.kernel` of the module as well.

    ```mlir
    sched.kernel @rms_norm_0 "rms_norm"(read, read, write) row_invariant
        flops(2.048e+03) bytes(4.224e+03) numbers {eps = 1.0e-06 : f64}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$op,
    UnitAttr:$generated, DenseI32ArrayAttr:$effects,
    Sched_NumericClassAttr:$numeric_class,
    DefaultValuedAttr<F64Attr, "0.0">:$flops,
    DefaultValuedAttr<F64Attr, "0.0">:$bytes,
    OptionalAttr<DictionaryAttr>:$numbers);
  let assemblyFormat = [{
    $sym_name $op `` custom<Effects>($effects) (`generated` $generated^)?
    `` $numeric_class (`flops` `(` $flops^ `)`)? (`bytes` `(` $bytes^ `)`)?
    (`numbers` $numbers^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Sched_TemplateOp : Sched_Object<"template", [IsolatedFromAbove,
    SingleBlockImplicitTerminator<"YieldOp">,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "Ops in issue order, over frames that calls bind";
  let description = [{
    Arguments are frames, with kind and bytes, and then imports, which are
    events of earlier calls. A name that isn't an SSA name stands as a string
    after the argument.

    ```mlir
    sched.template @forward(%w: weights<8192>, %x: carried<2048>,
                            %temp "scratch space": temporary<4096>) imports(%ready) {
      %a = sched.buffer %x[0] : tensor<16x32xf32>
      %b = sched.buffer %w[0] : tensor<64x32xf32>
      %c = sched.buffer %temp[0] : tensor<16x64xf32>
      %done = sched.launch @linear on @compute(%a, %b, out %c) after(%ready)
      sched.yield %done
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Sched_FrameArrayAttr:$frames,
                       StrArrayAttr:$imports);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Arguments of the body: one per frame, then one per import.
    Block::BlockArgListType getFrameArguments() {
      return getBody().getArguments().take_front(getFrames().size());
    }
    Block::BlockArgListType getImportArguments() {
      return getBody().getArguments().drop_front(getFrames().size());
    }
    FrameAttr getFrame(unsigned i) { return cast<FrameAttr>(getFrames()[i]); }
    YieldOp getYield();
  }];
}

def Sched_ProgramOp : Sched_Object<"program", [IsolatedFromAbove, SingleBlock,
    NoTerminator]> {
  let summary = "What a class of ranks runs: calls of templates";
  let description = [{
    `ranks(first, count)`. The other numbers are addresses, in bytes from the
    start of the rank's arena of `arena` bytes: tokens and labels are i32
    [micro-batches, tokens], loss and grad_norm f32 [1], flag and step i32 [1];
    what the program doesn't have is left out.

    ```mlir
    sched.program @stage0 ranks(0, 16) arena(65536) tokens(0) labels(4096)
        loss(8192) grad_norm(8196) flag(8200) step(8204) {
      sched.parameter ["model.norm.weight"] : tensor<32xf32> stored [32]
          at(8256) gradient(8384) init ones
      sched.bucket "dense" over @dp elements(32) weights(8256) gradients(8384)
          master(8512) moment1(8528) moment2(8544)
      %0 = sched.call @start at [8256, 16384, 32768] layer(0) mb(0)
      sched.call @forward at [8256, 18432, 32768] after(%0) layer(1) mb(0)
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$first_rank,
    I64Attr:$rank_count, OptionalAttr<I64Attr>:$arena,
    OptionalAttr<I64Attr>:$tokens, OptionalAttr<I64Attr>:$labels,
    OptionalAttr<I64Attr>:$loss, OptionalAttr<I64Attr>:$grad_norm,
    OptionalAttr<I64Attr>:$flag, OptionalAttr<I64Attr>:$step);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `ranks` `(` $first_rank `,` $rank_count `)`
    (`arena` `(` $arena^ `)`)? (`tokens` `(` $tokens^ `)`)?
    (`labels` `(` $labels^ `)`)? (`loss` `(` $loss^ `)`)?
    (`grad_norm` `(` $grad_norm^ `)`)? (`flag` `(` $flag^ `)`)?
    (`step` `(` $step^ `)`)? $body attr-dict
  }];
}

def Sched_ParameterOp : Sched_Op<"parameter", [HasParent<"ProgramOp">,
    Sched_SymbolUser]> {
  let summary = "A named parameter and where a rank keeps it";
  let description = [{
    Several stored tensors are stacked in memory order. With `over` the rank
    holds the block of them that is its position in the communicator.

    ```mlir
    sched.parameter ["experts.0.w", "experts.1.w"] : tensor<1x64x32xbf16>
        stored [64, 32] over @ep at(4096) gradient(16384) init normal
    ```
  }];
  let arguments = (ins StrArrayAttr:$names,
    TypeAttrOf<RankedTensorOf<[F32, BF16]>>:$shape,
    DenseI64ArrayAttr:$stored, OptionalAttr<FlatSymbolRefAttr>:$communicator,
    I64Attr:$address, I64Attr:$gradient, Sched_InitAttr:$init);
  let assemblyFormat = [{
    $names `:` $shape `stored` $stored (`over` $communicator^)?
    `at` `(` $address `)` `gradient` `(` $gradient `)` `init` `` $init attr-dict
  }];
  let hasVerifier = 1;
}

def Sched_BucketOp : Sched_Op<"bucket", [HasParent<"ProgramOp">,
    Sched_SymbolUser]> {
  let summary = "Optimizer state of parameters that reduce together";
  let description = [{
    `elements` of weights and gradients; each rank of the communicator has its
    share of master weights and moments.

    ```mlir
    sched.bucket "dense" over @dp elements(4096) weights(0) gradients(16384)
        master(32768) moment1(40960) moment2(49152)
    ```
  }];
  let arguments = (ins StrAttr:$name, FlatSymbolRefAttr:$communicator,
    I64Attr:$elements, I64Attr:$weights, I64Attr:$gradients, I64Attr:$master,
    I64Attr:$moment1, I64Attr:$moment2);
  let assemblyFormat = [{
    $name `over` $communicator `elements` `(` $elements `)`
    `weights` `(` $weights `)` `gradients` `(` $gradients `)`
    `master` `(` $master `)` `moment1` `(` $moment1 `)`
    `moment2` `(` $moment2 `)` attr-dict
  }];
}

def Sched_DoneOp : Sched_Op<"done", [Pure, HasParent<"ProgramOp">,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "An event that has happened already";
  let description = [{
    For an import that a call has nothing to wait for in.

    ```mlir
    %none = sched.done
    sched.call @forward at [0, 64] after(%none)
    ```
  }];
  let results = (outs Sched_Event:$result);
  let assemblyFormat = "attr-dict";
}

def Sched_CallOp : Sched_Op<"call", [HasParent<"ProgramOp">, Sched_SymbolUser]> {
  let summary = "Issue the ops of a template";
  let description = [{
    Addresses of the template's frames, then events for its imports. Results
    are the events that the template yields. `layer` and `mb` fill {i} and {mb}
    of locations; `backward_layer` and `backward_mb` those of the backward half
    of a pair.

    ```mlir
    %3:2 = sched.call @pair at [0, 4096, 8192] after(%2#0, %2#1) layer(3) mb(5)
        backward_layer(40) backward_mb(2)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee,
    OptionalAttr<DenseI64ArrayAttr>:$bases, Variadic<Sched_Event>:$imports,
    OptionalAttr<I64Attr>:$layer, OptionalAttr<I64Attr>:$micro_batch,
    OptionalAttr<I64Attr>:$backward_layer,
    OptionalAttr<I64Attr>:$backward_micro_batch);
  let results = (outs Variadic<Sched_Event>:$events);
  let assemblyFormat = [{
    $callee (`at` $bases^)? (`after` `(` $imports^ `)`)? (`layer` `(` $layer^ `)`)?
    (`mb` `(` $micro_batch^ `)`)? (`backward_layer` `(` $backward_layer^ `)`)?
    (`backward_mb` `(` $backward_micro_batch^ `)`)? attr-dict
    `` custom<Events>(type($events))
  }];
}

#endif // SCHED_STRUCTURE_OPS_TD
