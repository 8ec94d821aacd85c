#!/usr/bin/env bash
# usage, at the root of the tree: run.sh BUILD
# Times the whole pipeline with proofs for Qwen3-235B-A22B on 256 GB200 (pp=8,
# ep=32), by micro-batches of a step and by layers; then a training step of a
# small model on this machine against PyTorch, with the Python that
# MOE_BENCH_PYTHON names (python3).
set -euo pipefail

bin=$1/bin
config=test/Import/Inputs/qwen3-235b-a22b.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

row() { # micro-batches, layers
  sed "s/\"num_hidden_layers\": *[0-9]*/\"num_hidden_layers\": $2/" "$config" \
    >"$work/config.json"
  "$bin/moe-translate" --import-hf "$work/config.json" --target=gb200x256 \
    --layout="pp=8,ep=32,global_batch=$((32 * $1))" -o "$work/model.mlir"
  local start end ops
  start=$(date +%s%N)
  "$bin/moe-opt" --overlap-ep --recompute=moe,norm "$work/model.mlir" \
    -o "$work/step.mlir" 2>"$work/report"
  end=$(date +%s%N)
  ops=$(sed -n 's/^verified: \([0-9]*\) ops.*/\1/p' "$work/report")
  awk -v n="$1" -v l="$2" -v o="$ops" -v t=$((end - start)) \
    'BEGIN { printf "%13d  %6d  %8d  %7.3f\n", n, l, o, t / 1e9 }'
}

echo "micro-batches  layers       ops  seconds"
for count in 16 32 64 128; do row $count 94; done
for layers in 24 48 188; do row 64 $layers; done

echo
"$(dirname "$0")/against_torch.py" "$bin" "${MOE_BENCH_PYTHON:-python3}"
