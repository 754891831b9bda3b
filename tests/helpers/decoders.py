"""Decoders at toy size with large random position parameters, and their loops in float64."""

import argparse
import math

import torch
from fairseq.data import Dictionary

from helpers import reference
from helpers.papers import Entry
from helpers.position_cases import ALL, randomize
from tupe_fairseq.models.tupe_transformer import TupeTransformer, tupe_architecture
from tupe_fairseq.models.tupe_transformer_lm import TupeLanguageModel, sized_architecture

#: the position encodings with the options that decoders take
CASES = [case for case in ALL if not {"tie_cls", "untie_cls"} & set(case.options)]
# all different, so that a wrong axis fails; a head of even width, as rope needs
DIM, HEADS, FFN, MAX = 12, 3, 10, 11
SIZES = {"layers": 2, "embed_dim": DIM, "attention_heads": HEADS, "ffn_embed_dim": FFN}


class Task:
    """What a model takes of its task."""

    def __init__(self):
        self.source_dictionary = self.target_dictionary = Dictionary()
        for number in range(19):
            self.source_dictionary.add_symbol(f"w{number}")


TASK = Task()
PAD, EOS = TASK.source_dictionary.pad(), TASK.source_dictionary.eos()


def language_model(case, dtype=torch.float64, **options):
    args = argparse.Namespace(
        **{f"decoder_{name}": size for name, size in SIZES.items()}, dropout=0.0,
        max_target_positions=MAX, position_encoding=case.name, **{**case.options, **options},
    )  # fmt: skip
    sized_architecture(args, (2, DIM, HEADS))
    return _random(TupeLanguageModel.build_model(args, TASK), dtype)


def translator(case, dtype=torch.float64, **options):
    sizes = {f"{side}_{name}": SIZES[name] for side in ("encoder", "decoder") for name in SIZES}
    args = argparse.Namespace(
        **sizes, dropout=0.0, max_source_positions=MAX, max_target_positions=MAX + 2,
        position_encoding=case.name, **{**case.options, **options},
    )  # fmt: skip
    tupe_architecture(args)
    return _random(TupeTransformer.build_model(args, TASK), dtype)


def _random(model, dtype):
    """All parameters random, so that a position changes every output by much."""
    return randomize(model.double()).to(dtype).eval()


def tokens(*shape, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, len(TASK.source_dictionary), shape, generator=generator)


def step_by_step(decoder, prev_output_tokens, encoder_out=None):
    """The outputs of incremental decoding, one token at a time."""
    state = {}
    steps = [
        decoder(prev_output_tokens[:, : n + 1], encoder_out, incremental_state=state)[0]
        for n in range(prev_output_tokens.size(1))
    ]
    return torch.cat(steps, dim=1)


# ---- The same in loops, one sequence at a time --------------------------------------------------


def _attention(p, x, source, logit):
    """One sequence: queries from x, keys and values from source, those that ``logit`` shows."""
    q = [reference.linear(t, p["q_proj.weight"], p["q_proj.bias"]) for t in x]
    k, v = (
        [reference.linear(t, p[f"{name}_proj.weight"], p[f"{name}_proj.bias"]) for t in source]
        for name in "kv"
    )
    out = []
    for i in range(len(x)):
        heads = []
        for h in range(HEADS):
            q_h = reference.head(q[i], h, HEADS)
            scores = [logit(h, q_h, reference.head(k[j], h, HEADS), i, j) for j in range(len(k))]
            weights = [0 if s is None else torch.exp(s) for s in scores]
            values = [w / sum(weights) * reference.head(t, h, HEADS) for w, t in zip(weights, v)]
            heads.append(sum(values))
        out.append(reference.linear(torch.cat(heads), p["out_proj.weight"], p["out_proj.bias"]))
    return out


def decoder_in_loops(p, case, row, added, pre_ln, activation, source=None, cross_logit=None):
    """The features of one sequence of tokens; ``added``: what positions add to the words."""

    def norm(x, q, name):
        return [reference.layer_norm(t, q[name + ".weight"], q[name + ".bias"]) for t in x]

    x = [math.sqrt(DIM) * p["embed_tokens.weight"][token] for token in row]
    x = x if added is None else [t + u for t, u in zip(x, added)]
    for number in range(SIZES["layers"]):
        q = reference.sub(p, f"layers.{number}.")
        prefix = "position." if any(name.startswith("position.") for name in p) else ""
        own = reference.sub(p, prefix) if prefix else reference.sub(q, "self_attn.position.")
        longest = MAX if source is None else MAX + 2
        options = {**case.options, "tie_cls": True}
        entry = Entry(own, DIM, HEADS, longest, case.name, options, causal=True)

        def logit(h, query, key, i, j, entry=entry):
            return entry.logit(h, query, key, i, j) if j <= i else None

        blocks = [("self_attn", logit, None)]
        if source is not None:
            blocks.append(("encoder_attn", cross_logit, source))
        for name, score, keys in blocks:
            y = norm(x, q, f"{name}_layer_norm") if pre_ln else x
            y = _attention(reference.sub(q, f"{name}."), y, y if keys is None else keys, score)
            x = [a + b for a, b in zip(x, y)]
            x = x if pre_ln else norm(x, q, f"{name}_layer_norm")
        y = norm(x, q, "final_layer_norm") if pre_ln else x
        y = [reference.linear(t, q["fc1.weight"], q["fc1.bias"]) for t in y]
        y = [reference.linear(activation(t), q["fc2.weight"], q["fc2.bias"]) for t in y]
        x = [a + b for a, b in zip(x, y)]
        x = x if pre_ln else norm(x, q, "final_layer_norm")
    return torch.stack(norm(x, p, "layer_norm") if pre_ln else x)
