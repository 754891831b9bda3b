"""Files that version 0.1.0 wrote (make_files.py; the folder v0_1) load as they did then."""

import json
import os
import shutil
from pathlib import Path

import fairseq
import numpy as np
import pytest
import torch
from fairseq.models.roberta import RobertaModel

from helpers.running import USER_DIR
from helpers.training import losses
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS

WRITTEN = Path(__file__).parent / "v0_1"
LINE = "official" if fairseq.__version__.startswith("0.12.2") else "main"
ENCODERS = torch.load(WRITTEN / "encoders.pt")


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def written(tmp_path):
    """A copy that may be written to."""
    return Path(shutil.copytree(WRITTEN, tmp_path / "v0_1"))


@pytest.mark.parametrize("saved", ENCODERS["encoders"], ids=lambda saved: str(saved["config"]))
def test_state_dict_of_every_position_encoding(saved):
    encoder = TupeEncoder(TupeConfig(**saved["config"])).eval()
    assert list(encoder.state_dict()) == list(saved["state"])
    encoder.load_state_dict(saved["state"])
    padding = ENCODERS["padding"]
    output = encoder(ENCODERS["x"], padding).masked_fill(padding[:, :, None], 0)
    torch.testing.assert_close(output, saved["output"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["official", "main", "hydra"])
def test_checkpoint(name):
    if LINE == "official" and name != "official":
        pytest.skip("fairseq 0.12.2 does not load what fairseq's main branch wrote for masked_lm")
    hub = RobertaModel.from_pretrained(
        str(WRITTEN), f"{name}.pt", str(WRITTEN / "data-bin"), user_dir=USER_DIR, bpe=None
    ).eval()
    expected = np.load(WRITTEN / "features.npz")
    features = hub.extract_features(torch.from_numpy(expected["tokens"])).detach()
    torch.testing.assert_close(features, torch.from_numpy(expected[name]), rtol=1e-5, atol=1e-6)


def test_training_continues_from_a_checkpoint(run, tmp_path):
    shutil.copy(WRITTEN / "official.pt", tmp_path / "checkpoint_last.pt")
    process = run(
        "fairseq-train", WRITTEN / "data-bin", "--user-dir", USER_DIR, "--arch",
        "tupe_roberta_tiny", "--rel-pos", "--encoder-layers", 2, "--encoder-embed-dim", 8,
        "--encoder-ffn-embed-dim", 12, "--encoder-attention-heads", 2, "--task", "masked_lm",
        "--criterion", "masked_lm", "--sample-break-mode", "complete", "--tokens-per-sample", 48,
        "--max-positions", 48, "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", 1e-2,
        "--lr-scheduler", "polynomial_decay", "--warmup-updates", 2, "--total-num-update", 20,
        "--batch-size", 4, "--required-batch-size-multiple", 1, "--max-update", 8, "--seed", 7,
        "--skip-invalid-size-inputs-valid-test", "--save-dir", tmp_path, "--no-epoch-checkpoints",
        "--disable-validation", "--num-workers", 0, "--data-buffer-size", 0, "--cpu",
        "--log-format", "json", "--log-interval", 1,
    )  # fmt: skip
    assert "loaded 43 of 43 tensors" in process.stdout
    # the two lines of fairseq draw other masks
    recorded = json.loads((WRITTEN / f"losses.{LINE}.json").read_text())
    assert losses(process) == pytest.approx(
        {int(n): loss for n, loss in recorded.items()}, abs=2e-3
    )


def test_prepared_data_are_known_to_be_finished(written, run):
    recorded = json.loads((written / "data-bin" / "steps.json").read_text())["settings"]
    for name, size, changed in (recorded["input 1"], recorded["sentencepiece_model"]):
        assert (written / name).stat().st_size == size
        os.utime(written / name, ns=(changed, changed))
    before = contents(written)
    process = run(
        "tupe-prepare-pretrain", "--input", written / "text.txt", "--sentencepiece-model",
        written / "pieces.model", "--valid-fraction", 0.1, "--test-fraction", 0,
        "--tokens-per-sample", 48, "--workers", 1, "--output-dir", written / "data-bin",
    )  # fmt: skip
    assert "is already finished" in process.stdout
    process = run(
        "tupe-prepare-glue", "--glue-dir", written / "glue", "--tasks", "CoLA", "--pretrain-dir",
        written / "data-bin", "--workers", 1, "--output-dir", written / "glue-bin",
    )  # fmt: skip
    assert "is already finished" in process.stdout
    after = contents(written)
    # the only change: what the task is, which later commands read there
    old, new = (json.loads(files.pop("glue-bin/CoLA/report.json")) for files in (before, after))
    assert after == before
    assert new == {**old, "description": GLUE_TASKS["CoLA"].task.to_record()}


def test_a_finished_fine_tuning_is_read_again(written, run):
    runs = written / "runs"
    before = contents(runs)
    # made again with the checkpoint that was kept
    os.remove(runs / "CoLA" / "lr0.008-seed2" / "predictions-test.npy")
    shutil.rmtree(runs / "submission")
    process = run(
        "tupe-finetune", "--task", "CoLA", "--data", written / "glue-bin" / "CoLA",
        "--checkpoint", written / "official.pt", "--output-dir", runs, "--cpu", "--epochs", 6,
        "--dropout", 0, "--batch-size", 8, "--lrs", "8e-3,1.5e-2", "--seeds", "1,2",
    )  # fmt: skip
    assert "0 of 4 runs left" in process.stdout
    after = contents(runs)
    for name in [name for name in before if name.endswith(".md")]:  # the words may be others
        tables = (found.pop(name).decode().splitlines() for found in (before, after))
        earlier, now = ([line for line in table if "| lr" in line] for table in tables)
        assert now == earlier
    pictures = {name for name in after if name.endswith(".png")}
    assert pictures == {"CoLA/classes.png", "CoLA/confusion.png"}
    for name in pictures:
        assert after.pop(name).startswith(b"\x89PNG")
    # what the kept checkpoint needs beside it
    added = {after.pop(name) for name in set(after) - set(before)}
    assert added == {
        (written / "glue-bin" / "CoLA" / name).read_bytes()
        for name in ("dict.txt", "label/dict.txt", "sentencepiece.bpe.model", "report.json")
    }
    for name in ("CoLA/steps.json", "CoLA/results.json"):  # more is recorded now
        earlier, now = (json.loads(found.pop(name)) for found in (before, after))
        assert {**now, "settings": {**now["settings"], **earlier["settings"]}} == now
        assert {**now, "settings": None} == {**earlier, "settings": None}
    assert after == before
