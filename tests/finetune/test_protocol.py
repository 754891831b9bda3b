"""tupe-finetune through fairseq-train on tiny data: resuming, scores, tables, submissions."""

import json
import math
import os
import re
import shlex
import shutil

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics

from helpers import independent
from helpers.glue_data import ROWS, own_task, random_rows, write_bin, write_task
from helpers.glue_files import make_chain, sentence, write_pretrain_dir
from helpers.models import CHECKPOINT, write_model
from helpers.running import (
    VERSIONS,
    call_program,
    interrupt,
    refused,
    run_here,
    trainings_here,
    words_of,
)
from helpers.training import assert_same_weights
from tupe_fairseq.files import locked
from tupe_fairseq.kinds import KINDS

UPDATES = 2 * ROWS["train"] // 8
FIRST, SECOND, THIRD = (f"lr0.01-seed{seed}" for seed in (1, 2, 3))


def finetuning(chain, task, output, *flags):
    """Arguments for 2 epochs of 8 updates; later flags win."""
    return [
        "--data", chain / "out" / task, chain / "checkpoint_last.pt",
        "--output-dir", output, "--cpu", "--epochs", 2, "--batch-size", 8, "--lrs", "1e-2",
        "--seeds", "1", *flags,
    ]  # fmt: skip


def finetune(*words):
    """Run tupe-finetune; returns what it printed."""
    with trainings_here():
        return run_here("tupe-finetune", *words).stdout


def rows_of(path):
    """Predictions and targets."""
    return [columns_of(path)[name] for name in ("prediction", "target")]


def columns_of(path):
    header, *rows = (line.split("\t") for line in path.read_text().splitlines())
    return dict(zip(header, zip(*rows)))


def read(*path):
    return json.loads(path[0].joinpath(*path[1:]).read_text())


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    return make_chain(tmp_path_factory.mktemp("a chain"))


@pytest.fixture(scope="module")
def grid(chain, tmp_path_factory):
    """CoLA with two seeds; the second run is interrupted in a real process, then finished."""
    output = tmp_path_factory.mktemp("runs of")
    cola = output / "CoLA"
    words = finetuning(chain, "CoLA", output, "--keep-checkpoints")
    finetune(*words)
    words += ["--seeds", "1,2"]
    log = cola / SECOND / "train.log"
    code, text = interrupt(
        ["tupe-finetune", *words], lambda _: log.exists() and "begin training" in log.read_text()
    )
    assert code == 130 and text.endswith("tupe-finetune: interrupted; run again to resume\n"), text
    with locked(str(cola)):  # its fairseq-train has ended, too
        assert [path.parent.name for path in cola.glob("lr*/result.json")] == [FIRST]
    first = (cola / FIRST / "train.log").read_bytes()
    text = finetune(*words)
    assert (cola / FIRST / "train.log").read_bytes() == first
    assert "1 of 2 runs left" in text
    return output


def test_each_run_has_the_score_of_its_predictions(grid, chain):
    for name in (FIRST, SECOND):
        folder = grid / "CoLA" / name
        found = read(folder, "result.json")
        assert found["updates"] == UPDATES and found["epochs"] == 2
        assert (folder / "checkpoint_best.pt").exists()  # --keep-checkpoints
        assert not (folder / "checkpoint_last.pt").exists()
        predictions, targets = rows_of(folder / "predictions-valid.tsv")
        assert len(targets) == ROWS["valid"]
        columns = columns_of(folder / "predictions-valid.tsv")
        index = (chain / "out" / "CoLA" / "valid.index").read_text().split()
        assert list(columns["row"]) == index and min(map(float, columns["probability"])) >= 0.5
        expected = metrics.matthews_corrcoef(targets, predictions)
        assert found["metrics"]["valid"]["mcc"] == pytest.approx(expected, abs=1e-12)
        # fairseq has picked the checkpoint by the same score
        best = torch.load(folder / "checkpoint_best.pt", weights_only=False)["extra_state"]["best"]
        assert best / 100 == pytest.approx(expected, abs=1e-6)
    summary = read(grid, "CoLA", "results.json")
    runs = [read(grid, "CoLA", name, "result.json") for name in (FIRST, SECOND)]
    for run in summary["runs"]:
        assert run["versions"] == VERSIONS and run["machine"]
        assert (run["fp16"], run["threads"], run["train_flags"]) == (False, 1, [])
    scores = [one["metrics"]["valid"]["mcc"] for one in runs]
    assert summary["score"] == pytest.approx(sum(scores) / 2) and max(scores) > 0.2
    assert "No run beats" not in (grid / "CoLA" / "results.md").read_text()
    header, *rows = (grid / "submission" / "CoLA.tsv").read_text().splitlines()
    index = (chain / "out" / "CoLA" / "test.index").read_text().split()
    assert header == "index\tprediction"
    assert [row.split("\t")[0] for row in rows] == index and len(index) == ROWS["test"]
    assert {row.split("\t")[1] for row in rows} <= {"0", "1"}


