"""What is read of a checkpoint besides its model; a file may say anything there, or nothing."""

import pytest

from tupe_fairseq.checkpoint.contents import best_in, options_in, updates_in
from tupe_fairseq.checkpoint.restricted_load import CheckpointError

HISTORIES = [None, [], 3, [[]], [{}], [{"num_updates": None}], [{"num_updates": "3"}],
             [{"num_updates": -1}], [{"num_updates": True}], {"num_updates": 3}]  # fmt: skip


def test_updates():
    assert updates_in({"optimizer_history": [{}, {"num_updates": 3}]}, "a.pt") == 3
    for history in HISTORIES:
        with pytest.raises(CheckpointError, match="a.pt does not say after how many updates"):
            updates_in({"optimizer_history": history}, "a.pt")
    with pytest.raises(CheckpointError):
        updates_in({}, "a.pt")


def test_best_score():
    assert best_in({"extra_state": {"best": 50}}, "a.pt") == 50.0
    for extra in (None, {}, [], {"best": None}, {"best": "50"}, {"best": [50]}):
        with pytest.raises(CheckpointError, match="a.pt does not say how good it is"):
            best_in({"extra_state": extra}, "a.pt")


@pytest.mark.parametrize(
    "state", [{}, {"args": {}}, {"args": [1]}, {"cfg": []}, {"cfg": {}}, {"cfg": {"model": "x"}}]
)
def test_no_options(state):
    with pytest.raises(CheckpointError, match="a.pt holds no options"):
        options_in(state, "a.pt")


def test_options_of_a_hydra_run_are_those_of_its_parts():
    config = {
        "model": {"_name": "tupe_roberta_tiny", "dropout": 0.1, "max_positions": 16},
        "task": {"_name": "masked_lm", "tokens_per_sample": 16, "max_positions": 8},
        "criterion": {"_name": "masked_lm", "tpu": False},
        "common": {"user_dir": "evil"},
    }
    found = options_in({"args": None, "cfg": config}, "a.pt")
    assert found["arch"] == "tupe_roberta_tiny" and found["task"] == "masked_lm"
    assert found["tokens_per_sample"] == found["max_positions"] == 16
    assert "user_dir" not in found
