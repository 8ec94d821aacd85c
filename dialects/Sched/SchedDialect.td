//===- SchedDialect.td - Schedules of training steps ----------*- tablegen -*-===//

#ifndef SCHED_DIALECT_TD
#define SCHED_DIALECT_TD

include "mlir/IR/OpBase.td"

def Sched_Dialect : Dialect {
  let name = "sched";
  let cppNamespace = "::mlir::sched";
  let summary = "Schedules: streams, issue order, events, captures, frames";
  let description = [{
    A `sched.job` is the table (include/moe/Table/Table.h) in words: each op is
    one object of it, and both forms hold the same.

    * A **template** is a list of ops in the order in which the host issues
      them: the forward of a layer, its backward, or a pair of both. Each op
      runs on a **stream**; ops of one stream run in issue order, ops of
      different streams run at once, except where one waits for the **event**
      of another (`after`). Ops read and write **buffers**, which are typed
      ranges of the template's **frames**.
    * A **program** is what the ranks of a pipeline stage run: calls of
      templates. A call binds frames to addresses of the rank's arena and
      imports to events of earlier calls.

    A schedule written by hand may leave addresses out; they are planned:

    * a buffer without an offset is placed in its frame, a frame without a size
      has the size of its buffers; buffers of a temporary frame share bytes
      where the order permits;
    * a call without addresses binds frames by name: frames of one name are one
      place in the arena;
    * a job without programs has one, over all ranks, that calls each template
      once; frames, but temporary and host ones, hold values from before.

    ```mlir
    sched.job "one layer" ranks(2) {
      sched.stream @compute
      sched.stream @comm priority(1)
      sched.communicator @ep size(2)
      sched.kernel @linear "linear"(read, read, write) row_invariant
      sched.template @forward(%w: weights, %x: carried, %temp: temporary) {
        %a = sched.buffer %x : tensor<16x32xf32>
        %b = sched.buffer %w : tensor<64x32xf32>
        %c = sched.buffer %temp : tensor<16x64xf32>
        %d = sched.buffer %temp : tensor<32x64xf32>
        %done = sched.launch @linear on @compute(%a, %b, out %c) at "fc {i}"
        sched.collective all_gather over @ep on @comm(%c, out %d) after(%done)
      }
    }
    ```

    Files: `SchedStructureOps.td` (job, streams, templates, programs),
    `SchedOps.td` (what a template issues), `SchedTypes.td`, `SchedAttrs.td`,
    `SchedEnums.td`, `SchedInterfaces.td`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();
  }];
}

class Sched_Op<string mnemonic, list<Trait> traits = []>
    : Op<Sched_Dialect, mnemonic, traits>;

#endif // SCHED_DIALECT_TD