def test_a_further_seed_resumes_where_it_was_stopped(grid, chain, tmp_path):
    """One epoch by hand, the rest by tupe-finetune; compared with a run that is all by hand."""
    words = finetuning(chain, "CoLA", grid, "--seeds", "1,2,3")
    shown = finetune(*words, "--dry-run")
    message = "made with other settings: dropout was 0.1 and is now 0.3"
    assert message in refused("finetune", *words, "--dry-run", "--dropout", 0.3)
    command = words_of(shown[shown.rindex("# CoLA, lr0.01-seed3") :])
    folder = grid / "CoLA" / THIRD
    printed = run_here(*command, "--max-epoch", 1).stdout
    (folder / "train.log").write_text(printed)
    last = torch.load(folder / "checkpoint_last.pt", weights_only=False)
    assert last["optimizer_history"][-1]["num_updates"] == UPDATES // 2

    text = finetune(*words, "--keep-checkpoints")
    assert "1 of 3 runs left" in text, text
    assert f"(epoch 2 @ {UPDATES // 2} updates)" in (folder / "train.log").read_text()
    assert read(folder, "result.json")["updates"] == UPDATES

    assert words_of((folder / "command.sh").read_text()) == command
    run_here(*command, "--save-dir", tmp_path)
    assert_same_weights(tmp_path / "checkpoint_best.pt", folder / "checkpoint_best.pt")

    again = finetune(*words)
    assert "0 of 3 runs left" in again
    predict_line = again.splitlines()[-1]  # the table is printed before
    assert predict_line.startswith("tupe-finetune: next: tupe-predict ")
    assert str(grid / "CoLA" / "best" / "checkpoint_best.pt") in os.path.abspath(
        shlex.split(predict_line)[3]
    )
    best = read(grid, "CoLA", "results.json")["best_run"]
    kept = [path.parent.name for path in (grid / "CoLA").glob("lr*/*.pt")]
    assert kept == [best]  # without --keep-checkpoints
    assert {"dict.txt", "vocabulary.json", "input0"} < {*os.listdir(grid / "CoLA" / best)}


def test_a_failing_run_does_not_end_the_others(chain, tmp_path):
    """The failing run has a damaged checkpoint."""
    words = finetuning(chain, "CoLA", tmp_path, "--epochs", 1, "--lrs", "1e-9,1e-2")
    words += ["--seeds", "1,2"]
    broken = tmp_path / "CoLA" / SECOND
    finetune(*words, "--seeds", 1, "--lrs", "1e-9")
    broken.mkdir()
    (broken / "checkpoint_last.pt").write_bytes(b"damaged")
    with trainings_here():
        code, text = call_program("finetune", words)
    assert code == 1, text
    assert text.splitlines()[-2].endswith("1 runs failed; run again to repeat them:"), text
    assert text.splitlines()[-1].startswith(f"  CoLA, {SECOND}: fairseq-train ended with exit code")
    summary = read(tmp_path, "CoLA", "results.json")
    assert [len(row["seeds"]) for row in summary["by_lr"]] == [2, 1]
    assert summary["best_lr"] == "1e-9"
    assert "**Incomplete:**" in (tmp_path / "CoLA" / "results.md").read_text()
    (broken / "checkpoint_last.pt").unlink()
    path = tmp_path / "CoLA" / "lr1e-9-seed1" / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fp16": True}))  # as on a GPU
    text = finetune(*words)
    assert "1 of 4 runs left" in text
    assert "| training: fp16 | True | lr1e-9-seed1 |" in text  # what is not equal in all runs
    assert "| training: fp16 | False | lr1e-9-seed2; lr0.01-seed1; lr0.01-seed2 |" in text
    assert "training: machine" not in text


