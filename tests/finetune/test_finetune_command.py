"""The fairseq-train command of a run, and what it is read from."""

import shlex
import subprocess

import pytest
from finetune_files import DICTIONARY, MODEL, write_bin, write_checkpoint, write_data

from tupe_fairseq.finetune.command import FineTuning, training_command
from tupe_fairseq.finetune.grid import Run
from tupe_fairseq.finetune.pretrained import read_pretrained
from tupe_fairseq.finetune.task_data import read_task_data
from tupe_fairseq.glue.tasks import GLUE_TASKS
from tupe_fairseq.training.words import as_shell

TUPE_A = {k: v for k, v in MODEL.items() if k not in ("rel_pos_buckets", "max_rel_pos")}
TUPE_A.update(rel_pos=False, tie_cls=True, encoder_normalize_before=True)


def words_of(tmp_path, name, options=MODEL, form="namespace", **settings):
    data = write_data(tmp_path / "a folder" / name, name)
    checkpoint = write_checkpoint(tmp_path / "the model.pt", options, form)
    return training_command(
        Run(3e-5, 4), str(tmp_path / "runs"), read_task_data(str(data), GLUE_TASKS[name]),
        read_pretrained(str(checkpoint)), FineTuning(epochs=2, batch_size=3, **settings),
    )  # fmt: skip


def value(words, flag):
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


def test_labels_that_the_dictionary_does_not_list(tmp_path):
    folder = write_data(tmp_path / "CoLA", "CoLA")
    data = read_task_data(str(folder), GLUE_TASKS["CoLA"])
    assert data.targets("train").tolist() == [0, 1] * 5
    write_bin(folder / "label" / "train", [[4, 2], [6, 2], *[[4, 2]] * 8])
    with pytest.raises(ValueError, match="has labels that label/dict.txt does not list"):
        data.targets("train")
    write_bin(folder / "label" / "train", [[4, 2]])
    with pytest.raises(ValueError, match="has 1 labels for 10 rows"):
        data.targets("train")


def test_an_older_checkpoint_does_not_record_its_vocabulary(tmp_path):
    import torch

    path = write_checkpoint(tmp_path / "model.pt")
    state = torch.load(path)
    assert read_pretrained(str(path)).vocabulary_version is not None
    del state["model"]["encoder.vocabulary_version"]
    torch.save(state, path)
    model = read_pretrained(str(path))
    assert model.vocabulary_version is None
    assert model.vocabulary_size == len(DICTIONARY) + 5
