"""tupe-predict --report: metrics, intervals, calibration and errors of labelled rows."""

import csv
import importlib.util
import json
import os
import shutil

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics

from helpers import independent
from helpers.glue_files import sentence
from helpers.models import LABELS, hub_of, write_fine_tuned
from helpers.rows import read_json_lines, write_json_lines
from helpers.running import VERSIONS, refused, run_here
from tupe_fairseq.data.metrics import METRICS, metrics_of_counts
from tupe_fairseq.kinds import KINDS
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.results import intervals
from tupe_fairseq.results.evaluation import calibration
from tupe_fairseq.results.scores import Predicted, measure, with_intervals

TAGS = ("O", "B-x", "I-x")
REPORTED = {
    "classification": ("accuracy", "macro_f1"),
    "regression": ("pearson", "spearman"),
    "multilabel": ("micro_f1", "macro_f1"),
    "tagging": ("entity_f1", "accuracy"),
}
ROWS = 40


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A fine-tuned model of each kind; the tags are entities."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(2)
    found = {kind: write_fine_tuned(folder / kind, kind, rel_pos=True) for kind in [*KINDS]}
    for kind, checkpoint in found.items():
        path = checkpoint.parent / "report.json"
        report = json.loads(path.read_text())
        report["description"]["metrics"] = REPORTED[kind]
        report["description"]["selection"] = REPORTED[kind][0]
        report["description"]["labels"] = TAGS if kind == "tagging" else LABELS[kind]
        path.write_text(json.dumps(report))
    return found


def labelled_rows(kind, seed=0):
    draw = np.random.default_rng(seed)
    for number in range(ROWS):
        text, label = sentence(number), int(draw.integers(3))
        if kind == "tagging":
            text = text.split()
            label = draw.choice(["O", "B-x"], len(text)).tolist()
        elif kind == "multilabel":
            label = [one for one in LABELS[kind] if draw.random() < 0.4]
        elif kind == "regression":
            label = float(draw.integers(-20, 60)) / 10
        else:
            label = LABELS[kind][label]
        yield {"text": text, "mine": label}


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def predict(*words):
    return run_here("tupe-predict", *words, "--cpu").stdout


NAMES = {"regression": "score", "multilabel": "labels", "tagging": "tags"}


def sides_of(kind, found):
    """Predictions and targets of what tupe-predict wrote."""
    sides = [[row[name] for row in found] for name in (NAMES.get(kind, "label"), "mine")]
    if kind == "multilabel":
        return [np.array([[x in of for x in LABELS[kind]] for of in side]) for side in sides]
    return sides


def assert_probabilities(kind, checkpoint, found):
    """The prediction has the highest of all probabilities; predict_texts gives the same ones."""
    labels = TAGS if kind == "tagging" else LABELS[kind]
    for row in found:
        every = row["all_probabilities"]
        if kind == "tagging":
            assert [max(x, key=x.get) for x in every] == row["tags"]
        elif kind == "multilabel":
            assert [every[x] for x in row["labels"]] == row["probabilities"]
            assert row["labels"] == [x for x in labels if every[x] > 0.5]
        else:
            assert max(every, key=every.get) == row["label"]
            assert max(every.values()) == row["probability"]
        for one in every if kind == "tagging" else [every]:
            assert [*one] == [*labels]
            assert kind == "multilabel" or sum(one.values()) == pytest.approx(1, abs=3e-6)
    hub = hub_of(checkpoint.parent)
    again = hub.predict_texts([row["text"] for row in found[:3]], all_probabilities=True)
    for row, one in zip(found, again):
        flat = [np.ravel([[*x.values()] for x in np.ravel(y["all_probabilities"])])
                for y in (row, one)]  # fmt: skip
        assert flat[0] == pytest.approx(flat[1], abs=1e-5)  # rounding of float32 in other batches


