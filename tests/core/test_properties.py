"""Properties of every position encoding, in the encoder and in decoders, and of its options.

test_schemes.py compares the logits with the papers. All is float64 unless stated otherwise, so a
tolerance of 1e-11 is some thousand roundings.
"""

import copy
import dataclasses
import functools
import inspect
import json

import pytest
import torch

from helpers.position_cases import (
    ALL,
    BATCH,
    HEAD_DIM,
    HEADS,
    LARGEST,
    MAX,
    OPTION_VALUES,
    REL_POS,
    SEQ_LEN,
    SMALL,
    Case,
    assert_near,
    build,
    encoder_of,
    logits,
    parametrized,
    random_input,
)
from tupe_fairseq import TupeEncoder
from tupe_fairseq.modules.record import check_record, recorded_options
from tupe_fairseq.options import POSITION_ENCODINGS, POSITION_OPTIONS
from tupe_fairseq.position import CATALOGUE, build_position_encoding

ORDER = torch.tensor([3, 0, 6, 1, 5, 2, 4])


def random_heads(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, HEADS, SEQ_LEN, HEAD_DIM, generator=generator, dtype=torch.float64)


def differ(actual, expected):
    return (actual - expected).abs().max().item() > 1e-4


def reposition(encoder, positions):
    """A copy of the encoder in which the token at index t has the position ``positions[t]``.

    It goes through the encodings' own hooks, so nothing else can tell the encoder of an order.
    """
    encoder = copy.deepcopy(encoder)

    def moved(module):
        embed, forward = module.embed, module.forward
        transform, content_bias = module.transform, module.content_bias
        precompute = module.precompute
        module.embed = lambda n: embed(positions)
        module.forward = lambda n: forward(positions)
        module.transform = lambda x, p, *more: transform(x, positions[p], *more)
        if module.uses("transform"):
            module.precompute = lambda p, n: precompute(positions[p], n)

        def moved_bias(q, k, n, m, *more):
            more = more if module.uses("in_layer") else ()
            return content_bias(q, k, positions, positions, *more)

        module.content_bias = moved_bias

    for module in encoder.position_encodings().values():
        moved(module)
    return encoder


@parametrized([*LARGEST, Case("none", {})])
def test_nothing_but_the_encoding_knows_the_order(case):
    encoder, x = encoder_of(case), random_input()
    expected = encoder(x)
    assert_near(reposition(encoder, ORDER)(x[:, ORDER]), expected[:, ORDER])
    if case.name == "none" and not case.options:
        assert_near(encoder(x[:, ORDER]), expected[:, ORDER])
    else:
        assert differ(encoder(x[:, ORDER]), expected[:, ORDER])
    at_1, at_4 = (reposition(encoder, torch.arange(n, n + SEQ_LEN))(x) for n in (1, 4))
    # without a vector for each position, only differences of positions count
    assert differ(at_4, at_1) == (case.has_table or CATALOGUE[case.name].uses("embed"))


@parametrized(ALL)
def test_causal(case):
    position, q, k = build(case, causal=True), random_heads(4), random_heads(5)
    is_later = torch.ones(SEQ_LEN, SEQ_LEN).triu(1).bool()
    found = logits(position, q, k)
    assert (found[..., is_later] == float("-inf")).all()
    assert found[..., ~is_later].isfinite().all()
    if not case.options.get("rel_pos"):  # causal buckets differ
        both_ways = logits(build(case), q, k)
        assert_near(found[..., ~is_later], both_ways[..., ~is_later])
    # a decoder's loop: each query with the keys so far
    for t in range(SEQ_LEN):
        keys = k[:, :, : t + 1]
        step = logits(position, q[:, :, t : t + 1], keys, torch.tensor([t]), t + 1)
        assert_near(step, found[:, :, t : t + 1, : t + 1])
    # a token is later if its position is, whatever its index
    by_row = logits(position, q, k, ORDER.expand(BATCH, -1), ORDER)
    hidden = by_row == float("-inf")
    assert hidden.equal((ORDER > ORDER[:, None]).expand_as(hidden))


