"""tupe-finetune: the fairseq-train commands of its runs, and what it refuses before any work."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.glue_data import DICTIONARY, own_task, random_rows, write_data, write_task
from helpers.models import write_model
from helpers.running import call_program
from tupe_fairseq.checkpoint.model import Model
from tupe_fairseq.cli.finetune import as_checkpoint
from tupe_fairseq.finetune.experiment import Experiment
from tupe_fairseq.finetune.fine_tuning import FineTuning
from tupe_fairseq.finetune.options import FinetuneOptions
from tupe_fairseq.finetune.protocol import TaskStudy
from tupe_fairseq.labelled.task_folder import TaskData
from tupe_fairseq.runs.options import visible

MODEL = Path(__file__).parents[2] / "examples" / "models" / "tupe-r-mini-10m"
LABELS = {"train": [0] * 7 + [1] * 3, "valid": [0, 1, 1], "test": [None] * 2}
SIZES = {"encoder_layers": 3, "max_positions": 48, "rel_pos_buckets": 8, "max_rel_pos": 20}


def words_of(tmp_path, **settings):
    data = write_data(tmp_path / "a folder" / "CoLA", "CoLA", LABELS)
    checkpoint = write_model(tmp_path / "the model", data / "input0", rel_pos=True, **SIZES)
    experiment = Experiment(
        FinetuneOptions(
            checkpoint=checkpoint, data=data, output_dir=tmp_path, epochs=2, batch_size=3,
            **settings,
        ),
        TaskData.load(str(data)), str(checkpoint), Model.read(str(checkpoint)).flags(),
        SIZES["max_positions"],
    )  # fmt: skip
    return [part for word in FineTuning(3e-5, 4, experiment).command for part in word.split("=")]


def test_the_model_is_the_checkpoints_and_the_schedule_is_that_of_the_data(tmp_path, monkeypatch):
    """10 rows in batches of 3, 2 epochs."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    words = words_of(tmp_path, fp16=True)
    for flag, value in (
        ("--arch", "tupe_roberta"), ("--encoder-layers", 3), ("--encoder-embed-dim", 16),
        ("--encoder-ffn-embed-dim", 24), ("--encoder-attention-heads", 2), ("--max-positions", 48),
        ("--rel-pos-buckets", 8), ("--max-rel-pos", 20), ("--total-num-update", 8),
        ("--warmup-updates", 0), ("--max-epoch", 2), ("--lr", "3e-5"), ("--seed", 4),
    ):  # fmt: skip
        assert words.count(flag) == 1 and words[words.index(flag) + 1] == str(value), flag
    assert {"--rel-pos", "--fp16", "--finetune-from-model"} < set(words)
    assert not {"--tie-cls", "--encoder-normalize-before", "--cpu"} & set(words)
    words = words_of(tmp_path / "on a CPU", cpu=True, no_pretraining=True)
    assert not {"--finetune-from-model", "--restore-file"} & set(words) and "--cpu" in words


def call(folder, data, *flags, model=None):
    words = ["--data", data, "--output-dir", folder / "runs"]
    model = model or write_model(folder, data / "input0")
    return call_program("finetune", [model, *words, *flags])


def test_folders_of_the_same_name_are_two_models(tmp_path):
    """Both are older than what the first one was converted to."""
    folders = tmp_path / "a" / "model", tmp_path / "b" / "model"
    for folder in folders:
        shutil.copytree(MODEL, folder)
    tensors = load_file(folders[1] / "model.safetensors")
    save_file({name: 0 * x for name, x in tensors.items()}, folders[1] / "model.safetensors")
    one, other = (as_checkpoint(f"{folder}/", str(tmp_path / "runs")) for folder in folders)
    name = "encoder.sentence_encoder.embed_tokens.weight"
    before, after = (Model.read(path).tensors[name] for path in (one, other))
    assert before.any() and not after.any()
    assert as_checkpoint(folders[0], str(tmp_path / "runs")) == one


def test_the_warm_up_is_6_percent_of_all_updates(tmp_path):
    """10 rows in batches of 1, 5 epochs: of 50 updates 3."""
    data = write_data(tmp_path / "CoLA", "CoLA", LABELS)
    code, text = call(tmp_path, data, "--dry-run", "--batch-size", 1, "--epochs", 5, "--seeds", 0)
    assert code == 0 and "--warmup-updates 3 " in text and "--total-num-update 50 " in text


def test_the_papers_grid_and_a_small_one_for_small_data(tmp_path):
    code, text = call(tmp_path, write_data(tmp_path / "CoLA", "CoLA", LABELS), "--dry-run")
    runs = [line.split(", ")[1] for line in text.splitlines() if line.startswith("# CoLA, ")]
    rates = ("2e-5", "3e-5", "4e-5", "5e-5")
    assert code == 0 and runs == [f"lr{rate}-seed{seed}" for rate in rates for seed in range(1, 6)]
    assert "--max-epoch 10" in text and not (tmp_path / "runs").exists()
    task = own_task("classification")
    folder = write_task(tmp_path / "mine", task, random_rows(task))
    _, text = call(tmp_path, folder, "--dry-run")
    assert text.count("# mine, lr") == 4 and "--max-epoch 50" in text
    assert "--max-epoch 10" in call(tmp_path, folder, "--dry-run", "--batch-size", 1)[1]