def test_two_development_and_test_sets(chain, tmp_path):
    finetune(*finetuning(chain, "MNLI", tmp_path, "--epochs", 1))
    folder = tmp_path / "MNLI" / FIRST
    for split in ("valid", "valid1"):
        predictions, targets = rows_of(folder / f"predictions-{split}.tsv")
        assert set(targets) == {"contradiction", "entailment", "neutral"}
        expected = metrics.accuracy_score(targets, predictions)
        assert read(folder, "result.json")["metrics"][split]["accuracy"] == pytest.approx(expected)
    for name in ("MNLI-m", "MNLI-mm"):
        rows = (tmp_path / "submission" / f"{name}.tsv").read_text().splitlines()
        assert len(rows) == 1 + ROWS["test"]


def test_a_diverged_run_and_then_other_data(chain, tmp_path):
    shutil.copytree(chain / "out" / "CoLA", tmp_path / "out" / "CoLA")
    (tmp_path / "checkpoint_last.pt").symlink_to(chain / "checkpoint_last.pt")
    words = finetuning(tmp_path, "CoLA", tmp_path, "--no-pretraining", "--lrs", "1e30")
    text = finetune(*words)
    assert "every run of CoLA diverged" in text, text
    folder = tmp_path / "CoLA" / "lr1e+30-seed1"
    assert read(folder, "result.json")["diverged"] == "FloatingPointError: gradients are Nan/Inf"
    assert "tensors; newly initialized" not in (folder / "train.log").read_text()
    assert "| 1e+30 (best) | 1 | diverged |" in (tmp_path / "CoLA" / "results.md").read_text()
    assert "CoLA (not pre-trained) | diverged | diverged |" in (tmp_path / "results.md").read_text()
    write_bin(tmp_path / "out" / "CoLA" / "label" / "train", [[5, 2]] * ROWS["train"])
    assert "other settings: label/train.bin has changed since" in refused("finetune", *words)


# ---- Tasks of one's own


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A run of each kind of task."""
    folder = tmp_path_factory.mktemp("own tasks")
    for kind in [*KINDS]:
        task = own_task(kind, name=kind, texts=2 if kind == "classification" else 1)
        # windows of tags: some sentences are longer than the model
        rows = random_rows(task, longest=40 if kind == "tagging" else 6)
        if kind == "multilabel":
            rows["test"] = [(texts, None) for texts, _ in rows["test"]]
        write_task(folder / kind, task, rows)
        if kind == "classification":
            write_model(folder, folder / kind / "input0", rel_pos=True)
        text = finetune(*own_words(folder, kind))
    assert text.endswith(" new.conll --output-file predicted.conll\n")  # tagging is the last
    return folder


def own_words(folder, kind):
    words = ["--data", folder / kind, folder / CHECKPOINT, "--output-dir",
             folder / "runs", "--cpu", "--no-pretraining", "--batch-size", 8, "--lrs", "1e-2",
             "--seeds", 1, "--epochs", 3, "--patience", 1]  # fmt: skip
    words += [] if kind == "regression" else ["--balance"]
    return words + (["--metric", "macro_f1"] if kind == "classification" else [])


def score(kind, *sides):
    """The metric that picks checkpoints, computed by libraries from a file's cells."""
    if kind == "regression":
        sides = np.array(sides, dtype=float)
        return np.mean([independent.metric(name, *sides) for name in ("pearson", "spearman")])
    if kind != "classification":
        sides = [[json.loads(cell) for cell in side] for side in sides]
    if kind == "multilabel":
        labels = own_task(kind).labels
        sides = [np.array([[x in row for x in labels] for row in side]) for side in sides]
    names = {"classification": "macro_f1", "multilabel": "micro_f1", "tagging": "accuracy"}
    return independent.metric(names[kind], *sides)


