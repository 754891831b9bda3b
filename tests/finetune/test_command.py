"""The runs of a task: their names, and their fairseq-train commands."""

import os

import pytest
import torch

from helpers.glue_data import MODEL, write_checkpoint, write_data
from helpers.own_tasks import own_rows, own_task, write_own
from helpers.running import call_program
from tupe_fairseq.checkpoint.allowed_options import read_pretrained
from tupe_fairseq.finetune import protocol
from tupe_fairseq.finetune.command import Experiment, Run, Settings
from tupe_fairseq.finetune.task_data import TaskData

TUPE_A = {k: v for k, v in MODEL.items() if k not in ("rel_pos_buckets", "max_rel_pos")}
TUPE_A.update(rel_pos=False, tie_cls=True, encoder_normalize_before=True)


def words_of(tmp_path, name, options=MODEL, cpu=False, **settings):
    data = write_data(tmp_path / "a folder" / name, name)
    checkpoint = write_checkpoint(tmp_path / "the model.pt", options)
    experiment = Experiment(
        str(tmp_path / "runs"), TaskData.load(str(data)), read_pretrained(str(checkpoint)),
        Settings(epochs=2, batch_size=3, **settings), cpu,
    )  # fmt: skip
    return experiment.command(Run(3e-5, 4))


def value(words, flag):
    words = [part for word in words for part in word.split("=")]
    assert words.count(flag) == 1
    return words[words.index(flag) + 1]


def test_the_model_is_the_checkpoints(tmp_path):
    words = words_of(tmp_path, "CoLA")
    assert value(words, "--arch") == "tupe_roberta_base"
    for flag, number in (
        ("--encoder-layers", 3), ("--encoder-embed-dim", 16), ("--encoder-ffn-embed-dim", 24),
        ("--encoder-attention-heads", 2), ("--max-positions", 48), ("--rel-pos-buckets", 8),
        ("--max-rel-pos", 20),
    ):  # fmt: skip
        assert value(words, flag) == str(number)
    assert "--rel-pos" in words
    assert not {"--tie-cls", "--encoder-normalize-before"} & set(words)


def test_schedule(tmp_path):
    """10 rows in batches of 3, 2 epochs."""
    words = words_of(tmp_path, "CoLA", fp16=True, update_freq=2)
    assert value(words, "--total-num-update") == "4" and value(words, "--warmup-updates") == "0"
    assert value(words, "--max-epoch") == "2"
    assert (value(words, "--lr"), value(words, "--seed")) == ("3e-5", "4")
    assert "--fp16" in words and "--cpu" not in words
    words = words_of(tmp_path / "on a CPU", "CoLA", cpu=True, pretrained=False)
    assert "--finetune-from-model" not in words and "--restore-file" not in words
    assert "--cpu" in words and value(words, "--total-num-update") == "8"


def test_names():
    runs = [Run(lr, seed) for lr in (2e-5, 1.5e-4, 1e-3, 1.25e-10, 1e30) for seed in (1, 20)]
    names = [run.name for run in runs]
    assert names[:3] == ["lr2e-5-seed1", "lr2e-5-seed20", "lr1.5e-4-seed1"]
    assert names[5:8] == ["lr0.001-seed20", "lr1.25e-10-seed1", "lr1.25e-10-seed20"]
    assert [Run.named(name) for name in names] == runs
    for other in ("lr1e-05-seed3", "lrx-seed1", "lr--seed1", "notes"):
        assert Run.named(other) is None


def dry_run(tmp_path, folder, *flags):
    model = write_checkpoint(tmp_path / "model.pt")
    words = ["--data", folder, "--checkpoint", model, "--output-dir", tmp_path / "runs"]
    code, text = call_program("finetune", [*words, "--dry-run", *flags])
    assert code == 0, text
    return text


def test_the_papers_grid(tmp_path):
    text = dry_run(tmp_path, write_data(tmp_path / "CoLA", "CoLA"))
    runs = [line.split(", ")[1] for line in text.splitlines() if line.startswith("# CoLA, ")]
    rates = ("2e-5", "3e-5", "4e-5", "5e-5")
    assert runs == [f"lr{rate}-seed{seed}" for rate in rates for seed in range(1, 6)]
    assert "--max-epoch 10" in text and not (tmp_path / "runs").exists()


def test_a_small_grid_and_more_epochs_for_small_data(tmp_path):
    task = own_task("classification")
    folder = write_own(tmp_path / "mine", task, own_rows(task))
    text = dry_run(tmp_path, folder)
    for words in ("lr2e-5-seed1", "lr5e-5-seed2", "--max-epoch 50", "2 learning rates and 2 seeds"):
        assert words in text
    assert text.count("# mine, lr") == 4
    assert dry_run(tmp_path, folder, "--lrs", "1e-4").count("# mine, lr1e-4") == 2
    assert "--max-epoch 10" in dry_run(tmp_path, folder, "--batch-size", 1)


def test_flags_of_fairseq_train(tmp_path):
    text = dry_run(
        tmp_path, write_data(tmp_path / "CoLA", "CoLA", {"train": [0] * 7 + [1] * 3}),
        *"--metric f1 --balance --patience 3 --pooling mean --dropout 0.3 --weight-decay 0".split(),
    )  # fmt: skip
    for words in (
        "--best-checkpoint-metric f1", "--class-weights 0.714286,1.66667", "--patience 3",
        "--pooling mean", "--dropout 0.3", "--attention-dropout 0.3", "--pooler-dropout 0.3",
        "--weight-decay 0.0",
    ):  # fmt: skip
        assert words in text


@pytest.mark.parametrize(
    "flags, devices",
    [([], ["3"]), (["--gpus", "1,0"], ["5", "3"]), (["--cpu"], [None]), (["--fp16"], ["3"])],
)
def test_devices(flags, devices, tmp_path, monkeypatch):
    """GPUs are numbered as torch sees them."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    seen = []
    monkeypatch.setattr(protocol, "run_protocol", lambda *words: seen.append(words) or "")
    folder, model = write_data(tmp_path / "CoLA", "CoLA"), write_checkpoint(tmp_path / "model.pt")
    words = ["--data", folder, "--checkpoint", model, "--output-dir", tmp_path / "runs", *flags]
    code, text = call_program("finetune", words)
    assert code == 0, text
    experiment, _, found, *_ = seen[0]
    assert found == devices and experiment.cpu == (flags == ["--cpu"])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == (devices[0] or "3,5")
