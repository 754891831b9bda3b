"""Number for number the authors' model: hidden states, logits, loss and every gradient."""

import argparse
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.checkpoint.from_authors import our_tensor_name

GOLDENS = Path(__file__).parent.parent / "goldens"
NAMES = ["tupe_a", "tupe_r", "tupe_r_long", "tupe_r_finetuned"]
WAYS = ["eager", "sdpa", "chunked"]
CASES = [(name, way, "cpu") for name in NAMES for way in WAYS]
if torch.cuda.is_available():
    CASES += [(name, way, "cuda") for name in NAMES for way in ("eager", "sdpa", "triton")]
elif importlib.util.find_spec("triton"):  # in its interpreter
    marks = {name: pytest.mark.slow for name in NAMES if name != "tupe_r"}
    CASES += [pytest.param(name, "triton", "cpu", marks=marks.get(name, ())) for name in NAMES]
ENCODER, HEAD = "encoder.sentence_encoder.", "classification_heads.sentence_classification_head."
PAD = 1


def read(name, device):
    """Options and tensors of the authors' checkpoint under our names, and their arrays."""
    with torch.serialization.safe_globals([argparse.Namespace]):
        saved = torch.load(GOLDENS / f"{name}.pt", map_location=device, weights_only=True)
    with np.load(GOLDENS / f"{name}.npz") as arrays:
        theirs = {key: torch.from_numpy(arrays[key]).to(device) for key in arrays.files}
    return saved["args"], {our_tensor_name(n): x for n, x in saved["model"].items()}, theirs


def build(args, tensors, way, device):
    """The encoder with the authors' weights, and all other parameters as leaves."""
    config = TupeConfig(
        embed_dim=args.encoder_embed_dim, num_heads=args.encoder_attention_heads,
        num_layers=args.encoder_layers, ffn_embed_dim=args.encoder_ffn_embed_dim,
        max_positions=args.max_positions, normalize_before=args.encoder_normalize_before,
        activation_fn=args.activation_fn, rel_pos=bool(args.rel_pos), attn_impl=way,
    )  # fmt: skip
    encoder = TupeEncoder(config).eval().to(device)
    state = {"position_version": encoder.position_version}
    others = {}
    for name, tensor in tensors.items():
        if name.removeprefix(ENCODER) in encoder.state_dict():
            state[name.removeprefix(ENCODER)] = tensor.float()
        else:
            others[name] = tensor.float().clone().requires_grad_()
    encoder.load_state_dict(state)
    return encoder, others


def lm_logits(p, features):
    x = F.gelu(
        F.linear(features, p["encoder.lm_head.dense.weight"], p["encoder.lm_head.dense.bias"])
    )
    norm = p["encoder.lm_head.layer_norm.weight"], p["encoder.lm_head.layer_norm.bias"]
    x = F.layer_norm(x, x.shape[-1:], *norm)
    return F.linear(x, p[ENCODER + "embed_tokens.weight"], p["encoder.lm_head.bias"])


def assert_as_theirs(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name, way, device", CASES)
def test_the_authors_model(name, way, device):
    args, tensors, theirs = read(name, device)
    encoder, others = build(args, tensors, way, device)
    tokens, masked = theirs["tokens"], theirs["masked"].bool()
    real = tokens != PAD
    words = F.embedding(tokens, others[ENCODER + "embed_tokens.weight"], padding_idx=PAD)
    features, hiddens = encoder(words, ~real, return_all_hiddens=True)
    assert_as_theirs(features[real], theirs["features"][real])
    assert len(hiddens) == sum(key.startswith("hidden_") for key in theirs) > 1
    for number, hidden in enumerate(hiddens):
        assert_as_theirs(hidden[real], theirs[f"hidden_{number}"].transpose(0, 1)[real])
    if "class_logits" in theirs:
        x = F.linear(features[:, 0], others[HEAD + "dense.weight"], others[HEAD + "dense.bias"])
        out = others[HEAD + "out_proj.weight"], others[HEAD + "out_proj.bias"]
        assert_as_theirs(F.linear(x.tanh(), *out), theirs["class_logits"])

    logits = lm_logits(others, features[masked])
    loss = F.cross_entropy(logits, theirs["targets"], reduction="sum")
    loss.backward()
    assert_as_theirs(logits, theirs["logits"])
    # per token: a float32 sum over many tokens is not exact to 2e-5
    assert_as_theirs(loss / len(logits), theirs["loss"].float() / len(logits))

    ours = {ENCODER + n: p for n, p in encoder.named_parameters()} | others
    expected = {our_tensor_name(k[5:]): x for k, x in theirs.items() if k.startswith("grad/")}
    without = set(ours) - set(expected)
    assert all(
        n.startswith("classification_heads.") or n == "encoder.lm_head.weight" for n in without
    )
    for parameter, gradient in expected.items():
        # what the file holds of a key's bias, which cancels in the softmax, is rounding: the floor
        allowed = max(2e-5 * gradient.abs().max().item(), 1e-7)
        error = (ours[parameter].grad - gradient).abs().max().item()
        assert error <= allowed, f"{parameter}: {error} > {allowed}"
