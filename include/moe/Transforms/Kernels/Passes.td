#ifndef MOE_TRANSFORMS_KERNELS_PASSES_TD
#define MOE_TRANSFORMS_KERNELS_PASSES_TD

include "mlir/Pass/PassBase.td"

def FormKernels : Pass<"moe-form-kernels", "::mlir::ModuleOp"> {
  let summary = "Turn compute ops into calls of kernels";
  let description = [{
    From phase `training` to phase `kernels`. Each compute op becomes a call of
    a `moe.kernel` that carries its cost, its numeric class and the numbers it
    needs; equal ops share one kernel. Costs of a shrunken program (moe-shrink)
    are those of its original sizes. Distributions are erased: from here on
    types say what one rank holds. Collectives stay.

    ```mlir
    // Before
    %y = moe.linear %x, %w module(attn)
        : (tensor<16x32xf32, #attention>, tensor<64x32xf32, #attention>)
        -> tensor<16x64xf32, #attention>
    // After
    moe.kernel @linear_0 op "linear" {bytes = 1.4336e+04 : f64,
        flops = 6.5536e+04 : f64, numbers = {},
        numeric_class = #moe<numeric_class row_invariant>}
        : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
    %y = moe.call @linear_0(%x, %w) module(attn)
        : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
    ```
  }];
}

def Recompute : Pass<"moe-recompute", "::mlir::ModuleOp"> {
  let summary = "Compute what a module produced again in backward";
  let description = [{
    A value that a module of `modules` computes and backward needs is no longer
    saved: backward gets a copy of the calls that produce it, fed from what is
    still saved. The modules are one set, so their order doesn't matter. The
    copies call the same kernels: the bits are those of forward.

    Routing decisions are never computed again: what the router and the
    permutation give (probabilities, experts, map, counts) stays saved, also
    when `moe` is named.

    ```mlir
    // Before
    %n = moe.call @rms_norm_0(%x, %w) module(norm) : ...
    moe.backward saved(%x, %n : ...) {
    ^bb0(%dy: ..., %sx: ..., %sn: ...):
      %g1 = moe.call @linear_wgrad_0(%sn, %dy, %g) module(attn) : ...
    // After --moe-recompute=modules=norm
    moe.backward saved(%x : ...) {
    ^bb0(%dy: ..., %sx: ...):
      %w = moe.param ...
      %n = moe.call @rms_norm_0(%sx, %w) module(norm) : ...
      %g1 = moe.call @linear_wgrad_0(%n, %dy, %g) module(attn) : ...
    ```
  }];
  let options = [
    ListOption<"modules", "modules", "std::string",
               "Modules to compute again: norm (or layernorm), core_attn, "
               "attn, moe, moe_router, moe_preprocess, moe_act">
  ];
}

def Shrink : Pass<"moe-shrink", "::mlir::ModuleOp"> {
  let summary = "Divide the widths of a program, and keep its prices";
  let description = [{
    Divides hidden, head_dim, expert width, vocabulary and sequence by `factor`:
    each becomes the nearest even number (ties up), at least 2. Heads, experts,
    experts per token, layers, micro-batches, order and stages stay, so that a
    real job's schedule runs on a small machine. Rows of ragged buffers follow
    from the layout's capacity. From phase model, spmd, training or kernels to
    the same phase; shrinking and lowering commute.

    What a dimension counts is told by the dimensions that parameters name, not
    by its size, so that 128 experts stay if head_dim is 128, too. One kernel
    whose calls differ afterwards becomes several.

    The module's `moe.original` records the sizes before. Costs of kernels and
    collectives are those of these sizes, whether the program is shrunken
    before or after moe-form-kernels. Shrinking a shrunken module divides its
    present sizes once more; the record stays that of the first.

    ```mlir
    // Before
    module attributes {moe.phase = "model", moe.layout = #moe.layout<... seq = 4096 ...>} {
      ...
      %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal
          : tensor<151936x2048xbf16>
    // After --moe-shrink=factor=32
    module attributes {moe.phase = "model", moe.layout = #moe.layout<... seq = 128 ...>,
        moe.original = {hidden = 2048 : i64, sequence = 4096 : i64, ...}} {
      ...
      %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal
          : tensor<4748x64xbf16>
    ```
  }];
  let options = [
    Option<"factor", "factor", "int64_t", "1",
           "What to divide sizes by; 1 changes nothing">
  ];
}

def VerifyKernels : Pass<"moe-verify-kernels", "::mlir::ModuleOp"> {
  let summary = "Check that a module is well-formed kernels IR";
  let description = [{
    Closes the phase `kernels`: every kernel is one of the library, with its
    operands and numbers; no compute op and no distribution is left; and each
    backward keeps the rules of `moe-verify-training`: it saves what it
    uses, threads its gradient sums, and decides no routing.
  }];
}

