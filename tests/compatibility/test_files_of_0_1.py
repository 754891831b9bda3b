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

from helpers.running import USER_DIR, call_program
from helpers.training import losses
from tupe_fairseq import TupeConfig, TupeEncoder, TupeRobertaModel
from tupe_fairseq.commands import convert
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS

WRITTEN = Path(__file__).parent / "v0_1"
DICTIONARY = "data-bin/dict.txt"
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


def assert_features(hub, name):
    """Those that were written with a checkpoint on its own line."""
    expected = np.load(WRITTEN / "features.npz")
    features = hub.eval().extract_features(torch.from_numpy(expected["tokens"])).detach()
    torch.testing.assert_close(features, torch.from_numpy(expected[name]), rtol=1e-5, atol=1e-6)


def from_fairseq(folder, file):
    """By fairseq's own way, which builds the task that the file names."""
    return RobertaModel.from_pretrained(
        str(folder), file, str(WRITTEN / "data-bin"), user_dir=USER_DIR, bpe=None
    )


@pytest.mark.parametrize("name", ["official", "main", "hydra"])
def test_checkpoint_of_either_line(name):
    data = str(WRITTEN / "data-bin")
    assert_features(
        TupeRobertaModel.from_pretrained(str(WRITTEN), f"{name}.pt", data, bpe=None), name
    )
    if LINE == "main" or name == "official":
        assert_features(from_fairseq(WRITTEN, f"{name}.pt"), name)


def test_written_anew_fairseqs_own_way_loads_it_on_both_lines(tmp_path):
    """Of masked_lm, 0.12.2 refuses what the main branch writes: it has options that are new."""
    if LINE == "official":
        with pytest.raises(Exception, match="'include_index' not in 'MaskedLMConfig'"):
            from_fairseq(WRITTEN, "main.pt")
    words = ["--anew", "--checkpoint", WRITTEN / "main.pt", "--dict", WRITTEN / DICTIONARY]
    code, text = call_program(convert.main, [*words, "--output-dir", tmp_path / "out"])
    assert code == 0, text
    assert_features(from_fairseq(tmp_path / "out", "model.pt"), "main")


def test_a_fine_tuned_model_written_anew(tmp_path):
    (best,) = WRITTEN.glob("runs/CoLA/*/checkpoint_best.pt")
    task = WRITTEN / "glue-bin" / "CoLA"
    code, text = call_program(
        convert.main,
        ["--anew", "--checkpoint", best, "--dict", task / "dict.txt", "--label-dict",
         task / "label" / "dict.txt", "--output-dir", tmp_path],
    )  # fmt: skip
    assert code == 0, text
    before = TupeRobertaModel.from_pretrained(str(best.parent), best.name, str(task), bpe=None)
    after = TupeRobertaModel.from_pretrained(str(tmp_path), bpe=None)
    tokens = torch.tensor([0, 9, 14, 5, 30, 2])
    expected, found = (
        hub.eval().predict("sentence_classification_head", tokens) for hub in (before, after)
    )
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(LINE == "main", reason="the other way round is the test after this")
def test_training_goes_on_from_the_main_branchs(run, tmp_path):
    process = run(
        "fairseq-train", WRITTEN / "data-bin", "--user-dir", USER_DIR, "--arch",
        "tupe_roberta_tiny", "--position-encoding", "learned", "--rel-pos", "--untie-cls",
        "--position-each-layer", "--encoder-normalize-before", "--encoder-layers", 2,
        "--encoder-embed-dim", 8, "--encoder-ffn-embed-dim", 12, "--encoder-attention-heads", 2,
        "--task", "masked_lm", "--criterion", "masked_lm", "--sample-break-mode", "complete",
        "--tokens-per-sample", 48, "--max-positions", 48, "--optimizer", "adam", "--lr", 0,
        "--skip-invalid-size-inputs-valid-test", "--batch-size", 4, "--max-update", 1,
        "--restore-file", WRITTEN / "main.pt", "--reset-optimizer", "--reset-meters",
        "--reset-dataloader", "--save-dir", tmp_path, "--no-epoch-checkpoints",
        "--disable-validation", "--num-workers", 0, "--data-buffer-size", 0, "--cpu",
    )  # fmt: skip
    assert "loaded 39 of 39 tensors" in process.stdout
    # with a learning rate of 0 the outputs are those of the file
    data = str(WRITTEN / "data-bin")
    assert_features(
        TupeRobertaModel.from_pretrained(str(tmp_path), "checkpoint_last.pt", data, bpe=None),
        "main",
    )


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
        # torch's random bits for dropout differ between makers of CPUs
        "--dropout", 0, "--attention-dropout", 0,
    )  # fmt: skip
    assert "Loaded checkpoint" in process.stdout
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
