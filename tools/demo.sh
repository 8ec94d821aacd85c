#!/usr/bin/env bash
# usage, at the root of the tree: demo.sh BUILD
# Schedules Qwen3-30B-A3B for 16 H100, proves the schedule, says what it costs;
# then trains the same model at small width on this machine, serial and
# scheduled. Outputs stay in BUILD/demo.
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

say "Schedule a step; prove it"
run moe-opt --overlap-ep --recompute=moe,norm --report="$out/report.json" \
  "$out/model.mlir" -o "$out/step.mlir"

say "The same model with experts on 2 ranks and 2 pipeline stages"
run moe-translate --import-hf "$config" --target=gb200x4 \
  --layout="ep=2,pp=2,global_batch=8" -o "$out/small.mlir"
run moe-opt --overlap-ep --recompute=moe,norm "$out/small.mlir" \
  -o "$out/small-step.mlir"
run moe-opt --schedule=serial "$out/small.mlir" --shrink=32 \
  -o "$out/tiny-serial.mlir"

say "The same schedule at 1/32 of the widths"
run moe-opt --shrink=32 "$out/small-step.mlir" -o "$out/tiny.mlir"

say "Train on 4 virtual ranks: in program order, then as scheduled"
run moe-run "$out/tiny-serial.mlir" --steps 3 --no-timing | tee "$out/serial.txt"
run moe-run "$out/tiny.mlir" --steps 3 --no-timing | tee "$out/scheduled.txt"
if cmp -s <(grep ^step "$out/serial.txt") <(grep ^step "$out/scheduled.txt"); then
  echo "equal to the last bit"
else
  echo "the schedules differ" >&2
  exit 1
fi

say "Outputs"
ls "$out"
