"""Options: what each encoding takes, what checkpoints record of them, and what is refused."""

import argparse
import dataclasses

import pytest

from helpers.position_cases import SMALL
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.options import (
    POSITION_ENCODINGS,
    POSITION_OPTIONS,
)

VALUES = {"rel_pos_buckets": 8, "max_rel_pos": 12}
WITH_REL_POS = [name for name, takes in POSITION_ENCODINGS.items() if "rel_pos" in takes]


@pytest.mark.parametrize("name", POSITION_ENCODINGS)
def test_what_an_encoding_does_not_take_is_refused(name):
    takes = POSITION_ENCODINGS[name]
    for option in POSITION_OPTIONS:
        value = VALUES.get(option, True)
        config = dataclasses.replace(SMALL, position_encoding=name, **{option: value})
        if option not in takes:
            drop = "[Dd]rop --" + option.replace("_", "-")
            with pytest.raises(ValueError, match=drop):
                TupeEncoder(config)
        elif name in WITH_REL_POS and option in {*VALUES, "untie_cls"}:
            with pytest.raises(ValueError, match=f"{option} .*no effect without rel_pos"):
                TupeEncoder(config)
            config = dataclasses.replace(config, rel_pos=True)
        if option in takes:
            assert TupeEncoder(config).config.record[option] == value


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_layers": 0}, r"num_layers \(0\).*--encoder-layers"),
        ({"embed_dim": 7}, r"embed_dim \(7\).*num_heads \(3\).*--encoder-attention-heads"),
        ({"attn_impl": "triton"}, "'triton'; --attn-impl is one of auto, eager, sdpa, chunked"),
        ({"rel_pos": True, "rel_pos_buckets": 7}, r"rel_pos_buckets \(7\) must be even"),
        ({"rel_pos": True, "max_rel_pos": 8}, r"max_rel_pos \(8\).*--max-rel-pos"),
        ({"position_encoding": "rope", "embed_dim": 15}, r"head_dim \(5 .*must be even"),
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