@pytest.mark.parametrize("kind", [*KINDS])
def test_a_task_of_ones_own(kind, own):
    task = own / "runs" / kind
    result, summary = read(task, FIRST, "result.json"), read(task, "results.json")
    table = (task / "results.md").read_text()
    predictions, targets = rows_of(task / FIRST / "predictions-valid.tsv")
    assert len(targets) == ROWS["valid"]
    of_fairseq = independent.predictions(task / FIRST / "checkpoint_best.pt", own / kind, "valid")
    if kind == "regression":
        low, high = own_task(kind).scale
        wanted = low + (high - low) * of_fairseq
        np.testing.assert_allclose([*map(float, predictions)], wanted, rtol=0, atol=1e-5)
    else:
        wanted = own_task(kind).kind.spell(of_fairseq, own_task(kind))
        is_one = kind == "classification"
        assert [*predictions] == wanted if is_one else [*map(json.loads, predictions)] == wanted
    expected = pytest.approx(score(kind, predictions, targets), abs=1e-6)
    assert result["metrics"]["valid"][summary["selection"]] == summary["score"] == expected
    assert ("- class weights: [" in table) == (kind != "regression")
    is_useless = summary["best_run_score"] <= summary["baseline_score"]
    assert ("No run beats the baseline" in table) == is_useless
    path = task / FIRST / "predictions-test.tsv"
    if kind == "multilabel":  # whose test set has no labels
        columns = columns_of(path)
        assert "target" not in columns and summary["test"] == {}
        of_rows = zip(*(map(json.loads, columns[name]) for name in ("prediction", "probability")))
        assert all(len(labels) == len(shares) for labels, shares in of_rows)
        assert len(columns["prediction"]) == ROWS["test"]
    else:
        found = summary["test"]["test"][summary["selection"]]
        assert found == pytest.approx(score(kind, *rows_of(path)), abs=1e-6)

    # again: nothing is trained or predicted, and all files are the same
    (task / FIRST / "checkpoint_best.pt").unlink()
    names = ("results.json", "results.md", "*.png", "*/*.tsv", "*/result.json")
    before = {path: path.read_bytes() for name in names for path in task.glob(name)}
    text = finetune(*own_words(own, kind))
    assert "0 of 1 runs left" in text and len(before) >= 6
    assert {path: path.read_bytes() for path in before} == before


def test_a_disk_without_links(own, monkeypatch):
    def refuse(*_):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "symlink", refuse)
    text = finetune(*own_words(own, "regression"))
    assert f"no link best to {FIRST}, the best run: no links here" in text


def test_windows_and_patience(own):
    """Sentences that are longer than the model become several windows; a run ends early."""
    folder = own / "runs" / "tagging" / FIRST
    found = re.search(r"train: (\d+) of 64 .*; (\d+) samples", (folder / "train.log").read_text())
    long, windows = map(int, found.groups())
    assert long > 5 and windows > 64
    planned = 3 * math.ceil(windows / 8)
    assert f"--total-num-update {planned} " in (folder / "command.sh").read_text()
    overall = (own / "runs" / "results.md").read_text()
    assert re.findall(r"^\| (\w+) \(", overall, re.M) == sorted([*KINDS])
    results = [read(path) for path in (own / "runs").glob("*/lr*/result.json")]
    assert len(results) == 4 and min(one["epochs"] for one in results) < 3


# ---- Folds and test parts


@pytest.fixture(scope="module")
def chains(tmp_path_factory):
    """Texts with a class, their vocabulary, and a model."""
    folder = tmp_path_factory.mktemp("folds of")
    write_pretrain_dir(folder / "data")
    lines = [f"{text},{'cat' in text}" for text in map(sentence, range(60))]
    (folder / "a.csv").write_text("\n".join(["text,label", *lines, lines[0]]) + "\n")
    write_model(folder, folder / "data")
    return folder


def prepared(folder, *flags):
    words = ["--kind", "classification", "--train", folder / "a.csv", "--workers", 1, *flags]
    words += ["--vocabulary", folder / "data", "--output-dir", folder / f"of-{flags[1]}"]
    run_here("tupe-prepare-task", *words)
    return words[-1]


def on_cpu(folder, data, *flags):
    words = ["--data", data, folder / CHECKPOINT, "--output-dir", folder / "runs"]
    words += ["--cpu", "--no-pretraining", "--lrs", "1e-2", "--epochs", 2, "--batch-size", 8]
    return [*words, *flags]


