"""Options: what each encoding takes, what checkpoints record of them, and what is refused."""

import argparse
import dataclasses
import subprocess
import sys

import pytest
import torch

from helpers.position_cases import DIM, HEADS, MAX, SMALL, random_heads
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.options import (
    ARCHITECTURES,
    FAIRSEQ_NAMES,
    POSITION_ENCODINGS,
    POSITION_OPTIONS,
    flag,
)
from tupe_fairseq.position import CATALOGUE, build_position_encoding

SIZES = {"embed_dim": DIM, "num_heads": HEADS, "max_positions": MAX}
VALUES = {"rel_pos_buckets": 8, "max_rel_pos": 12}
WITH_REL_POS = [name for name, takes in POSITION_ENCODINGS.items() if "rel_pos" in takes]


def test_one_table_for_all():
    assert list(CATALOGUE) == list(POSITION_ENCODINGS)
    fields = {field.name: field.default for field in dataclasses.fields(TupeConfig)}
    assert {name: fields[name] for name in POSITION_OPTIONS} == {
        name: option.default for name, option in POSITION_OPTIONS.items()
    }
    assert {name for takes in POSITION_ENCODINGS.values() for name in takes} == set(
        POSITION_OPTIONS
    )
    assert flag("max_rel_pos") == "--max-rel-pos" and flag("scheme") == "--position-encoding"
    for layers, width, heads in ARCHITECTURES.values():
        assert width % heads == 0 and layers > 1


@pytest.mark.parametrize("option", POSITION_OPTIONS)
@pytest.mark.parametrize("name", POSITION_ENCODINGS)
def test_what_an_encoding_does_not_take_is_refused(name, option):
    value, takes = VALUES.get(option, True), POSITION_ENCODINGS[name]
    options = {option: value}
    config = dataclasses.replace(SMALL, position_encoding=name, **options)
    needs_rel_pos = name in WITH_REL_POS and option in {*VALUES, "untie_cls"} & set(takes)
    if option not in takes and option != "position_each_layer":
        match = rf"'{name}' does not take {option} \({value}\).*Drop {flag(option)}"
    elif option not in takes:
        match = "adds nothing to the input; drop --position-each-layer"
    elif needs_rel_pos:
        match = rf"{option} \(.*no effect without rel_pos; add --rel-pos or drop {flag(option)}"
    else:
        TupeEncoder(config)
        assert config.record[option] == value
        return
    with pytest.raises(ValueError, match=match):
        TupeEncoder(config)
    if needs_rel_pos:
        assert TupeEncoder(dataclasses.replace(config, rel_pos=True)).config.record[option] == value


@pytest.mark.parametrize("name", POSITION_ENCODINGS)
def test_defaults_that_are_given_change_nothing(name):
    absent = {option: POSITION_OPTIONS[option].default for option in POSITION_OPTIONS}
    for options in ({}, {"rel_pos": True}) if name in WITH_REL_POS else ({},):
        record = TupeConfig(position_encoding=name, **options).record
        given = {key: record[key] for key in VALUES if record.get(key) is not None}
        modules = [
            build_position_encoding(name, **SIZES, **{**absent, **options, **more})
            for more in ({}, given)
        ]
        modules[1].load_state_dict(modules[0].state_dict())
        q, k = random_heads(dtype=torch.float32), random_heads(seed=5, dtype=torch.float32)
        assert modules[0].forward_attn(q, k).equal(modules[1].forward_attn(q, k))
        assert given == ({"rel_pos_buckets": 32, "max_rel_pos": 128} if options else
                         {"max_rel_pos": 16} if name == "shaw" else {})  # fmt: skip


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_layers": 0}, r"num_layers \(0\).*--encoder-layers"),
        ({"max_positions": -1}, r"max_positions \(-1\).*--max-positions"),
        ({"dropout": 1.5}, r"dropout \(1.5\).*--dropout"),
        ({"embed_dim": 7}, r"embed_dim \(7\).*num_heads \(3\).*--encoder-attention-heads"),
        ({"activation_fn": "relu6"}, "'relu6'.*--activation-fn is one of gelu"),
        ({"attn_impl": "triton"}, "'triton'; --attn-impl is one of auto, eager, sdpa, chunked"),
        ({"position_encoding": "rotary"}, "'rotary'; --position-encoding is one of tupe, learned"),
        ({"rel_pos": True, "rel_pos_buckets": 7}, r"rel_pos_buckets \(7\) must be even"),
        ({"rel_pos": True, "rel_pos_buckets": 2}, r"rel_pos_buckets \(2\).*at least 4"),
        ({"rel_pos": True, "max_rel_pos": 8}, r"max_rel_pos \(8\).*--max-rel-pos"),
        ({"position_encoding": "shaw", "max_rel_pos": 0}, r"max_rel_pos \(0\).*at least 1"),
        ({"position_encoding": "rope", "embed_dim": 15}, r"head_dim \(5 .*must be even"),
        ({"position_encoding": "enformer", "max_positions": 1}, r"max_positions \(1\).*at least 2"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_values(options, message):
    with pytest.raises(ValueError, match=message):
        TupeEncoder(dataclasses.replace(SMALL, **options))


def test_options_of_fairseq():
    args = argparse.Namespace(
        encoder_embed_dim=24, encoder_attention_heads=3, encoder_layers=5, max_positions=None,
        encoder_ffn_embed_dim=7, encoder_normalize_before=True, dropout=0.2, rel_pos=True,
        max_rel_pos=60, another=1,
    )  # fmt: skip
    expected = TupeConfig(
        embed_dim=24, num_heads=3, num_layers=5, ffn_embed_dim=7, normalize_before=True,
        dropout=0.2, rel_pos=True, max_rel_pos=60,
    )  # fmt: skip
    assert TupeConfig.from_roberta_options(args) == expected
    assert set(FAIRSEQ_NAMES) - {"scheme"} <= {
        field.name for field in dataclasses.fields(TupeConfig)
    }


def test_the_package_and_its_options_need_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import tupe_fairseq, tupe_fairseq.options; print(tupe_fairseq.options.TupeConfig().record)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.stdout.startswith("{'scheme': 'tupe'"), process.stderr
