"""The catalogue, and what building from it refuses."""

import argparse
import inspect

import pytest
import torch
from tupe_fairseq.position.known_schemes import SCHEME_NAMES

from helpers.position_cases import ALL, DIM, HEADS, MAX, REL_POS, build, parametrized, random_heads
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.position import (
    CATALOGUE,
    PositionEncoding,
    build_position_encoding,
    get_position_encoding,
)

SIZES = {"embed_dim": DIM, "num_heads": HEADS, "max_positions": MAX}
OPTIONS = sorted({option for scheme in CATALOGUE.values() for option in scheme.OPTIONS})
WITH_REL_POS = [name for name in CATALOGUE if "rel_pos" in CATALOGUE[name].OPTIONS]
VALUES = {"rel_pos_buckets": 8, "max_rel_pos": 5}


@parametrized(ALL)
def test_it_is_what_the_catalogue_says(case):
    position = build(case, torch.float32)
    assert type(position) is CATALOGUE[case.name] is get_position_encoding(case.name)
    assert isinstance(position, PositionEncoding) and not position.causal
    sizes = position.embed_dim, position.num_heads, position.max_positions
    assert sizes == (DIM, HEADS, MAX) and position.head_dim * HEADS == DIM
    assert position.scaling > 0


def test_every_name_has_its_class():
    assert tuple(CATALOGUE) == SCHEME_NAMES


@parametrized(ALL)
def test_the_declared_attributes_tell_the_truth(case):
    """The encoder asks only those hooks that a scheme declares."""
    scheme, base = CATALOGUE[case.name], PositionEncoding
    assert scheme.adds_to_input == (scheme.embed is not base.embed)
    changes = scheme.transform is not base.transform or scheme.content_bias is not base.content_bias
    assert scheme.reads_content == changes
    position = build(case, torch.float32)
    added = position.embed(3)
    assert (added is not None) == scheme.adds_to_input
    assert added is None or added.shape == (3, DIM)
    bias = position.position_bias(3)
    assert bias is None or bias.shape == (HEADS, 3, 3)
    assert (bias is None) == (position(3) is None)
    if scheme.per_layer:  # of which the encoder asks (b) and (d) alone
        assert scheme.reads_content and bias is None and not scheme.adds_to_input


# for width D, H heads of width K and M positions, as in examples/positions/README.md
D, H, K, M = DIM, HEADS, DIM // HEADS, MAX
PARAMETERS = {
    "tupe": (M + 1) * D + 2 * D**2 + 4 * D,
    "learned": M * D,
    "sinusoidal": 0,
    "none": 0,
    "transformer-xl": D**2 + 2 * D,
    "enformer": 6 * D + 2 * D,  # 6 features, at least one of each class and sign
    "rope": 0,
    "alibi": 0,
    "shaw": (2 * 16 + 1) * K,
    "disentangled": M * D + 2 * D**2 + 4 * D,
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_parameter_count(name):
    def count(**options):
        position = build_position_encoding(name, **SIZES, **options)
        return sum(parameter.numel() for parameter in position.parameters())

    assert count() == PARAMETERS[name]
    if name in WITH_REL_POS:
        assert count(rel_pos=True) == PARAMETERS[name] + 33 * H


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_tells_its_equation_and_its_paper(name):
    scheme = CATALOGUE[name]
    assert "logits = " in scheme.__doc__ or "bias = " in scheme.__doc__
    source = inspect.getsource(inspect.getmodule(scheme))
    assert "Source: " in source and "https://" in source


def test_without_options_none_and_false_mean_not_given():
    absent = dict.fromkeys(OPTIONS)
    for name in CATALOGUE:
        for value in (None, False):
            position = build_position_encoding(name, **SIZES, **dict.fromkeys(absent, value))
            theirs = build_position_encoding(name, **SIZES)
            assert list(position.state_dict()) == list(theirs.state_dict())
            q = random_heads(dtype=torch.float32)
            theirs.load_state_dict(position.state_dict())
            assert position.forward_attn(q, q).equal(theirs.forward_attn(q, q))


def test_an_unknown_name_lists_those_there_are():
    message = rf"unknown position encoding 'rotary'.*--position-encoding.*{', '.join(CATALOGUE)}"
    for refuse in (
        lambda: build_position_encoding("rotary", **SIZES),
        lambda: get_position_encoding("rotary"),
        lambda: TupeEncoder(TupeConfig(position_encoding="rotary")),
    ):
        with pytest.raises(ValueError, match=message):
            refuse()


@pytest.mark.parametrize(
    "name, option",
    [
        (n, o)
        for n, scheme in CATALOGUE.items()
        for o in [*OPTIONS, "window"]
        if o not in scheme.OPTIONS
    ],
)
def test_an_option_of_another_scheme_is_refused(name, option):
    flag = option.replace("_", "-")
    message = rf"'{name}' does not take {option} \(.*Drop --{flag}"
    given = {option: VALUES.get(option, True)}
    with pytest.raises(ValueError, match=message):
        build_position_encoding(name, **SIZES, **given)
    if hasattr(TupeConfig, option):
        with pytest.raises(ValueError, match=message):
            TupeEncoder(TupeConfig(position_encoding=name, **given))


@pytest.mark.parametrize("name", WITH_REL_POS)
def test_options_that_need_rel_pos_are_refused_without_it(name):
    takes = CATALOGUE[name].OPTIONS
    for option in ("rel_pos_buckets", "max_rel_pos", "untie_cls"):
        if option not in takes:
            continue
        given = {option: VALUES.get(option, True)}
        message = rf"{option} \(.*has no effect without rel_pos; add --rel-pos"
        with pytest.raises(ValueError, match=message):
            build_position_encoding(name, **SIZES, **given)
        with pytest.raises(ValueError, match=message):
            TupeEncoder(TupeConfig(position_encoding=name, **given))


@pytest.mark.parametrize("name", CATALOGUE)
def test_position_each_layer_needs_something_to_add(name):
    config = TupeConfig(position_encoding=name, position_each_layer=True)
    if CATALOGUE[name].adds_to_input:
        assert TupeEncoder(config).config.position_each_layer
        return
    with pytest.raises(ValueError, match=f"'{name}' adds nothing.*drop --position-each-layer"):
        TupeEncoder(config)


@pytest.mark.parametrize("name", CATALOGUE)
def test_heads_that_do_not_divide_the_width(name):
    sizes = {**SIZES, "num_heads": 5}
    with pytest.raises(ValueError, match=r"embed_dim \(12\).*num_heads \(5\).*--encoder-attention"):
        build_position_encoding(name, **sizes)


@pytest.mark.parametrize("name", WITH_REL_POS)
def test_bad_buckets(name):
    with pytest.raises(ValueError, match=r"rel_pos_buckets \(7\) must be even"):
        build_position_encoding(name, **SIZES, **{**REL_POS, "rel_pos_buckets": 7})


def test_every_scheme_and_option_is_a_flag():
    flags = pytest.importorskip("tupe_fairseq.plugin.model.flags", reason="flags of fairseq-train")
    parser = argparse.ArgumentParser()
    flags.add_tupe_args(parser)
    flags = {action.dest: action for action in parser._actions}
    assert list(flags["position_encoding"].choices) == list(CATALOGUE)
    for option in [*OPTIONS, "position_each_layer"]:
        assert flags[option].help and hasattr(TupeConfig, option), option
    # the help names those that read it
    for name, scheme in CATALOGUE.items():
        for option in {"rel_pos", "tie_cls", "untie_cls", "symmetric_basis"} & set(scheme.OPTIONS):
            assert name in flags[option].help, f"--{option} is read by {name}"