@pytest.mark.parametrize("kind", [*KINDS])
def test_metrics_are_those_of_the_libraries_and_errors_are_the_wrong_rows(kind, models, tmp_path):
    source = write_json_lines(tmp_path / "in.jsonl", labelled_rows(kind))
    out, folder = tmp_path / "out.jsonl", tmp_path / "report"
    words = [models[kind], source, "--output-file", out, "--report", folder, "--label", "mine"]
    words += [] if kind == "regression" else ["--all-probabilities"]
    more = ["mcc"] * (kind == "classification")
    log = predict(*words, *(["--metric", *more] if more else []))
    found = read_json_lines(out)
    results = json.loads((folder / "results.json").read_text())
    assert [*results["metrics"]] == [*REPORTED[kind], *more] and results["rows"] == ROWS
    assert results["versions"] == VERSIONS and results["machine"]
    first = results["metrics"][REPORTED[kind][0]]
    low, high = (100 * end for end in first["interval"])
    assert f", times 100: {100 * first['value']:.1f} ({low:.1f} to {high:.1f})\n" in log
    sides = sides_of(kind, found)
    if kind != "regression":
        assert_probabilities(kind, models[kind], found)
    for metric, one in results["metrics"].items():
        assert one["value"] == pytest.approx(independent.metric(metric, *sides), abs=1e-12)
        assert one["interval"][0] <= one["value"] <= one["interval"][1]
    errors = read_csv(folder / "errors.csv")
    name = NAMES.get(kind, "label")
    wrong = {number for number, row in enumerate(found) if row["mine"] != row[name]}
    assert {int(row["row"]) for row in errors} == wrong and len(errors) == len(wrong)
    sizes = [float(row["difference" if kind == "regression" else "confidence"]) for row in errors]
    assert sizes == sorted(sizes, reverse=True)
    page = (folder / "results.md").read_text()
    if kind == "tagging":
        row, first = found[int(errors[0]["row"])], errors[0]
        marked = zip(row["text"], row["mine"], row["tags"])
        assert first["text"] == " ".join(
            w if a == b else f"{w} [{a}, not {b}]" for w, a, b in marked
        )
    else:
        assert errors[0]["text"] == found[int(errors[0]["row"])]["text"]
        assert f"| {errors[0]['text']} |" in page
    pictures = {"regression": ["scatter"], "multilabel": ["reliability"]}
    pictures = pictures.get(kind, ["confusion", "reliability"])
    names = sorted(["errors.csv", "results.json", "results.md", *(f"{x}.png" for x in pictures)])
    assert sorted(os.listdir(folder)) == names and all(f"({x}.png)" in page for x in pictures)
    if kind == "classification":
        confusion = metrics.confusion_matrix(*sides[::-1], labels=LABELS[kind])
        assert results["confusion"] == confusion.tolist()
        scores = metrics.precision_recall_fscore_support(*sides[::-1], labels=LABELS[kind])
        for name, values in zip(("precision", "recall", "f1", "support"), scores):
            assert [one[name] for one in results["classes"]] == pytest.approx(values.tolist())


# ---- Intervals and calibration ------------------------------------------------------------------


def task_of(kind, *names):
    labels = TAGS if kind == "tagging" else LABELS[kind]
    return Task("mine", kind, labels, 1, ("train",), names, names[0])


def simulated(kind, rows, draw):
    """Targets, and predictions that are right in 70% of the cases."""
    if kind == "tagging":
        sides = [], []
        for length in draw.integers(1, 9, rows):
            target = draw.integers(3, size=length)
            sides[0].append(target)
            sides[1].append(np.where(draw.random(length) < 0.7, target, draw.integers(3)))
        return Predicted(sides[1], sides[0])
    if kind == "regression":  # with ties
        return Predicted(*draw.integers(9, size=(2, rows)) / 4)
    shape, most = ((rows, 3), 2) if kind == "multilabel" else (rows, 3)
    target, other = draw.integers(most, size=shape), draw.integers(most, size=shape)
    predictions = np.where(draw.random(shape) < 0.7, target, other)
    return Predicted(*(x.astype(bool if most == 2 else int) for x in (predictions, target)))


@pytest.mark.parametrize(
    "name, kind", [(name, kind) for kind, x in KINDS.items() for name in x.metrics]
)
def test_draws_have_the_metrics_of_their_rows(name, kind):
    """Each metric has the value of another library, or of helpers/independent.py."""
    draw = np.random.default_rng(3)
    predicted = simulated(kind, 30, draw)
    sides = predicted
    if kind == "tagging":
        sides = [[[TAGS[n] for n in row] for row in side] for side in predicted]
    if METRICS[name].is_binary:
        sides = [side % 2 for side in sides]
    measured = metrics_of_counts([name], *sides)
    for _ in range(5):
        rows = draw.integers(30, size=6)  # a class may be missing
        drawn = [[x[n] for n in rows] if kind == "tagging" else x[rows] for x in sides]
        (value,) = measured(np.bincount(rows, minlength=30) * 1.0).values()
        assert value == pytest.approx(independent.metric(name, *drawn), abs=1e-12)


