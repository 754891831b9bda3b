"""Changes of a model's positions: longer tables, and TUPE from learned positions."""

import argparse

import pytest
import torch

from helpers.crafted import OPTIONS, E, whole_state
from helpers.position_cases import DIM, MAX, Case, build
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.checkpoint.convert import Model, untie
from tupe_fairseq.checkpoint.extend import longer_table

# ---- Longer tables ------------------------------------------------------------------------------


def by_loops(rows, number, method):
    """The rows of positions 1, 2, ... one at a time, as the help of the command describes them."""
    found = []
    for place in range(number):
        if method == "tile":
            found.append(rows[place % len(rows)])
        else:
            exact = place * (len(rows) - 1) / (number - 1)
            before = min(int(exact), len(rows) - 1)
            after = rows[min(before + 1, len(rows) - 1)]
            found.append(rows[before] + (exact - before) * (after - rows[before]))
    return torch.stack(found)


@pytest.mark.parametrize("name", ["learned", "tupe", "disentangled"])
@pytest.mark.parametrize("method", ["tile", "interpolate"])
def test_rows_are_those_of_a_loop(method, name):
    position, of_cls = build(Case(name, {})), 2 if name == "tupe" else 1
    table = position.get_parameter(position.TABLE).detach()
    for max_positions in (MAX + 1, 3 * MAX + 2):
        found = longer_table(table, MAX, max_positions, method)
        assert found.shape == (max_positions + of_cls - 1, DIM)
        assert found[:of_cls].equal(table[:of_cls])
        wanted = by_loops(table[of_cls:], max_positions - 1, method)
        torch.testing.assert_close(found[of_cls:], wanted)


# ---- Untied positions ---------------------------------------------------------------------------


def learned():
    """Options and tensors of a small learned model."""
    more = {"position_encoding": "learned", "attn_impl": "auto"}
    options = argparse.Namespace(**{**OPTIONS, **more})
    encoder = TupeEncoder(TupeConfig.from_roberta_options(options))
    kept = {k: v for k, v in whole_state()["model"].items() if not k.startswith(E)}
    words = kept["encoder.lm_head.weight"]
    tensors = {E + name: tensor for name, tensor in encoder.state_dict().items()}
    return options, {**tensors, **kept, E + "embed_tokens.weight": words}


def test_what_is_changed_and_what_is_not():
    options, model = learned()
    before = {name: tensor.clone() for name, tensor in model.items()}
    made = untie(Model(model, options, []))
    new, new_options = made.tensors, made.options
    assert options.position_encoding == "learned" and new_options.position_encoding == "tupe"
    assert all(model[name].equal(tensor) for name, tensor in before.items())
    config = TupeConfig.from_roberta_options(new_options)
    names = {E + name for name in TupeEncoder(config).state_dict()}
    assert {name for name in new if name.startswith(E)} == {*names, E + "embed_tokens.weight"}
    table = model[E + "position_bias.pos.weight"]
    moved = new[E + "embed_tokens.weight"] - model[E + "embed_tokens.weight"]
    torch.testing.assert_close(moved[0], table[0])
    assert not moved[1].any()
    torch.testing.assert_close(moved[2:], table[1:].mean(0).expand_as(moved[2:]))
    assert new["encoder.lm_head.weight"].equal(new[E + "embed_tokens.weight"])
    assert new[E + "layers.1.fc1.weight"].equal(model[E + "layers.1.fc1.weight"])
    assert "train it further before you use it" in made.remarks[-1]
    again = untie(Model(model, options, [])).tensors
    assert all(again[name].equal(tensor) for name, tensor in new.items())