def test_wrong_positions_and_widths_are_refused():
    for name in CATALOGUE:
        position, x, q = build(Case(name, {})), random_input(), random_heads(4)
        for wrong in (torch.arange(3), torch.zeros(3, SEQ_LEN).long(), torch.zeros(1, 1).long()):
            with pytest.raises(ValueError, match=r"positions are .*expected \(7,\) or \(2, 7\)"):
                logits(position, q, q, None, wrong)
        with pytest.raises(TypeError, match="they must be integers"):
            logits(position, q, q, torch.arange(7.0))
        with pytest.raises(ValueError, match=r"input is \(2, 7, 11\); expected \(B, T, 12\)"):
            position.forward_input(x[..., 1:])


@parametrized(LARGEST)
def test_lengths_up_to_the_limit_and_beyond(case):
    encoder = encoder_of(case)
    for length in (1, 2, MAX):
        assert encoder(random_input(length)).isfinite().all()
    x = random_input(MAX + 3)
    if case.has_table:
        with pytest.raises(ValueError, match=r"\(14\).*max_positions \(11\); raise it"):
            encoder(x)
        position = encoder.position
        at = position.embed if position.uses("embed") else position
        for wrong in (MAX, -1):
            with pytest.raises(ValueError, match=f"position {wrong} is not in 0 .. max_positions"):
                at(torch.tensor([3, wrong]))
        return
    if case.name != "enformer":  # its functions are stretched to max_positions
        longer = encoder_of(case, max_positions=3 * MAX)
        longer.load_state_dict(encoder.state_dict())
        assert_near(encoder(x), longer(x))
    assert encoder(x).isfinite().all()


# ---- Options ----------------------------------------------------------------------------------

VALUES = {**OPTION_VALUES, "rel_pos_buckets": 8, "max_rel_pos": 40}
WITH_REL_POS = [name for name, encoding in CATALOGUE.items() if "rel_pos" in encoding.takes]


@pytest.mark.parametrize("name", POSITION_ENCODINGS)
def test_what_an_encoding_does_not_take_is_refused(name):
    takes = CATALOGUE[name].takes
    for option in {*POSITION_OPTIONS} - {"one_way_heads"}:  # all take it
        value = VALUES.get(option, True)
        config = dataclasses.replace(SMALL, position_encoding=name, **{option: value})
        if option not in takes:
            with pytest.raises(
                ValueError, match=rf"does not take {option} \({value}\); its options"
            ):
                TupeEncoder(config)
        elif name in WITH_REL_POS and option in {"rel_pos_buckets", "max_rel_pos", "untie_cls"}:
            with pytest.raises(ValueError, match=f"{option} .*no effect without rel_pos"):
                TupeEncoder(config)
            config = dataclasses.replace(config, rel_pos=True)
        if option in takes:
            assert recorded_options(TupeEncoder(config).config)[option] == value


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_signature_names_what_an_encoding_takes(name):
    encoding, sizes = CATALOGUE[name], {"embed_dim": 12, "num_heads": 3, "max_positions": 11}
    takes = {x: value for x, value in encoding.takes.items() if x != "position_each_layer"}
    parameters = inspect.signature(encoding).parameters
    assert list(parameters)[:3] == list(sizes)
    assert {x: p.default for x, p in parameters.items()} == {
        **dict.fromkeys(sizes, inspect.Parameter.empty), **takes, "causal": False,
    }  # fmt: skip
    by_name = encoding(**sizes, **takes, causal=True)
    assert list(by_name.state_dict()) == list(encoding(12, 3, 11).state_dict())


def test_options_of_rope_and_what_older_checkpoints_record():
    sizes = {"embed_dim": 12, "num_heads": 3, "max_positions": 11}
    x, at = torch.randn(4, 3, 4), torch.tensor([[0], [5], [-7], [4000]])
    default, given, other = (
        build_position_encoding("rope", **sizes, **options)
        for options in ({}, {"rope_base": 10000, "rope_share": 1}, {"rope_base": 500})
    )
    assert given.transform(x, at).equal(default.transform(x, at))
    assert not other.transform(x, at).equal(default.transform(x, at))
    old = {"scheme": "rope", "num_heads": 3, "activation_fn": "gelu"}
    record = torch.tensor(list(json.dumps(old).encode()))
    check_record(dataclasses.replace(SMALL, position_encoding="rope"), record)
    for option, value in (("rope_base", 500), ("rope_share", 0.5)):
        config = dataclasses.replace(SMALL, position_encoding="rope", **{option: value})
        with pytest.raises(ValueError, match=f"{option} is .* in the checkpoint and {value} in"):
            check_record(config, record)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("name", ["tupe", "alibi", "rope", "deberta", "shaw"])