def test_flags_of_fairseq_train(tmp_path):
    data = write_data(tmp_path / "CoLA", "CoLA", LABELS)
    flags = "--metric f1 --balance --patience 3 --pooling mean --dropout 0.3"
    code, text = call(tmp_path, data, "--dry-run", *flags.split())
    for words in (
        "--best-checkpoint-metric f1", "--class-weights 0.714286,1.66667", "--patience 3",
        "--pooling mean", "--dropout 0.3", "--attention-dropout 0.3", "--pooler-dropout 0.3",
    ):  # fmt: skip
        assert words in text


def test_further_flags_of_fairseq_train(tmp_path, monkeypatch):
    """Only flags that the protocol does not set; each run has its own TensorBoard folder."""
    data = write_data(tmp_path / "CoLA", "CoLA", LABELS)
    flags = "--bf16 --optimizer fused_adam --tensorboard-logdir"
    if importlib.util.find_spec("tensorboard") is None:
        code, text = call(tmp_path, data, "--dry-run", f"--train-flags={flags} tb")
        assert code == 2 and "-logdir needs tensorboard: pip install" in text.splitlines()[-1]
        (tmp_path / "tensorboard").mkdir()  # only its presence is checked
        (tmp_path / "tensorboard" / "__init__.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
    for place in ("{} tb", "{}=tb"):
        _, text = call(tmp_path, data, "--dry-run", f"--train-flags={place.format(flags)}")
        logs = re.findall(r"--tensorboard-logdir[ =](\S+)", text)
        assert logs[:2] == ["tb/CoLA/lr2e-5-seed1", "tb/CoLA/lr2e-5-seed2"] and len(logs) == 20
        assert text.count(" --bf16 ") == 20
        assert call(tmp_path, data, "--dry-run", "--", *place.format(flags).split())[1] == text
    for wrong, expected in {
        "--lr 1": "may not set --lr: the command sets it, or depends on its default",
        "--seed 5 --seed 7": "may not set --seed", "--encoder-layers 5": "may not set --encoder-la",
        "--max-update 7": "may not set --max-update", "--no-such": ": unrecognized arguments: --no",
        "--lr-scheduler fixed": ": unrecognized arguments: --total-num-update", "'": "No closing",
        "--amp": "--amp has no effect on a CPU", "--multilabel": "may not set --multilabel",
    }.items():  # fmt: skip
        code, text = call(tmp_path, data, "--dry-run", "--cpu", f"--train-flags={wrong}")
        assert code == 2 and expected in text.splitlines()[-1], text
        assert "--train-flags" in text and not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "flags, devices, seen_by_runs",
    [
        ([], ["cuda:0"], ["3"]),
        (["--gpus", "1,0"], ["cuda:1", "cuda:0"], ["5", "3"]),
        (["--cpu"], ["cpu"], [""]),
    ],
)
def test_devices(flags, devices, seen_by_runs, tmp_path, monkeypatch):
    """GPUs are numbered as torch sees them, also by the process that predicts."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    seen = []
    monkeypatch.setattr(TaskStudy, "complete", lambda study: seen.append(study) or "")
    code, text = call(tmp_path, write_data(tmp_path / "CoLA", "CoLA", LABELS), *flags)
    assert code == 0, text
    (study,) = seen
    assert study.options.devices == devices
    assert ("--cpu" in study.runs[0].command) == (flags == ["--cpu"])
    assert [*map(visible, devices)] == seen_by_runs
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert visible("cuda:1") == "1"


def test_a_dry_run_is_refused_like_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    data = write_data(tmp_path / "CoLA", "CoLA", LABELS)
    for flags, message in ((["--gpus", "7"], "--gpus 7: torch finds 0"), (["--fp16"], "a GPU")):
        code, text = call(tmp_path, data, "--dry-run", *flags)
        assert code == 2 and message in text.splitlines()[-1]
    assert " --cpu" in call(tmp_path, data, "--dry-run")[1]


def test_data_that_do_not_fit(tmp_path):
    """Foreign files in RUNS, a different vocabulary, a missing file, too few rows."""

    def refused(**model):
        code, text = call(tmp_path, data, "--cpu", **model)
        assert code == 2 and not list(tmp_path.glob("runs/CoLA/lr*"))
        return text.splitlines()[-1]

    data, runs = write_data(tmp_path / "CoLA", "CoLA", LABELS), tmp_path / "runs" / "CoLA"
    runs.mkdir(parents=True)
    (runs / "mine").touch()
    assert "contains other files" in refused()
    (runs / "mine").unlink()
    (tmp_path / "dict.txt").write_text("\n".join(DICTIONARY[::-1]) + "\n")
    other = write_model(tmp_path / "other", tmp_path)
    line = refused(model=other)
    assert "a different vocabulary of the same size" in line
    assert "prepare the task again with --vocabulary" in line
    (data / "label" / "valid.idx").unlink()
    assert "label/valid.idx is missing" in refused()
    data = write_data(tmp_path / "few" / "CoLA", "CoLA", {**LABELS, "valid": [1]})
    assert "few/CoLA has 1 rows in valid, below 2" in refused()
