"""The authors' model, number for number: hidden states, logits, loss and every gradient."""

import argparse
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.checkpoint.checkpoint import classification_heads
from tupe_fairseq.checkpoint.from_authors import rename_tensors
from tupe_fairseq.modules.heads import LMHead, TextHead

GOLDENS = Path(__file__).parent.parent / "goldens"
NAMES = ["tupe_a", "tupe_r", "tupe_r_long", "tupe_r_finetuned"]
WAYS = ["eager", "sdpa", "chunked"]
CASES = [(name, way, "cpu") for name in NAMES for way in WAYS]
if torch.cuda.is_available():
    CASES += [(name, way, "cuda") for name in NAMES for way in ("eager", "sdpa", "triton")]
elif importlib.util.find_spec("triton"):  # in its interpreter
    marks = {name: pytest.mark.slow for name in NAMES if name != "tupe_r"}
    CASES += [pytest.param(name, "triton", "cpu", marks=marks.get(name, ())) for name in NAMES]
PAD = 1


def read(name, device):
    """The options of the authors' checkpoint, its tensors under our names, and their results."""
    with torch.serialization.safe_globals([argparse.Namespace]):
        saved = torch.load(GOLDENS / f"{name}.pt", map_location=device, weights_only=True)
    with np.load(GOLDENS / f"{name}.npz") as arrays:
        theirs = {key: torch.from_numpy(arrays[key]).to(device) for key in arrays.files}
    return saved["args"], rename_tensors(saved["model"]), theirs


def build(args, tensors, way):
    """The model with the authors' weights; parameters have the names of a checkpoint."""
    config = TupeConfig(
        embed_dim=args.encoder_embed_dim, num_heads=args.encoder_attention_heads,
        num_layers=args.encoder_layers, ffn_embed_dim=args.encoder_ffn_embed_dim,
        max_positions=args.max_positions, normalize_before=args.encoder_normalize_before,
        activation_fn=args.activation_fn, rel_pos=bool(args.rel_pos), attn_impl=way,
    )  # fmt: skip
    encoder, dim = TupeEncoder(config), config.embed_dim
    size = len(tensors["encoder.lm_head.bias"])
    encoder.embed_tokens = nn.Embedding(size, dim, padding_idx=PAD)
    lm_head = LMHead(dim, size, config.activation_fn, encoder.embed_tokens.weight)
    parts = {"encoder": nn.ModuleDict({"sentence_encoder": encoder, "lm_head": lm_head})}
    if heads := classification_heads(tensors):
        heads = {name: TextHead(dim, dim, classes) for name, classes in heads.items()}
        parts["classification_heads"] = nn.ModuleDict(heads)
    model = nn.ModuleDict(parts).eval()
    record = {"encoder.sentence_encoder.position_version": encoder.position_version}
    model.load_state_dict({**tensors, **record})
    return model


def assert_as_theirs(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name, way, device", CASES)
def test_the_authors_model(name, way, device):
    args, tensors, theirs = read(name, device)
    model = build(args, tensors, way).to(device)
    encoder, lm_head = model["encoder"].values()
    tokens, masked = theirs["tokens"], theirs["masked"].bool()
    real = tokens != PAD
    features, hiddens = encoder(encoder.embed_tokens(tokens), ~real, return_all_hiddens=True)
    assert_as_theirs(features[real], theirs["features"][real])
    assert len(hiddens) == sum(key.startswith("hidden_") for key in theirs) > 1
    for number, hidden in enumerate(hiddens):
        assert_as_theirs(hidden[real], theirs[f"hidden_{number}"].transpose(0, 1)[real])
    if "class_logits" in theirs:
        (head,) = model["classification_heads"].values()
        assert_as_theirs(head(features), theirs["class_logits"])

    logits = lm_head(features, masked)
    loss = F.cross_entropy(logits, theirs["targets"], reduction="sum")
    loss.backward()
    assert_as_theirs(logits, theirs["logits"])
    # per token: a float32 sum over many tokens is not exact to 2e-5
    assert_as_theirs(loss / len(logits), theirs["loss"].float() / len(logits))

    ours = dict(model.named_parameters())
    expected = rename_tensors({k[5:]: x for k, x in theirs.items() if k.startswith("grad/")})
    assert all(name.startswith("classification_heads.") for name in ours.keys() - expected.keys())
    for parameter, gradient in expected.items():
        # a key's bias cancels in the softmax, so its gradient in the file is rounding: hence 1e-7
        allowed = max(2e-5 * gradient.abs().max().item(), 1e-7)
        error = (ours[parameter].grad - gradient).abs().max().item()
        assert error <= allowed, f"{parameter}: {error} > {allowed}"
