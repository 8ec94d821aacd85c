#!/usr/bin/env python3
"""usage: against_torch.py BIN [PYTHON]

Times a training step of one Qwen3-MoE model on this machine's CPUs: the host
engine (programs in BIN) and, with the interpreter PYTHON, eager PyTorch. Both
get the same weights, tokens and number of threads, and take turns, so that
other load meets both. Fails if their losses differ. PYTHON without torch and
transformers: says so and compares nothing."""

import json
import pathlib
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile

CONFIG = dict(
    architectures=["Qwen3MoeForCausalLM"],
    model_type="qwen3_moe",
    hidden_size=256,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=32,
    num_experts=16,
    num_experts_per_tok=4,
    moe_intermediate_size=256,
    vocab_size=4096,
    max_position_embeddings=1024,
    norm_topk_prob=True,
    rms_norm_eps=1e-6,
    rope_theta=1000000.0,
    torch_dtype="float32",
)
SEQUENCE, SAMPLES = 256, 4
THREADS, STEPS, ROUNDS = 2, 4, 3
# Both round each op's result to f32 (6e-8); Adam's first steps are of one size
# however small a gradient is, and pass on the rounding of some.
TOLERANCE = 1e-5


def run(*command):
    result = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if result.returncode not in (0, 3):
        sys.exit(f"{command[0]}:\n{result.stderr.decode()}")
    return result


def write_tokens(path):
    shape = [STEPS, SAMPLES, SEQUENCE + 1]
    count = STEPS * SAMPLES * (SEQUENCE + 1)
    draw = random.Random(0)
    values = [draw.randrange(CONFIG["vocab_size"]) for _ in range(count)]
    tensor = dict(dtype="I32", shape=shape, data_offsets=[0, 4 * count])
    header = json.dumps({"tokens": tensor}).encode()
    path.write_bytes(
        struct.pack("<Q", len(header)) + header + struct.pack(f"<{count}i", *values)
    )


class Job:
    """Files of one comparison, and the two contenders."""

    def __init__(self, bin, folder):
        self.bin, self.folder = bin, folder
        self.config = folder / "config.json"
        self.config.write_text(json.dumps(CONFIG))
        self.tokens = folder / "tokens.safetensors"
        write_tokens(self.tokens)
        model, self.step = folder / "model.mlir", folder / "step.mlir"
        layout = f"seq={SEQUENCE},micro_batch={SAMPLES},global_batch={SAMPLES}"
        run(
            bin / "moe-translate",
            "--import-hf",
            self.config,
            "--target=h100x1",
            f"--layout={layout}",
            "-o",
            model,
        )
        run(bin / "moe-opt", "--schedule=1f1b", model, "-o", self.step)
        self.weights = folder / "weights.safetensors"
        self.moe_run("--steps=1", f"--save={self.weights}")

    def moe_run(self, *flags):
        return run(self.bin / "moe-run", self.step, f"--threads={THREADS}", *flags)

    def time_engine(self):
        """Losses, and seconds of all steps but the first."""
        text = self.moe_run(
            f"--steps={STEPS}", f"--weights={self.weights}", f"--tokens={self.tokens}"
        ).stdout.decode()
        steps = re.findall(r"loss (\S+) .*tokens/s (\S+)", text)
        seconds = [SAMPLES * SEQUENCE / float(rate) for _, rate in steps]
        return [float(loss) for loss, _ in steps], seconds[1:]

    def time_torch(self, python):
        """The same; None, and why, if there is no PyTorch."""
        result = run(
            python,
            pathlib.Path(__file__).with_name("torch_step.py"),
            f"--config={self.config}",
            f"--weights={self.weights}",
            f"--tokens={self.tokens}",
            f"--steps={STEPS}",
            f"--threads={THREADS}",
        )
        if result.returncode == 3:
            return None, result.stderr.decode().strip()
        output = json.loads(result.stdout)
        return output["losses"], output["seconds"]


def main():
    bin = pathlib.Path(sys.argv[1])
    python = sys.argv[2] if len(sys.argv) > 2 else sys.executable
    engine_seconds, torch_seconds = [], []
    with tempfile.TemporaryDirectory() as folder:
        job = Job(bin, pathlib.Path(folder))
        for _ in range(ROUNDS):
            torch_losses, seconds = job.time_torch(python)
            if torch_losses is None:
                print(f"not compared with PyTorch: {seconds}")
                return
            torch_seconds += seconds
            losses, seconds = job.time_engine()
            engine_seconds += seconds
            for step, (ours, theirs) in enumerate(zip(losses, torch_losses), 1):
                if not abs(ours - theirs) <= TOLERANCE * abs(theirs):
                    sys.exit(f"step {step}: loss {ours}, PyTorch's is {theirs}")
            assert len(losses) == len(torch_losses) == STEPS
    engine, torch = map(statistics.median, (engine_seconds, torch_seconds))
    print(f"{SAMPLES * SEQUENCE} tokens, {THREADS} threads, seconds a step:")
    print(f"engine   {engine:.3f}")
    print(f"PyTorch  {torch:.3f}")
    print(f"ratio    {engine / torch:.2f}, losses agree within {TOLERANCE:g}")


if __name__ == "__main__":
    main()
