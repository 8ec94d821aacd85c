#!/usr/bin/env python3
"""Writes the goldens of test/Execution/Inputs/golden: what Hugging Face
transformers computes for tiny random Qwen3-MoE models. See README.md."""

import argparse
import json
import math
import pathlib
import shutil
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.utils import logging

STEPS = 5
SAMPLES = 4
ADAMW = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
# The least gap, in router logits, between the last expert chosen and the
# first one not chosen: the rounding of f32 must not change the routing.
LEAST_MARGIN = 1e-4

# What all variants have in common, in the form of the published Qwen3 files.
COMMON = dict(
    architectures=["Qwen3MoeForCausalLM"],
    attention_bias=False,
    attention_dropout=0.0,
    bos_token_id=0,
    decoder_sparse_step=1,
    eos_token_id=1,
    head_dim=8,
    hidden_act="silu",
    hidden_size=32,
    initializer_range=0.02,
    intermediate_size=48,
    max_position_embeddings=64,
    max_window_layers=2,
    mlp_only_layers=[],
    model_type="qwen3_moe",
    moe_intermediate_size=8,
    norm_topk_prob=True,
    num_attention_heads=4,
    num_experts=8,
    num_experts_per_tok=2,
    num_hidden_layers=2,
    num_key_value_heads=2,
    output_router_logits=False,
    rms_norm_eps=1e-6,
    rope_scaling=None,
    rope_theta=1000000.0,
    router_aux_loss_coef=0.001,
    sliding_window=None,
    tie_word_embeddings=False,
    torch_dtype="float32",
    transformers_version="4.51.0",
    use_cache=True,
    use_sliding_window=False,
    vocab_size=64,
)

# `starved[layer]`: experts that receive no token in any step.
VARIANTS = {
    "base": dict(seed=5, sequence=16, config=dict(head_dim=16)),
    "tied": dict(
        seed=34,
        sequence=16,
        config=dict(
            moe_intermediate_size=12,
            norm_topk_prob=False,
            num_experts=4,
            num_experts_per_tok=3,
            num_key_value_heads=1,
            rope_theta=10000.0,
            tie_word_embeddings=True,
        ),
    ),
    "starved": dict(
        seed=26,
        sequence=32,
        config=dict(hidden_size=24, num_experts=16),
        starved=[[4, 5, 6, 7, 13], list(range(8))],
    ),
    "bf16": dict(
        seed=1,
        sequence=16,
        config=dict(torch_dtype="bfloat16"),
        dtype=torch.bfloat16,
    ),
}


def make_model(config, dtype):
    return Qwen3MoeForCausalLM._from_config(
        config,
        dtype=dtype,
        attn_implementation="eager",
        experts_implementation="eager",
    )


def randomize(model, rng, starved):
    """Weights that keep activations near 1 and every gradient away from 0."""
    hidden = model.config.hidden_size
    # All embeddings share this direction, and the gates of starved experts
    # oppose it.
    common = rng.standard_normal(hidden)
    common *= math.sqrt(hidden) / np.linalg.norm(common)
    tied = model.config.tie_word_embeddings
    for name, parameter in model.named_parameters():
        values = rng.standard_normal(parameter.shape)
        if parameter.ndim == 1:
            values = 1 + 0.2 * values
        elif "embed_tokens" in name:
            if tied:  # The head's scale, so that logits stay near 1.
                values /= math.sqrt(hidden)
            if starved:
                values += 0.7 * common
        elif "mlp.gate" in name:
            values *= 1.5 / math.sqrt(hidden)
            if starved:
                values -= np.outer(values @ common, common) / hidden
                layer = int(name.split(".")[2])
                values[starved[layer]] -= 12 * common / hidden
        else:
            values /= math.sqrt(parameter.shape[-1])
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values))


def checkpoint_tensors(named):
    """The tensors under the names, and in the pieces, of checkpoints: the
    class keeps the experts of a layer stacked and gate and up fused."""
    result = {}
    for name, tensor in named:
        prefix, _, leaf = name.rpartition(".")
        if not prefix.endswith("mlp.experts"):
            result[name] = tensor
            continue
        for e, matrix in enumerate(tensor):
            pieces = {"down_proj": matrix}
            if leaf == "gate_up_proj":
                gate, up = matrix.chunk(2)
                pieces = {"gate_proj": gate, "up_proj": up}
            for piece, values in pieces.items():
                result[f"{prefix}.{e}.{piece}.weight"] = values
    return {n: t.detach().clone().contiguous() for n, t in result.items()}


def draw_tokens(rng, shape, vocabulary):
    """Nine in ten tokens follow from the one before, so that there is
    something to learn and the losses show what the optimizer does."""
    follower = rng.permutation(vocabulary)
    tokens = rng.integers(0, vocabulary, shape, dtype=np.int32)
    follows = rng.random(shape) < 0.9
    for i in range(1, shape[-1]):
        follow = follows[..., i]
        tokens[..., i][follow] = follower[tokens[..., i - 1]][follow]
    return torch.from_numpy(tokens)


