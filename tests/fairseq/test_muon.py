"""--optimizer muon: its numbers, which weights it takes, and fairseq's doors to it."""

import argparse
import math
import re

import numpy as np
import pytest
import torch
from fairseq import optim
from fairseq.data import Dictionary
from omegaconf import OmegaConf

from helpers import training
from helpers.position_cases import LARGEST, encoder_of, parametrized
from tupe_fairseq.matrices import Matrices, mark_matrices, stacked_matrices
from tupe_fairseq.models.tupe_transformer import TupeTransformer, tupe_architecture
from tupe_fairseq.optim.muon import Muon, MuonConfig, orthogonalize
from tupe_fairseq.position import CATALOGUE

LAST, AT_5 = "checkpoint_last.pt", "checkpoint_1_5.pt"
MUON = ["--rel-pos", "--optimizer", "muon"]

# ---- Numbers ------------------------------------------------------------------------------------


def polynomial(s):
    """What five steps make of a singular value."""
    for _ in range(5):
        s = 3.4445 * s - 4.775 * s**3 + 2.0315 * s**5
    return s


def in_loops(matrices, gradients, lr, weight_decay):
    """Updates of one matrix after the other in float64, by the singular values; returns all."""
    momentum = [np.zeros_like(x) for x in matrices]
    for step in gradients:
        for n, g in enumerate(step):
            momentum[n] = 0.95 * momentum[n] + 0.05 * g
            u, s, vt = np.linalg.svd(0.05 * g + 0.95 * momentum[n], full_matrices=False)
            direction = u @ np.diag(polynomial(s / np.sqrt((s**2).sum()))) @ vt
            rate = lr * 0.2 * math.sqrt(max(g.shape))
            matrices[n] = (1 - lr * weight_decay) * matrices[n] - rate * direction
    return matrices


def saved_groups(path):
    return torch.load(path, weights_only=False)["last_optimizer_state"]["param_groups"]


def steps_of(optimizer, weights, gradients):
    for step in gradients:
        for weight, gradient in zip(weights, step):
            weight.grad = gradient.to(weight)
        optimizer.step()


def test_updates_are_those_of_loops():
    """Of wide and tall matrices, and of stacked ones, each for itself."""
    sizes = {(3, 7): 1, (7, 3): 1, (5, 5): 1, (15, 5): 3, (2, 9): 1}
    weights = [torch.nn.Parameter(torch.randn(size)) for size in sizes]
    for weight, number in zip(weights, sizes.values()):
        weight.param_group = Matrices(number)
    gradients = [[torch.randn(size) for size in sizes] for _ in range(4)]

    def matrices(tensors):
        parts = [x.detach().double().chunk(n) for x, n in zip(tensors, sizes.values())]
        return [part.numpy() for of_weight in parts for part in of_weight]

    expected = in_loops(matrices(weights), [matrices(step) for step in gradients], 0.3, 0.1)
    group = {"params": weights, "muon_lr_ratio": 3.0}
    steps_of(Muon([group], lr=0.1, weight_decay=0.1), weights, gradients)
    for actual, wanted in zip(matrices(weights), expected):
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=2e-6)  # float32 of values up to 3


def test_singular_values_come_close_to_1():
    x = torch.randn(4, 40, 60)
    u, s, vt = torch.linalg.svd(x, full_matrices=False)
    singular = u.mT @ orthogonalize(x) @ vt.mT
    values = singular.diagonal(dim1=1, dim2=2)
    assert values.min() > 0.65 and values.max() < 1.25  # the band of the coefficients
    torch.testing.assert_close(singular, torch.diag_embed(values), rtol=0, atol=1e-5)
    assert orthogonalize(torch.zeros(1, 2, 3)).equal(torch.zeros(1, 2, 3))