def GenerateKernels : Pass<"moe-generate-kernels", "::mlir::ModuleOp"> {
  let summary = "Write the code of elementwise kernels and row reductions";
  let description = [{
    Gives a body to each `moe.kernel` whose op works on rows: add, rms_norm and
    its gradients, swiglu and its gradient, permute, unpermute and their
    probabilities, cross_entropy and its gradient. The others are left to the
    library, kernels that have a body as they are. Types are f32 or bf16;
    arithmetic is in f32, rounded to nearest even on store. Of a ragged tensor
    the rows in use are worked on, no others.

    The body is for any target: a row is one linalg op, independent rows are a
    `scf.forall`.

    ```mlir
    // Before
    moe.kernel @rms_norm_0 op "rms_norm" {numbers = {eps = 1.0e-06 : f64}, ...}
        : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32>
    // After
    moe.kernel @rms_norm_0 op "rms_norm" {numbers = {eps = 1.0e-06 : f64}, ...}
        : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32> {
    ^bb0(%xs: memref<16x32xf32>, %w: memref<32xf32>, %ys: memref<16x32xf32>):
      scf.forall (%t) in (16) {
        %x = memref.subview %xs[%t, 0] [1, 32] [1, 1] : ...
        %sum = memref.alloca() : memref<f32>
        memref.store %zero, %sum[] : memref<f32>
        linalg.generic {iterator_types = ["reduction"], ...}
            ins(%x : ...) outs(%sum : memref<f32>) {...}
        ...
        linalg.generic {iterator_types = ["parallel"], ...}
            ins(%x, %w : ...) outs(%y : ...) {...}
      }
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect"
  ];
}

def VectorizeKernels : Pass<"moe-vectorize-kernels"> {
  let summary = "Turn linalg ops over a row into loops over vectors of 16";
  let description = [{
    An elementwise op and what is left over at the end of its row (vectors of
    8, 4, 2 and 1) run the same operations, so an element's bits do not depend
    on where it lies. A sum has 16 partial sums, term i in lane i mod 16, that
    are added as a tree: the order is fixed, whatever the machine. Linalg ops
    of another form (more dimensions, strides, `linalg.index`, a reduction
    other than addf and maxnumf) are left.

    ```mlir
    // Before
    linalg.generic {iterator_types = ["reduction"], ...}
        ins(%x : memref<40xf32>) outs(%sum : memref<f32>) {
    ^bb0(%a: f32, %acc: f32):
      %square = arith.mulf %a, %a : f32
      %next = arith.addf %acc, %square : f32
      linalg.yield %next : f32
    }
    // After
    %lanes = scf.for %i = %c0 to %c32 step %c16 iter_args(%acc = %zero)
        -> (vector<16xf32>) {
      %a = vector.load %x[%i] : memref<40xf32>, vector<16xf32>
      %square = arith.mulf %a, %a : vector<16xf32>
      %next = arith.addf %acc, %square : vector<16xf32>
      scf.yield %next : vector<16xf32>
    }
    %a = vector.load %x[%c32] : memref<40xf32>, vector<8xf32>
    ...
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

def MapToGpu : Pass<"moe-map-to-gpu", "::mlir::ModuleOp"> {
  let summary = "Share the rows of generated kernels among GPU threads";
  let description = [{
    For each `moe.kernel` that has a body, `gpu.module @moe_kernels` gets a
    function `moe_kernel_<symbol>` of the same operands, for blocks of 256
    threads and a grid of any size. Operands are aligned to 16 bytes. The
    kernels stay.

    A group of threads takes rows in a grid stride: as many as a row has
    vectors of 16 bytes, up to a warp, or the block where a lane would have
    more than 4. A thread has the same columns in all ops of a kernel, so a
    scratch row is in registers. A sum over columns is partial sums of
    threads, then shuffles, then shared memory: the order is that of the row's
    width, and each thread has the result.

    A loop that sums rows up (`scf.for` around rows) is cut into chunks of
    rows, whose sums go to memory of the image; the last block to finish adds
    them in order and runs what follows. No bits depend on the grid. Two
    launches of such a kernel must not overlap in time: the memory is one.

    An op that has no mapping is an error.

    ```mlir
    // Before
    scf.forall (%t) in (16) {
      %x = memref.subview %xs[%t, 0] [1, 128] [1, 1] : ...
      linalg.generic {iterator_types = ["parallel"], ...}
          ins(%x : memref<128xbf16, ...>) outs(%y : memref<128xbf16, ...>) {...}
    }
    // After: 16 threads a row, 8 elements a thread
    scf.for %t = %group to %c16 step %groups {
      %x = memref.subview %xs[%t, 0] [1, 128] [1, 1] : ...
      %v = vector.load %x[%first] {alignment = 16} : ..., vector<8xbf16>
      ...
      vector.store %r, %y[%first] {alignment = 16} : ..., vector<8xbf16>
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::memref::MemRefDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def ExpandMath : Pass<"moe-expand-math"> {
  let summary = "Replace math.exp by the library's polynomial";
  let description = [{
    One polynomial for scalars and vectors of any length, with explicit fused
    multiply-adds, so that the bits are those of the library's kernels on every
    machine. With `log` also `math.log` of f64, for machines that have no
    library of their own: a positive, normal number, to 1 ulp.

    ```mlir
    // Before
    %y = math.exp %x : vector<16xf32>
    // After
    %shifted = math.fma %clamped, %log2e, %magic : vector<16xf32>
    ...
    %y = arith.mulf %p, %power : vector<16xf32>
    ```
  }];
  let options = [
    Option<"log", "log", "bool", "false", "Replace math.log of f64, too">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

#endif // MOE_TRANSFORMS_KERNELS_PASSES_TD
