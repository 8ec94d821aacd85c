#!/usr/bin/env bash
# usage, at the root of the tree: gpu-check.sh BUILD [OUT]
# On a machine with GPUs: compares training on them with the host engine, and
# measures each kernel's rate against what the device reaches in a plain copy
# and a large product. Writes to OUT (build/gpu-check).
set -euo pipefail

bin=$1/bin
out=${2:-$1/gpu-check}
mkdir -p "$out"
gpus=${MOE_GPUS:-$(nvidia-smi --list-gpus | wc -l)}
(( gpus >= 1 )) || { echo "gpu-check: no GPU is visible" >&2; exit 3; }
# A layout of one, two or four ranks: more is no better proof.
case $gpus in
1) layout=ep=1 ranks=1 ;;
2 | 3) layout=ep=2 ranks=2 ;;
*) layout=ep=2,pp=2 ranks=4 ;;
esac

all() { # Runs the command as every rank; fails if one does.
  local rank pids=() status=0
  for ((rank = 0; rank < ranks; ++rank)); do
    RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$rank "$@" >"$out/rank$rank.log" \
      2>&1 &
    pids+=($!)
  done
  for rank in "${!pids[@]}"; do
    wait "${pids[rank]}" || status=$?
  done
  (( status == 0 )) || cat "$out"/rank*.log >&2
  return $status
}

schedule() { # name, shrink
  "$bin/moe-translate" --import-hf test/Import/Inputs/qwen3-30b-a3b.json \
    --target="h100x$ranks" --layout="$layout,seq=4096,global_batch=$((4 * ranks))" \
    -o "$out/$1.model.mlir"
  "$bin/moe-opt" --overlap-ep --recompute=moe,norm --memory-limit=1 \
    "$out/$1.model.mlir" -o "$out/$1.full.mlir"
  "$bin/moe-opt" --shrink="$2" "$out/$1.full.mlir" -o "$out/$1.mlir"
  "$bin/moe-compile" "$out/$1.mlir" --target=h100 -o "$out/$1"
}

echo "numbers, $ranks GPUs, $layout"
schedule small 32
"$bin/moe-run" "$out/small.mlir" --steps 4 --no-timing >"$out/host.log"
all "$out/small" --steps=4 --no-timing
python3 - "$out/host.log" "$out/rank0.log" <<'PYTHON'
import sys

worst = 0.0
for host, gpu in zip(*(open(path).read().splitlines() for path in sys.argv[1:])):
    print(f"  host {host}\n  gpu  {gpu}")
    for a, b in zip(host.split()[3::2], gpu.split()[3::2]):
        worst = max(worst, abs(float(a) - float(b)) / abs(float(a)))
print(f"  largest relative difference {worst:.2e} (bf16: up to 2e-2 is expected)")
sys.exit(worst > 2e-2)
PYTHON

echo "rates"
schedule middle 4
MOE_RT_PROFILE=$out/rates.txt all "$out/middle" --steps=2
cat "$out/rates.txt"