class RouterWatch:
    """Sees the routing of each call of each layer: the experts of each token,
    the rows of each expert; and the least margin of all."""

    def __init__(self, model):
        self.chosen, self.rows, self.margin = [], [], math.inf
        for layer in model.model.layers:
            layer.mlp.gate.register_forward_hook(self.see)

    def see(self, gate, inputs, outputs):
        logits, _, chosen = outputs
        self.chosen.append(chosen.sort().values.tolist())
        rows = torch.bincount(chosen.flatten(), minlength=gate.num_experts)
        self.rows.append(rows.tolist())
        if gate.top_k < gate.num_experts:
            best = logits.detach().topk(gate.top_k + 1, dim=-1).values
            gap = (best[:, -2] - best[:, -1]).min().item()
            self.margin = min(self.margin, gap)


def train(config, weights, tokens, dtype):
    """Losses, gradient norms, the first gradients and the routing. The
    optimizer's state and the weights it updates are f64 for f64, else f32."""
    model = make_model(config, dtype)
    model.load_state_dict(weights)
    watch = RouterWatch(model)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    working = list(model.parameters())
    masters = [p.detach().to(wide).clone() for p in working]
    optimizer = torch.optim.AdamW(masters, **ADAMW)
    losses, norms, gradients = [], [], None
    for step_tokens in tokens:
        inputs, labels = step_tokens[:, :-1], step_tokens[:, 1:]
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1).to(wide), labels.flatten())
        model.zero_grad()
        loss.backward()
        if gradients is None:
            gradients = checkpoint_tensors(
                (n, p.grad) for n, p in model.named_parameters()
            )
        for master, parameter in zip(masters, working):
            master.grad = parameter.grad.to(wide)
        squares = sum(m.grad.double().square().sum() for m in masters)
        losses.append(loss.item())
        norms.append(math.sqrt(squares.item()))
        optimizer.step()
        with torch.no_grad():
            for master, parameter in zip(masters, working):
                parameter.copy_(master)
    return losses, norms, gradients, watch


def check_against_loader(folder, weights):
    """Hugging Face's own loader must find, under the names written, exactly
    the tensors that the model has."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copy(folder / "config.json", copy)
        shutil.copy(folder / "weights.safetensors", f"{copy}/model.safetensors")
        model, info = Qwen3MoeForCausalLM.from_pretrained(
            copy, dtype=torch.float32, output_loading_info=True
        )
    assert not any(info.values()), info
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, weights[name].float()), name


def deviation(values, reference):
    """The largest difference relative to the largest reference value."""
    values, reference = (
        torch.as_tensor(t, dtype=torch.float64) for t in (values, reference)
    )
    scale = reference.abs().max().item()
    difference = (values - reference).abs().max().item()
    return difference / scale if scale else difference


def write_variant(folder, name, seed, sequence, config, starved=None, dtype=None):
    folder.mkdir(parents=True, exist_ok=True)
    settings = dict(sorted({**COMMON, **config}.items()))
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    config = Qwen3MoeConfig.from_pretrained(folder)

    rng = np.random.default_rng(seed)
    stored = dtype or torch.float32
    model = make_model(config, torch.float64)
    randomize(model, rng, starved)
    model = model.to(stored)
    weights = model.state_dict()
    save_file(
        checkpoint_tensors(model.named_parameters()),
        folder / "weights.safetensors",
        metadata={"format": "pt"},
    )
    check_against_loader(folder, weights)

    shape = (STEPS, SAMPLES, sequence + 1)
    tokens = draw_tokens(rng, shape, config.vocab_size)
    save_file({"tokens": tokens}, folder / "tokens.safetensors")
    tokens = tokens.long()

    reference = dtype or torch.float64
    losses, norms, gradients, watch = train(config, weights, tokens, reference)
    f32 = train(config, weights, tokens, torch.float32)
    layers = config.num_hidden_layers
    assert watch.chosen[:layers] == f32[3].chosen[:layers], "routing differs"
    assert stored != torch.float32 or watch.margin >= LEAST_MARGIN, watch.margin
    for layer, experts in enumerate(starved or []):
        for rows in watch.rows[layer::layers]:
            assert not any(rows[e] for e in experts), rows
    save_file(
        {n: g.float() for n, g in gradients.items()},
        folder / "gradients.safetensors",
        metadata={"format": "pt"},
    )
    result = {
        "computed_in": str(reference).removeprefix("torch."),
        "optimizer": ADAMW,
        "losses": losses,
        "grad_norms": norms,
        # [layer][expert], of step 0.
        "expert_rows": watch.rows[:layers],
    }
    (folder / "losses.json").write_text(json.dumps(result, indent=2) + "\n")

    size = sum(file.stat().st_size for file in folder.iterdir())
    print(
        f"{name}: {size} bytes; margin {watch.margin:.1e}; f32 deviates by",
        f"{deviation(f32[0], losses):.1e} (losses),",
        f"{deviation(f32[1], norms):.1e} (norms),",
        f"{max(deviation(f32[2][n], gradients[n]) for n in gradients):.1e}",
        f"(gradients); losses {losses[0]:.4f} .. {losses[-1]:.4f}",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="where to write")
    parser.add_argument("--variant", choices=VARIANTS, help="only this one")
    arguments = parser.parse_args()
    logging.disable_progress_bar()
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    for name, variant in VARIANTS.items():
        if arguments.variant in (None, name):
            write_variant(arguments.folder / name, name, **variant)


if __name__ == "__main__":
    main()
