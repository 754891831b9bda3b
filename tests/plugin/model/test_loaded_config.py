"""The config that a loaded model gets is the one that fairseq makes of the same options."""

from argparse import Namespace

import pytest
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

import tupe_fairseq  # noqa: F401  registers the tasks
from tupe_fairseq.plugin.model.loaded_config import loaded_config

OPTIONS = {
    "arch": "tupe_roberta_base", "data": "/somewhere", "encoder_layers": 2, "seed": 3,
    "tokens_per_sample": 24, "max_positions": 24, "dropout": 0.25, "fp16": True, "tpu": True,
    "update_epoch_batch_itr": True, "memory_efficient_fp16": True,
}  # fmt: skip
TASKS = {
    "masked_lm": {"bpe": "sentencepiece", "sentencepiece_model": "it's here.model", "valid": ""},
    "sentence_prediction": {"classification_head_name": "mine", "regression_target": False},
    "glue_sentence_prediction": {"num_classes": 1, "regression_target": True, "bpe": "gpt2"},
    "token_tagging": {"num_classes": 5, "tokenizer": "moses"},
}


@pytest.mark.parametrize("task", TASKS)
def test_as_fairseq_makes_it(task):
    options = {"task": task, "criterion": task, **OPTIONS, **TASKS[task]}
    found = loaded_config(dict(options))
    expected = convert_namespace_to_omegaconf(Namespace(**options))
    assert set(found) == set(expected)
    assert {name: vars(found[name]) if name == "model" else found[name] for name in found} == {
        name: vars(expected[name]) if name == "model" else expected[name] for name in expected
    }
    assert found.task._name == task and found.task.data == "/somewhere"


def test_what_an_option_takes_over_is_the_others_value():
    config = loaded_config({"task": "masked_lm", "criterion": "masked_lm", "arch": "tupe_roberta"})
    assert config.common.fp16 is False and config.distributed_training.fp16 is False