def test_one_way_heads_in_16_bits(name, dtype):
    """Also for padding, whose tokens see no key in the second half."""
    case = Case(name, REL_POS if name == "tupe" else {})
    build = functools.partial(encoder_of, case, num_heads=2, one_way_heads=True)
    padding = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
    for way in ("eager", "sdpa"):
        exact, encoder = build(attn_impl=way), build(dtype, attn_impl=way)
        # padding that stays among the tokens
        encoder.least_padding = lambda x: 1.0
        out = encoder(random_input(dtype=dtype), padding)
        assert out.isfinite().all()
        difference = (out.double() - exact(random_input(), padding))[~padding].abs().max()
        plain = encoder_of(case, dtype, num_heads=2, attn_impl=way)
        both_ways = encoder_of(case, num_heads=2, attn_impl=way)(random_input(), padding)
        usual = (plain(random_input(dtype=dtype), padding) - both_ways)[~padding].abs().max()
        assert difference < 3 * usual


def test_one_way_heads_are_for_encoders():
    with pytest.raises(ValueError, match="one_way_heads is not for decoders"):
        build_position_encoding(
            "rope", embed_dim=12, num_heads=2, max_positions=11, causal=True, one_way_heads=True
        )
    alone = build_position_encoding(
        "none", embed_dim=12, num_heads=2, max_positions=11, one_way_heads=True
    )
    bias = alone(torch.tensor([[0, 1, 2], [2, 0, 1]]))
    assert (bias[0, 0] == 0).equal(torch.ones(3, 3).tril().bool())
    assert (bias[1, 1] == 0).equal(torch.tensor([[1, 0, 0], [1, 1, 1], [1, 0, 1]]).bool())


@pytest.mark.parametrize("wrong", [0, -3, 2.5, float("nan"), "4"])
def test_wrong_values_are_refused_without_a_config(wrong):
    for name, option in (("shaw", "max_rel_pos"), ("tupe", "rel_pos"), ("pope", "max_positions")):
        sizes = {"embed_dim": 12, "num_heads": 3, "max_positions": 11, option: wrong}
        with pytest.raises(ValueError, match=rf"{option} \({wrong}\) must be"):
            build_position_encoding(name, **sizes)
    with pytest.raises(TypeError, match="dropout"):  # no encoding has it
        build_position_encoding("tupe", embed_dim=12, num_heads=3, max_positions=11, dropout=0.1)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"dropout": 1.5}, r"dropout \(1.5\) must be a number from 0 to 1$"),
        ({"activation_fn": "swish"}, r"\(swish\) must be one of gelu, "),
        ({"tie_cls": 1}, r"tie_cls \(1\) must be True or False$"),
        ({"embed_dim": 7}, r"embed_dim \(7\).*num_heads \(3\)"),
        ({"rel_pos": True, "rel_pos_buckets": 7}, r"rel_pos_buckets \(7\) must be even"),
        ({"rel_pos": True, "max_rel_pos": 8}, r"max_rel_pos \(8\) .* lower rel_pos_buckets"),
        ({"position_encoding": "shaw", "max_rel_pos": 10**9}, "1 to 65536$"),
        ({"position_encoding": "rope", "embed_dim": 15}, r"head_dim \(5 .*must be even"),
        ({"position_encoding": "rope", "rope_base": 1}, r"rope_base \(1\) must be a whole number"),
        (
            {"position_encoding": "rope", "rope_share": 0.0},
            r"rope_share \(0.0\) .*above 0, up to 1",
        ),
        (
            {"position_encoding": "rope", "rope_share": 1.5},
            r"rope_share \(1.5\) .*above 0, up to 1",
        ),
        (
            {"position_encoding": "rope", "rope_share": 0.4},
            "of the 2 pairs .* less than one; raise",
        ),
        ({"position_encoding": "deberta", "rel_pos_buckets": 7}, r"\(7\) must be even"),
        ({"position_encoding": "deberta", "max_rel_pos": 17}, r"\(17\) .* buckets \(16\) by more"),
        ({"one_way_heads": True}, r"num_heads \(3\) must be even for one_way_heads"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_values(options, message):
    with pytest.raises(ValueError, match=message) as stop:
        TupeEncoder(dataclasses.replace(SMALL, **options))
    assert "--" not in str(stop.value)  # without fairseq there are no flags