def test_torchs_own_is_the_same_within_bfloat16():
    weights = [torch.nn.Parameter(torch.randn(size)) for size in ((12, 20), (20, 12), (12, 12))]
    for weight in weights:
        weight.param_group = Matrices(1)
    others = [torch.nn.Parameter(weight.detach().clone()) for weight in weights]
    gradients = [[torch.randn(x.shape) for x in weights] for _ in range(3)]
    torchs = torch.optim.Muon(others, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    steps_of(torchs, others, gradients)
    group = {"params": weights, "muon_lr_ratio": 2.0}
    steps_of(Muon([group], lr=0.01, weight_decay=0.1), weights, gradients)
    for ours, theirs in zip(weights, others):
        # 3 updates of 0.02 * 0.2 * sqrt(20) * (values of up to 1 with 8 bits)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=3 * 0.018 * 2**-6)


# ---- Which weights ------------------------------------------------------------------------------

ADAMWS = "self_attn_layer_norm.weight self_attn_layer_norm.bias final_layer_norm.weight "
ADAMWS += "final_layer_norm.bias fc1.bias fc2.bias"
#: the parameters of a layer, and how many matrices for Muon each of them is
OF_BOTH = {**dict.fromkeys(ADAMWS.split(), 0), "fc1.weight": 1, "fc2.weight": 1}
OF_ENCODER = {**OF_BOTH, "self_attn.in_proj_weight": 3, "self_attn.in_proj_bias": 0}
OF_ENCODER |= {"self_attn.out_proj.weight": 1, "self_attn.out_proj.bias": 0}
PROJECTIONS = [f"{x}_attn.{y}_proj" for x in ("self", "encoder") for y in ("q", "k", "v", "out")]
OF_DECODER = {**OF_BOTH, **{f"encoder_attn_layer_norm.{x}": 0 for x in ("weight", "bias")}}
OF_DECODER |= {f"{x}.weight": 1 for x in PROJECTIONS} | {f"{x}.bias": 0 for x in PROJECTIONS}
#: the same for each encoding; those of a per_layer one are the layers'
UNTIED = {"pos.weight": 0, "pos_ln.weight": 0, "pos_ln.bias": 0}
UNTIED |= {"pos_q_proj.weight": 1, "pos_q_proj.bias": 0}
UNTIED |= {"pos_k_proj.weight": 1, "pos_k_proj.bias": 0}
T5 = {"relative.relative_attention_bias.weight": 0}
GLOBAL = {"global_content_bias": 0, "global_position_bias": 0, "pos_k_proj.weight": 1}
FIRE = ["c", "threshold", "hidden_weight", "hidden_bias", "out_weight"]
OF_ENCODINGS = {
    "tupe": {**T5, **{f"untied_absolute.{name}": number for name, number in UNTIED.items()}},
    "learned": {**T5, "pos.weight": 0},
    "sinusoidal": T5,
    "none": T5,
    "transformer-xl": GLOBAL,
    "enformer": GLOBAL,
    "rope": {},
    "pope": {"phases": 0},
    "alibi": {"cls_to_other": 0, "other_to_cls": 0},
    "fire": dict.fromkeys(FIRE, 0),
    "kerple": {"log_r1": 0, "log_r2": 0},
    "shaw": {"relative_keys.weight": 0},
    "disentangled": {**T5, **UNTIED},
    "deberta": {"rel_embeddings.weight": 0, "rel_ln.weight": 0, "rel_ln.bias": 0},
}


#: without those that tests register
OURS = [name for name, x in CATALOGUE.items() if x.__module__.startswith("tupe_fairseq.")]


def sides(module):
    """How many matrices for Muon each parameter is; the layers' have the same names."""
    named = module.named_parameters()
    return {re.sub(r"\blayers\.\d+", "layers", name): stacked_matrices(p) for name, p in named}


def expected_sides(of_layer, encoding, shared):
    """The same of a stack of layers; ``shared`` is the name of an encoding that they share."""
    place = "layers.self_attn.position" if CATALOGUE[encoding].per_layer else shared
    layers = {f"layers.{name}": number for name, number in of_layer.items()}
    own = OF_ENCODINGS[encoding].items()
    return layers | {f"{place}.{name}": number for name, number in own}


@parametrized([case for case in LARGEST if case.name in OURS])
def test_sides_of_an_encoder(case):
    expected = expected_sides(OF_ENCODER, case.name, "position_bias")
    expected |= {f"layernorm_embedding.{x}": 0 for x in ("weight", "bias")}
    encoder = encoder_of(case)
    mark_matrices(encoder)
    assert sides(encoder) == expected


class Task:
    """The part of a task that a translator needs."""

    source_dictionary = target_dictionary = Dictionary()


# no decoder unties alibi's [CLS]
@pytest.mark.parametrize("encoding", [name for name in OURS if name != "alibi"])
def test_sides_of_a_decoder(encoding):
    sizes = {"layers": 2, "embed_dim": 12, "attention_heads": 3, "ffn_embed_dim": 10}
    args = argparse.Namespace(
        **{f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in sizes.items()},
        position_encoding=encoding, rel_pos="rel_pos" in CATALOGUE[encoding].takes,
        max_source_positions=11, max_target_positions=11, cross_positions=True,
    )  # fmt: skip
    tupe_architecture(args)
    model = TupeTransformer.build_model(args, Task)
    expected = expected_sides(OF_DECODER, encoding, "position")
    expected |= {f"cross_positions.{name}": number for name, number in UNTIED.items()}
    expected |= {"embed_tokens.weight": 0, "output_projection.weight": 0}
    assert sides(model.decoder) == expected
    encoder = expected_sides(OF_ENCODER, encoding, "position_bias")
    assert encoder.items() <= sides(model.encoder.stack).items()


def test_embeddings_and_heads_are_adamws(data):
    model = training.build(data, *training.MODEL, *training.PRETRAINING)[1]
    model.register_classification_head("text", 3)
    model.register_tagging_head("tags", 3)
    marked = {name for name, number in sides(model).items() if number}
    expected = expected_sides(OF_ENCODER, "tupe", "position_bias").items()
    assert marked == {f"encoder.sentence_encoder.{name}" for name, number in expected if number}


# ---- fairseq's doors ----------------------------------------------------------------------------

PRECISIONS = {
    "fp32": [],
    "bf16": ["--bf16"],
    "efficient-bf16": ["--memory-efficient-bf16"],
    "fp16": ["--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", 4],
    "efficient-fp16": ["--memory-efficient-fp16", "--fp16-init-scale", 4],
    "amp": ["--amp"],
}
every_precision = pytest.mark.parametrize("precision", PRECISIONS)


@every_precision
def test_it_trains_and_resumes_to_the_same_weights(precision, data, tmp_path):
    flags = [*MUON, *PRECISIONS[precision], "--update-freq", 2, "--lr", 3e-3, "--batch-size", 16]
    flags += ["--max-update", 10, "--save-interval-updates", 5]
    losses = training.losses(training.pretrain(data, tmp_path / "a", *flags))
    assert len(losses) == 10 and losses[-1] < losses[0]
    checkpoint = next((tmp_path / "a").glob("checkpoint_*_5.pt"))
    training.pretrain(data, tmp_path / "b", *flags, "--restore-file", checkpoint)
    # of float32 copies fairseq saves only 16 bits
    atol = {"bf16": 2e-2, "fp16": 2e-3}.get(precision, 0)
    training.assert_same_weights(tmp_path / "a" / LAST, tmp_path / "b" / LAST, atol=atol)


#: the flags that each schedule needs
SCHEDULES = {
    "cosine": ["--lr-period-updates", 4],
    "fixed": ["--warmup-updates", 2],
    "inverse_sqrt": ["--warmup-updates", 2],
    "manual": ["--update2lr", "{'1-2': 0.02, '3': 0.01}"],
    "polynomial_decay": ["--total-num-update", 5],
    "reduce_lr_on_plateau": ["--warmup-updates", 2],
    "step": ["--warmup-updates", 2],
    "tri_stage": ["--phase-ratio", "(0.2, 0.3, 0.5)"],
    "triangular": ["--max-lr", 0.1],
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_both_sides_follow_the_schedule(schedule, data, tmp_path):
    other = len(training.OPTIMIZATION), len(training.OPTIMIZATION + training.DECAY)
    flags = [*training.PRETRAINING[: other[0]], *training.PRETRAINING[other[1] :], *MUON]
    flags += ["--lr-scheduler", schedule, "--max-update", 3, *SCHEDULES[schedule]]
    done = training.train(data, tmp_path, *training.MODEL, *flags)
    rates = [float(x["lr"]) for x in training.records(done) if x["kind"] == "train_inner"]
    assert len(rates) == 3 and min(rates) > 0
    saved = [group["lr"] for group in saved_groups(tmp_path / LAST)]
    assert saved == pytest.approx([rates[-1]] * 2, rel=1e-3)  # the log rounds


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_another_optimizers_state_is_refused(precision, data, tmp_path):
    """In both directions; with 16 bits fairseq would not see it."""

    def train(before, *after):
        folder = tmp_path / before
        flags = ["--rel-pos", *PRECISIONS[precision], "--max-update", 2, "--optimizer", before]
        return training.pretrain(data, folder, *flags, *after)

    for before, *others in (("adam", "muon"), ("muon", "adam", "fused_adam")):
        train(before)
        for after in others:
            words = f"was {before} and is now {after}; add --reset-optimizer"
            with pytest.raises(ValueError, match=words):
                train(before, "--optimizer", after)
    train("adam", "--optimizer", "muon", "--reset-optimizer")
    assert len(saved_groups(tmp_path / "adam" / LAST)) == 2


def build(params, **options):
    cfg = OmegaConf.structured(MuonConfig(lr=[0.1], **options))
    cfg._name = "muon"
    return optim.build_optimizer(cfg, params)


def test_parameters_without_matrices_are_refused(data, tmp_path):
    stock = [*training.MODEL, "--arch", "roberta_base", *training.PRETRAINING]
    stock += ["--task", "masked_lm", "--optimizer", "muon"]
    with pytest.raises(ValueError, match="finds no matrices: it needs a tupe_"):
        training.train(data, tmp_path, *stock)
    flat = {0: torch.nn.Parameter(torch.zeros(9))}  # what --fp16 gives to an optimizer
    with pytest.raises(ValueError, match="--fp16-no-flatten-grads with --fp16"):
        build([flat])


def test_the_ratio(data, tmp_path):
    with pytest.raises(ValueError, match=r"--muon-lr-ratio \(0.0\) must be above 0"):
        training.pretrain(data, tmp_path, *MUON, "--muon-lr-ratio", 0)
    training.pretrain(data, tmp_path / "a", *MUON, "--max-update", 1, "--muon-lr-ratio", 3)
    ratios = [group["muon_lr_ratio"] for group in saved_groups(tmp_path / "a" / LAST)]
    assert ratios == [None, 3]
