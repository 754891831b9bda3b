"""Options to config.json and back."""

import json

import pytest

from helpers.crafted import LINES, OPTIONS
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.checkpoint.state_dict import symbols_of
from tupe_fairseq.export.folder_config import Head, from_config, to_config
from tupe_fairseq.position import POSITION_OPTIONS


class Options:
    def __init__(self, **changed):
        vars(self).update({**OPTIONS, "pooler_dropout": 0.3, **changed})


CHANGED = {
    "plain": {},
    "TUPE-R": {"rel_pos": True, "rel_pos_buckets": 8, "max_rel_pos": 5, "tie_cls": True},
    "every layer": {"position_encoding": "sinusoidal", "position_each_layer": True},
    "untied, pre-LN": {"untie_weights_roberta": True, "encoder_normalize_before": True},
    "sizes": {
        "encoder_layers": 3, "encoder_embed_dim": 20, "encoder_attention_heads": 5,
        "encoder_ffn_embed_dim": 24, "max_positions": 33, "activation_fn": "relu",
        "pooler_activation_fn": "gelu", "dropout": 0.2, "attention_dropout": 0.4,
        "activation_dropout": 0.5,
    },
    "mean pooling": {"pooling": "mean"},
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGED)
def test_there_and_back(case):
    options = Options(**CHANGED[case])
    config = json.loads(json.dumps(to_config(options, symbols_of(LINES), 77)))
    assert config["vocab_size"] == len(LINES) + 5 and config["mask_token_id"] == len(LINES) + 4
    assert config["vocabulary_version"] == 77
    back = from_config(config, "config.json")
    for name, value in vars(options).items():
        if name not in ("arch", "tokens_per_sample"):
            assert getattr(back, name) == value, name
    for name, option in POSITION_OPTIONS.items():
        assert getattr(back, name, option.default) == getattr(options, name, option.default)
    assert config["classifier_pooling"] == getattr(options, "pooling", None)
    # earlier versions have written none
    del config["classifier_pooling"]
    assert not hasattr(from_config(config, "config.json"), "pooling")
    # transformers leaves out what is its own default
    del config["tie_word_embeddings"]
    assert from_config(config, "config.json").untie_weights_roberta is False


def test_a_head():
    head = Head("mine", ["no", "yes", "perhaps"], "classification")
    config = json.loads(json.dumps(to_config(Options(), symbols_of(LINES), 1, head)))
    assert config["label2id"] == {"no": 0, "yes": 1, "perhaps": 2}
    assert config["classification_head_name"] == "mine"
    score = Head("mine", ["score"], "regression")
    config = to_config(Options(), symbols_of(LINES), 1, score)
    assert config["problem_type"] == "regression" and config["id2label"] == {"0": "score"}


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"model_type": "roberta"}, "model_type is roberta, not 'tupe'"),
        ({"model_type": None}, "model_type is a NoneType, not 'tupe'"),
        ({"hidden_size": None}, "does not say hidden_size"),
        ({"num_hidden_layers": "2"}, "encoder_layers is '?2'?, which must be a whole number"),
        ({"position_encoding": "other"}, "position_encoding is other, which must be one of"),
    ],
)
def test_what_is_refused(change, reason):
    config = {**to_config(Options(), symbols_of(LINES), 1), **change}
    with pytest.raises(CheckpointError, match=reason):
        from_config(config, "config.json")