def test_intervals_cover(monkeypatch):
    """95% intervals cover the value of a large sample in 88 to 99 of 100 simulated sets."""
    monkeypatch.setattr(intervals, "DRAWS", 300)
    draw, task = np.random.default_rng(4), task_of("classification", "accuracy", "macro_f1")
    large = simulated("classification", 100_000, draw)
    truth = measure(task, large)
    covered = dict.fromkeys(truth, 0)
    for _ in range(100):
        found = with_intervals(task, simulated("classification", 150, draw))
        for name, one in found.items():
            covered[name] += one["interval"][0] <= truth[name] <= one["interval"][1]
    assert all(88 <= number <= 99 for number in covered.values()), covered


@pytest.mark.parametrize(
    "kind, rows, value, ends",
    [
        ("classification", 20, 1.0, stats.binomtest(20, 20).proportion_ci(method="wilson")),
        ("classification", 1, 1.0, stats.binomtest(1, 1).proportion_ci(method="wilson")),
        ("classification", 7, 0.0, stats.binomtest(0, 7).proportion_ci(method="wilson")),
        ("multilabel", 20, 1.0, stats.binomtest(20, 20).proportion_ci(method="wilson")),
        ("tagging", 5, 1.0, stats.binomtest(5, 5).proportion_ci(method="wilson")),
        # Matthews goes from -1 to 1
        ("mcc", 20, 1.0, 2 * np.array(stats.binomtest(20, 20).proportion_ci(method="wilson")) - 1),
        ("mcc", 20, 0.0, 2 * np.array(stats.binomtest(10, 20).proportion_ci(method="wilson")) - 1),
    ],
)
def test_an_interval_has_a_width_when_all_draws_agree(kind, rows, value, ends):
    names = ("mcc",) if kind == "mcc" else ("accuracy",)
    names = ("micro_f1",) if kind == "multilabel" else names
    task = task_of(kind if kind in KINDS else "classification", *names)
    targets = np.arange(rows) % 2
    predictions = targets if value == 1 else 1 - targets
    if kind == "mcc" and value == 0:
        predictions = np.ones(rows, int)
    if kind == "multilabel":
        targets = predictions = np.ones((rows, 3), bool)
    if kind == "tagging":
        targets = predictions = [np.array([0, 1])] * rows
    (found,) = with_intervals(task, Predicted(predictions, targets)).values()
    assert found["value"] == value and found["interval"] == pytest.approx([*ends], abs=1e-6)


def test_a_correlation_of_equal_scores_is_undefined(models, tmp_path):
    """It is null in results.json, and the page says why; a single row has none either."""
    for number, scores in enumerate(([1.0] * 4, [2.0])):
        rows = [{"text": sentence(n), "mine": x} for n, x in enumerate(scores)]
        source, folder = write_json_lines(tmp_path / "in.jsonl", rows), tmp_path / str(number)
        words = [models["regression"], source, "--report", folder, "--label", "mine"]
        log = predict(*words, "--metric", "pearson_and_spearman")
        results = json.loads((folder / "results.json").read_text())["metrics"]
        assert [*results] == ["pearson", "spearman", "pearson_and_spearman"]
        assert {"value": None, "interval": None} == results["pearson"] == results["spearman"]
        page = (folder / "results.md").read_text()
        assert "| Pearson | undefined |" in page and "Pearson, times 100: undefined\n" in log
        assert "A correlation is undefined if all labels or all predictions are equal." in page


