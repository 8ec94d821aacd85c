#!/usr/bin/env bash
# usage, at the root of the tree: arm-check.sh BUILD [OUT]
# Links what moe-compile makes for GB200, by the lines that it prints, with a
# runtime that is compiled for Arm, and trains with it in an emulator, on the
# stand-in: losses and gradient norms must be those of moe-run here. Writes to
# OUT (BUILD/arm-check). Needs qemu-aarch64 and Arm's C++ library: on Debian the
# packages qemu-user and libstdc++-12-dev-arm64-cross.
set -euo pipefail

bin=$1/bin
out=${2:-$1/arm-check}
mkdir -p "$out/cuda/lib64"
out=$(realpath "$out")
triple=aarch64-linux-gnu
clang=("${CC:-clang-22}" "--target=$triple" -fuse-ld=lld)
clangxx=("${CXX:-clang++-22}" "--target=$triple" -fuse-ld=lld)

cmake --fresh -G Ninja -S . -B "$out/build" \
  -DMOE_RUNTIME_ONLY=ON -DMOE_ENABLE_CUDA=ON \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_C_COMPILER="${clang[0]}" -DCMAKE_C_COMPILER_TARGET=$triple \
  -DCMAKE_CXX_COMPILER="${clangxx[0]}" -DCMAKE_CXX_COMPILER_TARGET=$triple \
  -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld \
  -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld >"$out/configure.log" 2>&1 ||
  { cat "$out/configure.log" >&2 && exit 1; }
ninja -C "$out/build" >"$out/build.log" ||
  { tail -n 40 "$out/build.log" >&2 && exit 1; }
# All of the toolkit that Arm has here is the stand-in.
for library in cudart cublasLt cudnn nccl; do
  ln -sf "$out/build/stand-in/libstand-in.so" "$out/cuda/lib64/lib$library.so"
done

compile() { # schedule, output, flags: makes objects, and runs the printed line
  "$bin/moe-compile" "$1" --target=gb200 -o "$2" "${@:3}" >"$2.sh" 2>"$2.log"
  MOE_RUNTIME=$out/build/lib/runtime CUDA_HOME=$out/cuda CXX="${clangxx[*]}" \
    sh "$2.sh"
}

run() { # name, ranks, program and arguments: trains to OUT/name.arm
  MOE_STANDIN_CAPABILITY=10.0 MOE_STANDIN_TIMEOUT=300 \
    MOE_STANDIN_TWINS=$out/lib$1.twins.so:$out/build/lib/libmoe_device_twins.so \
    python3 test/StandIn/run.py --same --ranks "$2" "$out/build/stand-in" \
    qemu-aarch64 -L /usr/$triple "${@:3}" >"$out/$1.arm"
}

check() { # name, config, ranks, suffix of tolerances
  echo "$1: $2, $3 ranks"
  "$bin/moe-translate" --import-hf "test/Execution/Inputs/golden/$2/config.json" \
    --target="gb200x$3" --layout="ep=$3,seq=16,global_batch=$((4 * $3))" \
    -o "$out/$1.model.mlir"
  "$bin/moe-opt" --overlap-ep --recompute=moe,norm --cuda-graph=moe_router \
    "$out/$1.model.mlir" -o "$out/$1.mlir" 2>"$out/$1.report"
  "$bin/moe-run" "$out/$1.mlir" --steps 2 --no-timing >"$out/$1.host" \
    2>"$out/$1.proof"
  compile "$out/$1.mlir" "$out/lib$1.twins.so" --emit=twins --host-triple=$triple
  if [[ $1 = shared ]]; then
    compile "$out/$1.mlir" "$out/lib$1.so" --emit=shared
    "${clang[@]}" -Iinclude test/Tools/moe-compile/use_shared.c "$out/lib$1.so" \
      -Wl,-rpath,"$out" -o "$out/$1"
    run "$1" "$3" "$out/$1" 2
  else
    compile "$out/$1.mlir" "$out/$1"
    run "$1" "$3" "$out/$1" --steps=2 --no-timing
  fi
  for what in "Loss$4 loss" "Norm$4 grad_norm"; do
    python3 test/Execution/compare.py "kCuda${what% *}" "$out/$1.host" \
      "$out/$1.arm" "${what#* }"
  done
}

check one bf16 1 Bf16 # attention by cuDNN
check two base 2 ""
check shared base 1 ""
