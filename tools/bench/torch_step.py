#!/usr/bin/env python3
"""Times training steps of Hugging Face transformers on PyTorch, eager, on
CPUs: forward, backward and AdamW of a Qwen3-MoE model in f32. Prints one line
of JSON: seconds of each step but the first, which only warms up, and their
median, seconds_per_step; threads; the losses, to compare with those of the
program under test."""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file
    from transformers import Qwen3MoeForCausalLM
    from transformers.utils import logging
except (ImportError, OSError) as error:
    print(f"torch_step.py needs torch and transformers: {error}", file=sys.stderr)
    sys.exit(3)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    path = dict(type=pathlib.Path, required=True)
    parser.add_argument("--config", **path, help="config.json")
    parser.add_argument(
        "--weights", **path, help=".safetensors with the names of checkpoints"
    )
    parser.add_argument(
        "--tokens",
        **path,
        help=".safetensors whose 'tokens' are [steps][samples][sequence + 1]; "
        "used again from the start when steps exceed them",
    )
    parser.add_argument("--steps", type=int, default=5, help="at least 2")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument(
        "--experts",
        choices=["eager", "batched_mm", "grouped_mm"],
        help="how transformers runs the experts (its default if not given)",
    )
    arguments = parser.parse_args()
    for file in (arguments.config, arguments.weights, arguments.tokens):
        if not file.is_file():
            parser.error(f"{file}: no such file")
    if arguments.steps < 2 or arguments.threads < 1:
        parser.error("needs at least 2 steps and 1 thread")
    return arguments


def load_model(config, weights, experts):
    """The loader wants a folder with its own file names."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "config.json").symlink_to(config.resolve())
        (folder / "model.safetensors").symlink_to(weights.resolve())
        model, info = Qwen3MoeForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            experts_implementation=experts,
            ignore_mismatched_sizes=True,  # Reported below instead.
            output_loading_info=True,
        )
    wrong = {key: sorted(map(str, names)) for key, names in info.items() if names}
    if wrong:
        sys.exit(f"{weights}: does not fit {config}: {wrong}")
    return model.train()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = load_model(arguments.config, arguments.weights, arguments.experts)
    tokens = load_file(arguments.tokens)["tokens"].long()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=arguments.lr, weight_decay=0.0
    )
    losses, seconds = [], []
    for step in range(arguments.steps):
        samples = tokens[step % len(tokens)]
        start = time.perf_counter()
        optimizer.zero_grad()
        logits = model(input_ids=samples[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), samples[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    result = {
        "seconds_per_step": statistics.median(seconds[1:]),
        "seconds": seconds[1:],
        "threads": arguments.threads,
        "losses": losses,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
