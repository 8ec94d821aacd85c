#!/usr/bin/env bash
# usage, at the root of the tree: gpu-check.sh BUILD [OUT]
# On a machine with GPUs: compares training on them with the host engine, and
# measures each kernel's rate against what the device reaches in a plain copy
# and a large product. Writes to OUT (BUILD/gpu-check). MOE_GPUS=N uses fewer
# GPUs, MOE_CHECKS names parts to run (default: base bf16 rates).
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

schedule() { # name, config, layout's other keys, flags: makes OUT/name.mlir
  "$bin/moe-translate" --import-hf "$2" --target="h100x$ranks" \
    --layout="$layout,$3" -o "$out/$1.model.mlir"
  "$bin/moe-opt" --overlap-ep --recompute=moe,norm --cuda-graph=moe_router \
    "${@:4}" "$out/$1.model.mlir" -o "$out/$1.mlir" 2>"$out/$1.report"
  "$bin/moe-compile" "$out/$1.mlir" --target=h100 -o "$out/$1" \
    2>"$out/$1.compile"
}

numbers() { # name, tolerance of losses, of gradient norms
  echo "numbers, $1, $ranks GPUs, $layout"
  schedule "$1" "test/Execution/Inputs/golden/$1/config.json" \
    "seq=16,global_batch=$((4 * ranks))"
  "$bin/moe-run" "$out/$1.mlir" --steps 4 --no-timing >"$out/host.log" \
    2>"$out/host.proof"
  all "$out/$1" --steps=4 --no-timing
  python3 - "$out/host.log" "$out/rank0.log" "$2" "$3" <<'PYTHON'
import sys

host, gpu = (open(path).read().splitlines() for path in sys.argv[1:3])
worst = [0.0, 0.0]
for a, b in zip(host, gpu):
    print(f"  host {a}\n  GPUs {b}")
    for i, (x, y) in enumerate(zip(a.split()[3::2], b.split()[3::2])):
        worst[i] = max(worst[i], abs(float(x) - float(y)) / abs(float(x)))
limits = [float(limit) for limit in sys.argv[3:]]
for what, got, limit in zip(["loss", "grad_norm"], worst, limits):
    print(f"  {what}: {got:.1e} apart at most, {limit:.0e} may be")
sys.exit(len(gpu) != 4 or any(got > limit for got, limit in zip(worst, limits)))
PYTHON
}

checks=${MOE_CHECKS:-base bf16 rates}
[[ $checks != *base* ]] || numbers base 1e-5 1e-4 # f32
[[ $checks != *bf16* ]] || numbers bf16 1e-3 5e-3 # attention by cuDNN
if [[ $checks == *rates* ]]; then
  # The widths of Qwen3-30B-A3B, two layers of it: what fits on one GPU.
  echo "rates, Qwen3-30B-A3B's widths"
  sed 's/"num_hidden_layers": *[0-9]*/"num_hidden_layers": 2/' \
    test/Import/Inputs/qwen3-30b-a3b.json >"$out/middle.json"
  schedule middle "$out/middle.json" "seq=4096,global_batch=$((4 * ranks))"
  MOE_RT_PROFILE=$out/rates.txt all "$out/middle" --steps=2
  cat "$out/rates.txt"
fi
