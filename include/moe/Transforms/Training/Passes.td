#ifndef MOE_TRANSFORMS_TRAINING_PASSES_TD
#define MOE_TRANSFORMS_TRAINING_PASSES_TD

include "mlir/Pass/PassBase.td"

def Differentiate : Pass<"moe-differentiate", "::mlir::ModuleOp"> {
  let summary = "Build the backward of every layer and the training step";
  let description = [{
    From phase `spmd` to phase `training`. Every layer gets a `moe.backward`
    whose operands are what backward reads of the forward, in order of first
    use; parameters are re-declared inside. `moe.model` becomes `moe.train`:
    the loop over micro-batches and AdamW.

    The ops' backwards follow in reverse order, an op's weight gradient right
    after its data gradient. The cotangents of a value with several uses are
    summed as they arise. Only what a weight or a float argument needs is
    built. The result of `moe.cross_entropy` is the loss: its cotangent is one
    and is no argument.

    Before:

    ```mlir
    moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %w = moe.param ["w.{i}"] dims [hidden, hidden] init normal : tensor<8x8xf32>
      %y = moe.linear %x, %w module(attn) : (...) -> tensor<4x8xf32>
      moe.return %y : tensor<4x8xf32>
    }
    moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
      ...
      %h1 = moe.apply @l [0 to 2] (%h0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      ...
      moe.return %loss : tensor<1xf32>
    }
    ```

    After:

    ```mlir
    moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      ...
      moe.backward saved(%x : tensor<4x8xf32>) {
      ^bb0(%dy: tensor<4x8xf32>, %sx: tensor<4x8xf32>):
        %w = moe.param ["w.{i}"] dims [hidden, hidden] init normal : tensor<8x8xf32>
        %g = moe.grad ["w.{i}"] : tensor<8x8xf32>
        %dx = moe.linear_dgrad %dy, %w module(attn) : ...
        %g1 = moe.linear_wgrad %sx, %dy, %g module(attn) : ...
        moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<8x8xf32>)
      }
      moe.return %y : tensor<4x8xf32>
    }
    moe.train @m {
      %g0 = moe.zero_grads [0 to 2] : !moe.grads<@l>
      %loss, %sum = moe.micro_batches 4 init(%g0 : !moe.grads<@l>) {
      ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g: !moe.grads<@l>):
        ...
        %h1, %s = moe.apply @l [0 to 2] (%h0) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, !moe.saved<@l>)
        ...
        %dh0, %g1 = moe.apply_backward @l [0 to 2] (%dh1) saved(%s : ...) grads(%g : ...) : ...
        moe.yield %loss : tensor<1xf32> sums(%g1 : !moe.grads<@l>)
      } : tensor<1xf32>, !moe.grads<@l>
      moe.optimizer %sum : !moe.grads<@l> {lr = 1.0e-03 : f64, ...}
    }
    ```
  }];
  let options = [
    Option<"lr", "lr", "double", "1e-3", "Learning rate of AdamW">,
    Option<"beta1", "beta1", "double", "0.9", "Decay of the first moment">,
    Option<"beta2", "beta2", "double", "0.999", "Decay of the second moment">,
    Option<"eps", "eps", "double", "1e-8", "Added to the update's divisor">,
    Option<"weightDecay", "weight-decay", "double", "0",
           "Decoupled weight decay">,
    Option<"clip", "clip", "double", "0",
           "Largest norm of the gradient, 0: any">,
  ];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def VerifyTraining : Pass<"moe-verify-training", "::mlir::ModuleOp"> {
  let summary = "Check that a module is well-formed training IR";
  let description = [{
    Closes the phase `training`: one `moe.train`, no `moe.model`; a layer that
    is applied has one backward, which returns a cotangent of each float
    argument and a sum for each `moe.grad`; every saved value and every value
    of a backward is used; no backward decides a routing again; each gradient
    accumulator goes from sum to sum, used once each time, from
    `moe.zero_grads` to `moe.optimizer`; forward and backward ranges match; the
    loop runs over the layout's micro-batches.
  }];
}

#endif // MOE_TRANSFORMS_TRAINING_PASSES_TD