def test_the_macro_f1_is_the_mean_of_the_pages_own_table(models, tmp_path):
    """Of all labels of a multilabel task, and of the classes that are there."""
    for kind, missing in (("multilabel", "d"), ("classification", "very bad")):
        rows = [row for row in labelled_rows(kind) if missing not in row["mine"]]
        source, folder = write_json_lines(tmp_path / "in.jsonl", rows), tmp_path / kind
        out = tmp_path / "out.jsonl"
        words = [models[kind], source, "--report", folder, "--label", "mine"]
        predict(*words, "--output-file", out)
        results = json.loads((folder / "results.json").read_text())
        value = results["metrics"]["macro_f1"]["value"]
        shown = [one["f1"] for one in results["classes"] if one["f1"] is not None]
        assert value == pytest.approx(np.mean(shown), abs=1e-12)
        sides = sides_of(kind, read_json_lines(out))
        expected = metrics.f1_score(*sides[::-1], average="macro", zero_division=0)
        assert value == pytest.approx(expected, abs=1e-12)
        assert any(one["support"] == 0 for one in results["classes"])
        absent = [one["label"] for one in results["classes"] if one["f1"] is None]
        page = (folder / "results.md").read_text()
        assert all(f"| {label} | - | - | - | 0 |" in page for label in absent)


def test_calibration_error_by_hand():
    rows = [(np.array([0.95]), np.array([True])), (np.array([0.91, 0.6]), np.array([False, True]))]
    found = calibration(rows)
    # the bin above 0.9 has confidence 0.93 and one of two right, the bin up to 0.6 its only one
    assert found["expected_calibration_error"] == pytest.approx((2 * 0.43 + 0.4) / 3)
    bins = [(one["from"], one["to"], one["number"]) for one in found["bins"]]
    assert bins == [(0.5, 0.6, 1), (0.9, 1, 2)]


# ---- CoNLL ---------------------------------------------------------------------------------------


def test_tags_as_conll(models, tmp_path):
    """A .conll is written with all its columns and the tag, other files with words and tag."""
    rows = [row["text"] for row in labelled_rows("tagging")][:5]
    blocks = [[f"{n}\t{word}\tO" for n, word in enumerate(words)] for words in rows]
    (tmp_path / "in.conll").write_text("\n\n".join("\n".join(x) for x in blocks) + "\n")
    write_json_lines(tmp_path / "in.jsonl", [{"id": 1, "text": words} for words in rows])
    tags, written = [], []
    for name, out in (
        ("in.conll", "out.jsonl"),
        ("in.conll", "out.conll"),
        ("in.jsonl", "2.conll"),
    ):
        flags = ["--text", 2] if name == "in.conll" else []
        predict(models["tagging"], tmp_path / name, *flags, "--output-file", tmp_path / out)
        text = (tmp_path / out).read_text()
        if out == "out.jsonl":
            tags = [row["tags"] for row in read_json_lines(tmp_path / out)]
        else:
            written.append([x.split("\n") for x in text.removesuffix("\n\n").split("\n\n")])
    both = zip(blocks, tags)
    assert written[0] == [[f"{line}\t{tag}" for line, tag in zip(*pair)] for pair in both]
    both = zip(rows, tags)
    assert written[1] == [[f"{word}\t{tag}" for word, tag in zip(*pair)] for pair in both]
    for model, row, flags, message in (
        ("tagging", {"text": ["a\tb"]}, [], "line 1 (row 0) has a word with a tab or a line end"),
        ("tagging", {"text": []}, [], "line 1 (row 0) has no words, which .conll cannot hold"),
        ("tagging", {"text": ["a"]}, ["--all-probabilities"], ".conll has no column for them"),
        ("classification", {"text": "a"}, [], ".conll is only for words and tags"),
    ):
        source = write_json_lines(tmp_path / "in.jsonl", [row])
        words = [models[model], source, "--output-file", tmp_path / "no.conll", "--cpu", *flags]
        assert message in refused("predict", *words)
        assert not (tmp_path / "no.conll").exists()


def test_tags_of_iob1_are_read_as_the_model_has_them(models, tmp_path):
    for name, tags in (("bio", ["B-x", "I-x", "O", "B-x"]), ("iob1", ["I-x", "I-x", "O", "I-x"])):
        write_json_lines(tmp_path / f"{name}.jsonl", [{"text": [*"abcd"], "mine": tags}])
        words = [models["tagging"], tmp_path / f"{name}.jsonl", "--report", tmp_path / name]
        predict(*words, "--label", "mine")
    found = [json.loads((tmp_path / x / "results.json").read_text()) for x in ("bio", "iob1")]
    assert found[0]["confusion"] == found[1]["confusion"]


