"""The runs of a task: their names, their fairseq-train commands, and which are finished."""

import shlex
import subprocess

import pytest

from helpers.glue_data import MODEL, write_checkpoint, write_data
from tupe_fairseq.fairseq_runs.command import as_shell
from tupe_fairseq.files.atomic import write_json
from tupe_fairseq.finetune.experiment import Experiment, FineTuningRun, RunSettings
from tupe_fairseq.finetune.pretrained import read_pretrained
from tupe_fairseq.finetune.read_results import finished
from tupe_fairseq.finetune.task_data import read_task_data

TUPE_A = {k: v for k, v in MODEL.items() if k not in ("rel_pos_buckets", "max_rel_pos")}
TUPE_A.update(rel_pos=False, tie_cls=True, encoder_normalize_before=True)


def words_of(tmp_path, name, options=MODEL, form="namespace", **settings):
    data = write_data(tmp_path / "a folder" / name, name)
    checkpoint = write_checkpoint(tmp_path / "the model.pt", options, form)
    experiment = Experiment(
        str(tmp_path / "runs"), read_task_data(str(data)),
        read_pretrained(str(checkpoint)), RunSettings(epochs=2, batch_size=3, **settings),
    )  # fmt: skip
    return experiment.command(FineTuningRun(3e-5, 4))


def value(words, flag):
    words = [part for word in words for part in word.split("=")]
    assert words.count(flag) == 1
    return words[words.index(flag) + 1]


@pytest.mark.parametrize("form", ["namespace", "hydra", "args"])
def test_the_model_is_the_checkpoints(form, tmp_path):
    words = words_of(tmp_path, "CoLA", form=form)
    assert value(words, "--arch") == "tupe_roberta_base"
    for flag, number in (
        ("--encoder-layers", 3), ("--encoder-embed-dim", 16), ("--encoder-ffn-embed-dim", 24),
        ("--encoder-attention-heads", 2), ("--max-positions", 48), ("--rel-pos-buckets", 8),
        ("--max-rel-pos", 20),
    ):  # fmt: skip
        assert value(words, flag) == str(number)
    assert "--rel-pos" in words and "--tie-cls" not in words
    assert "--encoder-normalize-before" not in words


def test_a_model_of_other_switches(tmp_path):
    words = words_of(tmp_path, "CoLA", TUPE_A)
    assert "--tie-cls" in words and "--encoder-normalize-before" in words
    assert not {"--rel-pos", "--rel-pos-buckets", "--max-rel-pos"} & set(words)


@pytest.mark.parametrize(
    "name, classes, metric, subsets",
    [
        ("CoLA", 2, "mcc", "valid"),
        ("STS-B", 1, "pearson_and_spearman", "valid"),
        ("QQP", 2, "acc_and_f1", "valid"),
        ("MNLI", 3, "accuracy", "valid,valid1"),
    ],
)
def test_the_task(name, classes, metric, subsets, tmp_path):
    words = words_of(tmp_path, name)
    assert value(words, "--glue-task") == name
    assert value(words, "--num-classes") == str(classes)
    assert value(words, "--best-checkpoint-metric") == metric
    assert value(words, "--valid-subset") == subsets
    assert ("--regression-target" in words) == (name == "STS-B")


def test_schedule_and_devices(tmp_path):
    """10 rows in batches of 3 for 2 GPUs, 2 epochs."""
    words = words_of(tmp_path, "CoLA", gpus=2, fp16=True)
    assert value(words, "--total-num-update") == "4"
    assert value(words, "--warmup-updates") == "0"
    assert value(words, "--max-epoch") == "2"
    assert (value(words, "--lr"), value(words, "--seed")) == ("3e-5", "4")
    assert value(words, "--distributed-world-size") == "2"
    assert {"--fp16", "--find-unused-parameters"} < set(words) and "--cpu" not in words


def test_no_pretraining_on_the_cpu(tmp_path):
    words = words_of(tmp_path, "CoLA", gpus=0, pretrained=False)
    assert "--finetune-from-model" not in words and "--restore-file" not in words
    assert "--cpu" in words and value(words, "--total-num-update") == "8"


def test_a_shell_reads_the_very_words(tmp_path):
    words = words_of(tmp_path, "CoLA")
    text = as_shell(words)
    assert max(map(len, text.splitlines()[1:])) < 100 + len(str(tmp_path))
    assert shlex.split(text.replace("\\\n", "")) == words
    assert value(words, "--finetune-from-model").endswith("/the model.pt")
    script = text.replace(shlex.quote(words[0]), "printf '%s\\n'", 1)
    shown = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert shown.stdout.splitlines() == words[1:]


def test_names():
    runs = [FineTuningRun(lr, seed) for lr in (2e-5, 1e-3, 1.25e-10) for seed in (1, 20)]
    names = [run.name for run in runs]
    assert names[:3] == ["lr2e-5-seed1", "lr2e-5-seed20", "lr0.001-seed1"]
    assert names[5] == "lr1.25e-10-seed20"
    assert [FineTuningRun.named(name) for name in names] == runs
    for other in ("lr1e-05-seed3", "lrx-seed1", "notes"):
        assert FineTuningRun.named(other) is None


def test_finished_runs_are_those_with_a_result_by_rate_and_seed(tmp_path):
    """By the size of their numbers, not by their text."""
    names = ("lr0.001-seed1", "lr1e-5-seed10", "lr1e-5-seed2", "lr1e-05-seed3", "notes")
    for name in names:
        (tmp_path / name).mkdir()
        lr, seed = name[2:].split("-seed") if "-seed" in name else ("", "0")
        result = {"run": name, "lr": lr, "seed": int(seed), "diverged": "nan", "metrics": None}
        write_json(str(tmp_path / name / "result.json"), result)
    (tmp_path / "lr1e-6-seed1").mkdir()
    data = read_task_data(str(write_data(tmp_path / "CoLA", "CoLA")))
    results = finished(Experiment(str(tmp_path), data, None, None))
    assert list(results) == [FineTuningRun(*run) for run in ((1e-5, 2), (1e-5, 10), (1e-3, 1))]
    assert all(result["run"] == run.name for run, result in results.items())
