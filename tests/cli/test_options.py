"""tupe-options lists what fairseq-train accepts for the model, with the values that it then has."""

import re

import pytest

from helpers.running import USER_DIR, call_program
from tupe_fairseq.cli.options import main, model_flags
from tupe_fairseq.fairseq_runs.command import parse_training
from tupe_fairseq.models.tupe_roberta import FIXED_OPTIONS
from tupe_fairseq.options import POSITION_OPTIONS, flag


@pytest.fixture(scope="module")
def listed():
    code, text = call_program(main, ["--arch", "tupe_roberta_mini"])
    assert code == 0
    return text


def test_every_flag_with_the_value_that_a_training_has(listed):
    words = ["DATA", "--user-dir", USER_DIR, "--arch", "tupe_roberta_mini", "--task", "masked_lm"]
    values = vars(parse_training(words))
    # one flag a part, from its name on
    parts = dict(re.findall(r"^  (--[a-z-]+)(.*?)(?=^  --|^$|\Z)", listed, re.M | re.S))
    assert {flag(name) for name in POSITION_OPTIONS} < set(parts)
    assert {"--encoder-layers", "--attn-impl", "--unpad", "--dropout"} < set(parts)
    for part, text in parts.items():
        name = part[2:].replace("-", "_")
        assert name not in FIXED_OPTIONS, f"{part} is refused"
        shown = re.search(r"\[(\S+)\]\s*$", text)
        if shown:
            assert str(values[name]) == shown.group(1), part
    assert "num encoder layers [4]" in listed


def test_the_flags_are_those_of_fairseq_train():
    """Each can be given; what is listed as a choice is not refused."""
    parser = model_flags("tupe_roberta_tiny")
    (activation,) = (a for a in parser._actions if a.dest == "activation_fn")
    base = ["DATA", "--user-dir", USER_DIR, "--arch", "tupe_roberta_tiny", "--task", "masked_lm"]
    words = [word for a in parser._actions for word in _example(a) if a.dest not in FIXED_OPTIONS]
    parsed = vars(parse_training([*base, *words]))
    assert parsed["unpad"] is True and parsed["encoder_layers"] == 3
    assert "gelu_fast" not in activation.choices


def _example(action):
    if action.nargs == 0:
        return [action.option_strings[0]]
    return [action.option_strings[0], str(list(action.choices)[0] if action.choices else 3)]


def test_unknown_architecture():
    code, text = call_program(main, ["--arch", "roberta_base"])
    assert code == 2 and "invalid choice: 'roberta_base'" in text and "tupe_roberta_tiny" in text
