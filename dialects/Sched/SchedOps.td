//===- SchedOps.td - What a template issues -------------------*- tablegen -*-===//

#ifndef SCHED_OPS_TD
#define SCHED_OPS_TD

include "dialects/Sched/SchedStructureOps.td"

def Sched_BufferOp : Sched_Op<"buffer", [HasParent<"TemplateOp">,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "A typed range of a frame";
  let description = [{
    The offset counts bytes from the frame's start; without one the buffer is
    placed when the schedule is tabulated. Ranges of one frame may overlap.

    ```mlir
    %x = sched.buffer %saved[128] : tensor<16x32xf32>
    %y = sched.buffer %temp : tensor<16x64xbf16>
    ```
  }];
  let arguments = (ins Sched_Frame:$frame, OptionalAttr<I64Attr>:$offset,
                       TypeAttrOf<RankedTensorOf<[F32, BF16, I32]>>:$shape);
  let results = (outs Sched_Buffer:$result);
  let assemblyFormat = "$frame (`[` $offset^ `]`)? `:` $shape attr-dict";
  let hasVerifier = 1;
}

def Sched_LaunchOp : Sched_IssuedOp<"launch", "$kernel ",
    (ins FlatSymbolRefAttr:$kernel)> {
  let summary = "Run a kernel on a stream";
  let description = [{
    The kernel is a `sched.kernel` of the job, or else a `moe.kernel` of the
    module, whose effects are: inputs read (the last one updated if it
    accumulates), results written.

    ```mlir
    %q = sched.launch @linear_0 on @compute(%x, %w, out %y) after(%ready)
        half "F" module "attn" at "layers.{i}.self_attn.q_proj mb {mb}"
    ```
  }];
}

def Sched_CollectiveOp : Sched_IssuedOp<"collective",
    "`` $kind `over` $communicator ",
    (ins Sched_CollectiveKindAttr:$kind, FlatSymbolRefAttr:$communicator)> {
  let summary = "Run a collective of a communicator";
  let description = [{
    Kinds and their buffers (n: ranks of the group):

    * `exchange_counts(counts[E], out counts[E])`: block i of E/n goes to
      member i
    * `all_to_all(x[R,w], sendCounts[E], recvCounts[E], inout flag, out y[C,w])`:
      counts lie in host frames; rows for member i are the sum of its block of
      counts; the flag tells an overflow of C
    * `all_reduce_sum`, `all_reduce_max` `(x, out y)`
    * `reduce_scatter(x[n*m], out y[m])`, `all_gather(x[m], out y[n*m])`

    ```mlir
    sched.collective all_to_all over @ep on @comm(%x, %send, %recv, inout %flag, out %y)
        after(%permuted) bytes(3.2768e+04) at "layers.{i}.mlp/dispatch mb {mb}"
    ```
  }];
  let hasVerifier = 1;
}

def Sched_SendOp : Sched_IssuedOp<"send", "`peer` `(` $peer `)` `over` $communicator ",
    (ins I32Attr:$peer, FlatSymbolRefAttr:$communicator)> {
  let summary = "Send a buffer to a member of the group";
  let description = [{
    The peer counts from this rank's position in the group. It meets the
    `sched.recv` of that rank.

    ```mlir
    sched.send peer(1) over @pp on @p2p(%h) after(%ready) at "send mb {mb}"
    ```
  }];
  let hasVerifier = 1;
}

def Sched_RecvOp : Sched_IssuedOp<"recv", "`peer` `(` $peer `)` `over` $communicator ",
    (ins I32Attr:$peer, FlatSymbolRefAttr:$communicator)> {
  let summary = "Receive a buffer from a member of the group";
  let description = [{
    ```mlir
    %h = sched.recv peer(-1) over @pp on @p2p(out %x) at "recv mb {mb}"
    ```
  }];
  let hasVerifier = 1;
}

def Sched_HostReadOp : Sched_IssuedOp<"host_read", "", (ins)> {
  let summary = "Copy a buffer to the host, which waits for it";
  let description = [{
    All ops that are issued later happen after it. The only op that may write
    a host frame; a capture can't hold it.

    ```mlir
    sched.host_read on @comm(%counts, out %host_counts) after(%routed)
    ```
  }];
  let hasVerifier = 1;
}

def Sched_CaptureOp : Sched_Op<"capture", [HasParent<"TemplateOp">,
    SingleBlockImplicitTerminator<"YieldOp">, NoRegionArguments,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "Ops that are one CUDA graph, launched at once";
  let description = [{
    Its results are the events of its ops that later ops wait for.

    ```mlir
    %routed = sched.capture "moe_router" {
      %done = sched.launch @route_0 on @compute(%logits, out %probs, out %experts)
      sched.yield %done
    }
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<Sched_Event>:$events);
  let assemblyFormat = "$name $body attr-dict `` custom<Events>(type($events))";
  let hasVerifier = 1;
}

def Sched_YieldOp : Sched_Op<"yield", [Pure, ReturnLike, Terminator,
    ParentOneOf<["TemplateOp", "CaptureOp"]>]> {
  let summary = "Events that are waited for outside";
  let description = [{
    Of a capture: by later ops of the template. Of a template: by later calls.

    ```mlir
    sched.yield %combined, %wgrad
    ```
  }];
  let arguments = (ins Variadic<Sched_Event>:$events);
  let assemblyFormat = "($events^)? attr-dict";
  let builders = [OpBuilder<(ins), [{
    build($_builder, $_state, ::mlir::ValueRange());
  }]>];
}

#endif // SCHED_OPS_TD
