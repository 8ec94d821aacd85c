#!/usr/bin/env bash
# usage, at the root of the tree: run.sh BUILD
# Times what the compiler does with Qwen3-235B-A22B on 256 GB200 (pp=8, ep=32),
# up to kernels, by micro-batches of a step.
set -euo pipefail

bin=$1/bin
config=test/Import/Inputs/qwen3-235b-a22b.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "micro-batches  seconds"
for count in 16 64 256; do
  "$bin/moe-translate" --import-hf "$config" --target=gb200x256 \
    --layout="pp=8,ep=32,global_batch=$((32 * count))" -o "$work/model.mlir"
  start=$(date +%s%N)
  "$bin/moe-opt" "$work/model.mlir" --moe-verify-model --moe-partition \
    --moe-verify-spmd --moe-differentiate --moe-verify-training \
    --moe-form-kernels --moe-recompute=modules=moe,norm --moe-verify-kernels \
    -o "$work/kernels.mlir"
  end=$(date +%s%N)
  awk -v n=$count -v t=$((end - start)) \
    'BEGIN { printf "%13d  %7.3f\n", n, t / 1e9 }'
done