def test_folds_predict_each_row_once(chains):
    """A fold that was killed is made again."""
    data = prepared(chains, "--folds", 2)
    words = on_cpu(chains, data, "--seeds", "1,2", "--pooling", "mean")
    text = finetune(*words)
    assert "4 of 4 runs left" in text
    assert re.search(r"fold1, lr0.01-seed1: valid accuracy \d+\.\d%\n", text)  # not of test
    folder = chains / "runs" / data.name
    assert not list(folder.glob("fold*/*/*.pt")) and not (folder / "fold1" / "best").exists()
    assert not list(folder.glob("fold*/*/vocabulary.json"))  # which is for checkpoints
    found = columns_of(folder / "predictions.tsv")
    assert [*map(int, found["row"])] == [*range(61)]
    assert found["fold"][0] == found["fold"][60]  # the same text
    summary = read(folder, "results.json")
    sides = found["prediction"], found["target"]
    assert summary["score"] == pytest.approx(metrics.accuracy_score(*sides[::-1]), abs=1e-6)
    interval = summary["metrics"][summary["selection"]]["interval"]
    assert interval[0] <= summary["score"] <= interval[1] and interval[0] < interval[1]
    # each fold
    for fold in summary["folds"]:
        assert fold["versions"] == VERSIONS
        of_best = columns_of(folder / fold["fold"] / fold["run"] / "predictions-test.tsv")
        for row, answer in zip(of_best["row"], of_best["prediction"]):
            assert sides[0][int(row)] == answer
    table = (folder / "results.md").read_text()
    lines = ["the best run of each fold", "median of 2 seeds"]
    for line in [*lines, r"always [^|,]+ \|"]:  # the same in both folds
        assert re.search(rf"\| {line}", table), table
    score = summary["score"]
    low, high = (f"{100 * end:.1f}" for end in interval)
    assert f"**Report** accuracy {100 * score:.1f} ({low} to {high}), by the best run of" in table
    assert ("No run beats the baseline" in table) == (score <= summary["baseline_score"])
    assert re.search(r"learns from 2\d to 2\d rows; .* chosen on 3 others", table)
    assert "## Each fold, by its best run" in table and "- pooling: mean" in table
    assert "## Each class\n" in table
    assert "predicted once, by a model that has not seen it" in table
    before = {path: path.read_bytes() for path in folder.rglob("*.tsv")}
    assert "0 of 4 runs left" in finetune(*words)
    assert {path: path.read_bytes() for path in before} == before
    (folder / "fold2" / SECOND / "result.json").unlink()  # as if it were killed there
    assert "1 of 4 runs left" in finetune(*words)
    assert {path: path.read_bytes() for path in before} == before
    assert f"{data.name}, 2 folds" in (chains / "runs" / "results.md").read_text()


def test_the_test_part_is_scored_at_the_end_by_the_seeds_of_the_best_rate(chains):
    data = prepared(chains, "--test-share", 0.25)
    words = on_cpu(chains, data, "--seeds", "1,2,3", "--epochs", 1, "--train-flags=--bf16")
    finetune(*words)
    folder = chains / "runs" / data.name
    assert "dtype: bfloat16" in (folder / FIRST / "train.log").read_text()
    summary = read(folder, "results.json")
    best = f"lr{summary['best_lr']}-seed"
    names = [f"{best}{seed}" for seed in (1, 2, 3)]
    predicted = [rows_of(folder / name / "predictions-test.tsv") for name in names]
    scores = [metrics.accuracy_score(*sides[::-1]) for sides in predicted]
    table = (folder / "results.md").read_text()
    mean, margin = np.mean(scores), stats.t.ppf(0.975, 2) * np.std(scores, ddof=1) / 3**0.5
    shown, *ends = (f"{100 * x:.1f}" for x in (mean, mean - margin, mean + margin))
    (row,) = (line for line in table.splitlines() if line.startswith("| median of 3 seeds"))
    assert row.split(" | ")[1] == f"{100 * np.median(scores):.1f}"
    shown += " ({} to {})".format(*ends) if np.ptp(scores) else ""  # not of no width
    assert row.split(" | ")[3] == f"{shown} |"
    interval = r"^\| lr\S+-seed\d[^,|]* \| 1 \| \S+ \((\S+) to (\S+)\) \|"
    runs = re.findall(interval, table, re.M)
    assert len(runs) == 3 and all(float(low) < float(high) for low, high in runs)
    assert "| accuracy | macro F1 | accuracy: mean over the seeds |" in table
    assert "In brackets: 95% intervals over the rows, by 1,000 draws" in table
    assert "In brackets after a mean of seeds: its 95% interval over the seeds" in table
    assert "nothing is chosen on these rows. Report the best run.\n" in table
    assert "\n- train flags: --bf16\n" in table
    assert "## Each class of the development set, by the best run" in table
    gone = "; --ensemble is gone: see 'Votes of seeds, temperatures' in examples/tasks"
    assert gone in refused("finetune", *words, "--ensemble")
