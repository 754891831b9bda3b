"""The configs of the trainings in these tests are those that Hydra composes unaltered."""

from functools import partial

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf.errors import ConfigAttributeError

import tupe_fairseq.register  # noqa: F401
from helpers.hastened_hydra import hasten_hydra
from helpers.training import PRETRAINING

FURTHER = ["--lr", "0.1,0.2", "--update-freq", "2", "--restore-file", "a b's {c}", "--fp16"]


def tree(node, parent=None):
    """All that a config is made of; a node's parent is the one that has it."""
    own = dict(vars(node))
    assert own.pop("_parent") is parent
    own["_metadata"] = vars(own["_metadata"])
    content = own.pop("_content", None)
    if isinstance(content, dict):
        content = {key: tree(child, node) for key, child in content.items()}
    elif isinstance(content, list):
        content = [tree(child, node) for child in content]
    return type(node), own, content


def test_the_config_is_the_same(monkeypatch):
    assert OverridesParser.parse_rule.__module__.startswith("hydra.")
    words = ["data", *map(str, PRETRAINING), *FURTHER]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    expected = convert_namespace_to_omegaconf(args)
    hasten_hydra(partial(monkeypatch.setattr, raising=False))
    for _ in range(2):  # which the second time has read all words before
        found = convert_namespace_to_omegaconf(args)
        assert tree(found) == tree(expected)
    assert found.optimization.lr == [0.1, 0.2] and found.checkpoint.restore_file == "a b's {c}"
    with pytest.raises(ConfigAttributeError):
        found.task.no_such_option = 1
