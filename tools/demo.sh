#!/usr/bin/env bash
# usage, at the root of the tree: demo.sh BUILD
# What the compiler does with Qwen3-30B-A3B on 16 H100. Outputs stay in
# BUILD/demo.
set -euo pipefail

bin=$1/bin out=$1/demo
config=test/Import/Inputs/qwen3-30b-a3b.json
mkdir -p "$out"
say() { printf '\n# %s\n' "$*"; }
run() {
  echo "\$ $*"
  "$bin/$1" "${@:2}"
}

say "Import the published configuration for 16 H100, experts over all of them"
run moe-translate --import-hf "$config" --target=h100x16 \
  --layout="ep=16,global_batch=1024" -o "$out/model.mlir"
run moe-translate --count "$out/model.mlir"

say "Partition, differentiate, form kernels; each phase checked as it closes"
run moe-opt "$out/model.mlir" --moe-verify-model --moe-partition \
  --moe-verify-spmd --moe-differentiate --moe-verify-training \
  --moe-form-kernels --moe-verify-kernels -o "$out/kernels.mlir"

say "Compute norms and experts again in backward, instead of saving them"
run moe-opt "$out/kernels.mlir" --moe-recompute=modules=moe,norm \
  --moe-verify-kernels --remarks-filter=moe -o "$out/recompute.mlir" 2>&1 |
  grep -E '^\$|remark:' | sed 's/.*remark: //'

say "Outputs"
ls "$out"/*.mlir