# ---- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, labels, flags, message",
    [
        ("classification", ["good"], ["--label", "other"], "has no column 'other' (--label)"),
        (
            "classification",
            ["good", "bad"],
            [],
            "(row 1) has the label 'bad', not one of 'good'",
        ),
        ("classification", ["good", ""], [], "line 2 (row 1) has an empty label"),
        ("regression", ["1", "good"], [], "line 2 (row 1) has the score 'good', not a number"),
        ("regression", ["1", "2"], ["--all-probabilities"], "is a regression task; drop it"),
        ("tagging", [["O"], ["O", "O"]], [], "line 2 (row 1) has 2 tags for 1 words"),
        ("tagging", [["O"], ["B-y"]], [], "line 2 (row 1) has the label 'B-y'"),
    ],
)
def test_labels_that_do_not_fit_are_refused(kind, labels, flags, message, models, tmp_path):
    source = write_json_lines(tmp_path / "in.jsonl", [{"text": "A", "label": x} for x in labels])
    words = [models[kind], source, "--report", tmp_path / "report", "--cpu", *flags]
    assert message in refused("predict", *words, "--output-file", tmp_path / "out.jsonl")
    assert os.listdir(tmp_path) == ["in.jsonl"]


def test_flags_that_do_not_fit(models, tmp_path):
    source = write_json_lines(tmp_path / "in.jsonl", labelled_rows("classification"))
    for words, message in (
        ([source, "--label", "mine"], "--label needs --report"),
        ([source, "--metric", "mcc"], "--metric needs --report"),
        ([source, "--calibrate"], "; --calibrate is gone: see 'Votes of seeds, temperatures' in"),
        (
            [source, "--metric", "pearson", "--report", tmp_path / "new"],
            "--metric pearson: 'pearson' is not a metric of classification",
        ),
        (["-", "--report", tmp_path / "new"], "--report is for files, not for standard input"),
        ([source, "--report", tmp_path], "is not empty; give a new folder"),
        ([source, "--report", ""], "--report: it is empty"),
        (
            [source, "--report", tmp_path / "new", "--all-probabilities"],
            "--all-probabilities has no effect with --report without --output-file; drop it",
        ),
        (
            [source, "--report", tmp_path / "new", "--format", "csv"],
            "--format has no effect with --report without --output-file; drop it",
        ),
    ):
        assert message in refused("predict", models["classification"], *words, "--cpu")


def test_one_more_metric_replaces_none(models, tmp_path):
    """As in STS-B, the metric that picked the checkpoint is not among the task's own."""
    folder = shutil.copytree(models["regression"].parent, tmp_path / "model")
    report = json.loads((folder / "report.json").read_text())
    report["description"] |= {"metrics": ["spearman"], "selection": "pearson_and_spearman"}
    (folder / "report.json").write_text(json.dumps(report))
    source = write_json_lines(tmp_path / "in.jsonl", labelled_rows("regression"))
    words = [folder, source, "--report", tmp_path / "out", "--label", "mine", "--metric", "pearson"]
    predict(*words)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [*results["metrics"]] == ["spearman", "pearson_and_spearman", "pearson"]


@pytest.mark.parametrize("package", ["matplotlib", "seqeval"])
def test_a_missing_package_is_found_before_the_work(package, models, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda x: None if x == package else find(x))
    monkeypatch.setattr("tupe_fairseq.cli.text_rows.RowOptions.load_model", None)
    source = write_json_lines(tmp_path / "in.jsonl", labelled_rows("tagging"))
    words = [models["tagging"], source, "--report", tmp_path / "report", "--label", "mine"]
    assert f"{package} is not installed; pip install" in refused("predict", *words)


def test_rows_that_are_left_out_and_classes_that_are_missing(models, tmp_path):
    rows = list(labelled_rows("classification"))[:8]
    for number, row in enumerate(rows):
        row["mine"] = "bad" if number == 1 else ["good", "neither"][number % 2]
    source, folder = write_json_lines(tmp_path / "in.jsonl", rows), tmp_path / "report"
    words = [models["classification"], source, "--report", folder, "--label", "mine"]
    log = predict(*words, "--skip-bad-rows")
    assert "left out: 1 rows (unknown label: 1)" in log
    page = (folder / "results.md").read_text()
    assert "7 rows, labels in column mine" in page and "Left out: 1 rows" in page
    errors = read_csv(folder / "errors.csv")
    assert errors and all(rows[int(row["row"])]["text"] == row["text"] for row in errors)
