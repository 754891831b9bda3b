"""fairseq-hydra-train with the shipped configs."""

import pytest
import torch

from helpers.running import REPO
from helpers.training import SIZE, assert_same_weights, hydra, hydra_words, losses, pretrain

CONFIGS = REPO / "examples" / "pretraining" / "config"


def test_the_shipped_config_gives_the_losses_of_argparse(data, tmp_path, run):
    by_hydra, by_argparse = tmp_path / "hydra", tmp_path / "argparse"
    process = hydra(
        "tupe_tiny", data, by_hydra, "optimization.max_update=10", "dataset.batch_size=4",
        *hydra_words(SIZE),
    )  # fmt: skip
    expected = pretrain(
        data, by_argparse, "--rel-pos", "--tokens-per-sample", 128, "--max-positions", 128,
        "--seed", 1, "--warmup-updates", 200, "--total-num-update", 10, "--max-update", 10,
        "--lr", 1.5e-3, "--dropout", 0, "--attention-dropout", 0,
        "--required-batch-size-multiple", 1,
    )  # fmt: skip
    assert len(losses(process)) == 10
    assert losses(process) == losses(expected)
    assert_same_weights(by_hydra / "checkpoint_last.pt", by_argparse / "checkpoint_last.pt")


def test_its_checkpoint_holds_the_options_and_needs_no_allowance(data, tmp_path, run):
    hydra("tupe_tiny", data, tmp_path, "optimization.max_update=1", "model.tie_cls=true",
          "common.bf16=false", *hydra_words(SIZE))  # fmt: skip
    kwargs = {"weights_only": True} if hasattr(torch.serialization, "add_safe_globals") else {}
    model = torch.load(tmp_path / "checkpoint_last.pt", **kwargs)["cfg"]["model"]
    assert model["_name"] == "tupe_roberta_tiny"
    assert model["tie_cls"] and model["rel_pos"] and model["max_rel_pos"] == 128
    assert model["pooler_dropout"] == 0.1 and model["encoder_layers"] == 2


def test_20_updates_in_bf16(data, tmp_path, run):
    process = hydra(
        "tupe_tiny", data, tmp_path, "common.bf16=true", "optimization.max_update=20",
        "dataset.batch_size=4", *hydra_words(SIZE),
    )  # fmt: skip
    loss = losses(process)
    assert sorted(loss) == list(range(1, 21)) and all(0 < x < 20 for x in loss.values())
    state = torch.load(tmp_path / "checkpoint_last.pt", map_location="cpu")["model"]
    floats = [t for t in state.values() if t.is_floating_point()]
    assert all(t.isfinite().all() for t in floats)


def test_a_misspelled_model_key_is_refused(data, tmp_path, run):
    process = hydra("tupe_tiny", data, tmp_path, "+model.tie_clss=true", check=False)
    assert process.returncode
    message = "unknown key model.tie_clss for tupe_roberta_tiny; did you mean tie_cls?"
    assert message in process.stdout


def test_an_absent_restore_file_is_refused(data, tmp_path, run):
    process = hydra("tupe_tiny", data, tmp_path, "checkpoint.restore_file=/nowhere/model.pt",
                    *hydra_words(SIZE), check=False)  # fmt: skip
    assert process.returncode
    assert "--restore-file /nowhere/model.pt is not a file, and nothing was" in process.stdout


@pytest.mark.parametrize("config", sorted(path.stem for path in CONFIGS.glob("**/*.yaml")))
def test_every_config_builds_its_model(config, data, tmp_path, run):
    """Through Hydra, up to the end of the first update, with the model's width cut down."""
    process = hydra(
        config, data, tmp_path, "optimization.max_update=1", "dataset.batch_size=2",
        "common.fp16=false", *hydra_words(SIZE),
    )  # fmt: skip
    assert "done training" in process.stdout
