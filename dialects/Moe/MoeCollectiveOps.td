//===- MoeCollectiveOps.td - Collectives ----------------------*- tablegen -*-===//
//
// Collectives change distributions; all ranks of the axis run them together.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COLLECTIVE_OPS_TD
#define MOE_COLLECTIVE_OPS_TD

include "dialects/Moe/MoeBase.td"

class Moe_CollectiveOp<string mnemonic, list<Trait> traits = []>
    : Moe_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<Moe_CollectiveOpInterface>,
        DeclareOpInterfaceMethods<Moe_DistributedOpInterface,
                                  ["inferDistribution"]>,
        Moe_Differentiable], traits)> {
  let assemblyFormat = [{
    operands `over` $axis `module` `` $module attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Moe_ExchangeCountsOp : Moe_CollectiveOp<"exchange_counts"> {
  let summary = "Tell each rank how many rows it will receive";
  let description = [{
    `counts` [E] are this rank's rows for each expert; block i goes to rank i
    of the axis. The result is [source rank][local expert].

    ```mlir
    %r = moe.exchange_counts %c over "ep" module(moe_dispatch)
        : (!moe.rows<8, mean = 32>) -> !moe.rows<8, mean = 32>
    ```
  }];
  let arguments = (ins Moe_RowsType:$counts, StrAttr:$axis,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_RowsType:$result);
}

def Moe_AllToAllOp : Moe_CollectiveOp<"all_to_all"> {
  let summary = "Exchange rows between the ranks of an axis";
  let description = [{
    Rank i of the axis gets the rows that `send` counts for its block of
    experts; what arrives is [source rank][local expert], as `receive` counts.
    Rows: [R, w] or [R] to [C, w] or [C]. Its dual is the exchange back, with
    `send` and `receive` swapped. The only op that
    takes a value from the attention grid to the experts' grid or back.
  }];
  let arguments = (ins Moe_Tensor:$input, Moe_RowsType:$send,
                       Moe_RowsType:$receive, StrAttr:$axis,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_AllReduceOp : Moe_CollectiveOp<"all_reduce"> {
  let summary = "Reduce a partial value; the result is invariant";
  let description = [{
    Also of a varying value, which is then taken as partial. The dual of a sum
    is `moe.vary`.
  }];
  let arguments = (ins Moe_Tensor:$input, StrAttr:$axis,
                       Moe_ReductionAttr:$reduction, Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_ReduceScatterOp : Moe_CollectiveOp<"reduce_scatter"> {
  let summary = "Reduce a partial value; rank i keeps block i of dimension 0";
  let description = [{
    Also of a varying value, which is then taken as partial. Its dual is an
    all_gather to varying.
  }];
  let arguments = (ins Moe_Tensor:$input, StrAttr:$axis,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_AllGatherOp : Moe_CollectiveOp<"all_gather"> {
  let summary = "Concatenate the shards of dimension 0";
  let description = [{
    The result is invariant along the axis, or varying if `varying` is given
    (then its dual is a reduce_scatter; that of an invariant result is the
    local slice).
  }];
  let arguments = (ins Moe_Tensor:$input, StrAttr:$axis, UnitAttr:$varying,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_SliceOp : Moe_CollectiveOp<"slice"> {
  let summary = "Rank i takes block i of dimension 0 of an invariant value";
  let description = "No communication; its dual is an all_gather to invariant.";
  let arguments = (ins Moe_Tensor:$input, StrAttr:$axis,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_VaryOp : Moe_CollectiveOp<"vary"> {
  let summary = "Use an invariant value where each rank has its own";
  let description = "No communication; its dual is an all_reduce.";
  let arguments = (ins Moe_Tensor:$input, StrAttr:$axis,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

#endif // MOE_COLLECTIVE_OPS_TD
