"""A user's own kind of tasks, the one of examples/tasks, through the doors of ours."""

import ast
import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tupe_fairseq
from helpers.glue_data import write_bin
from helpers.glue_files import sentence, write_pretrain_dir
from helpers.running import refused, run_here, trainings_here
from helpers.training import UP_TO_64, pretrain
from tupe_fairseq.data.metrics import METRICS
from tupe_fairseq.kinds import KINDS, Kind, kind_of_options, register_kind
from tupe_fairseq.labelled.task import Task

PACKAGE = Path(tupe_fairseq.__file__).parent
PAGE = Path(__file__).resolve().parents[2] / "examples" / "tasks" / "README.md"
CODE = re.compile(r"^```python\n# (my_kinds)/__init__.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STARS = ("1", "2", "3", "4", "5")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The page's folder, a vocabulary, a pre-trained model, and stars for texts."""
    folder = tmp_path_factory.mktemp("own kind")
    package, code = CODE.search(PAGE.read_text("utf-8")).groups()
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(code)
    write_pretrain_dir(folder / "dir")
    for split in ("train", "valid"):
        write_bin(folder / "dir" / split, [[*range(4, 13), 2]] * 8)
    pretrain(folder / "dir", folder, "--max-update", 1, *UP_TO_64)
    with open(folder / "films.csv", "w", newline="") as file:
        rows = ([sentence(number), STARS[number % 5]] for number in range(40))
        csv.writer(file).writerows([["review", "stars"], *rows])
    yield folder
    KINDS.pop("ordinal", None), METRICS.pop("closeness", None), sys.modules.pop(package, None)


def test_it_goes_from_a_file_to_an_evaluation(own):
    files = {name: own / name for name in ("films.csv", "tasks", "runs")}
    names = ["--text", "review", "--label", "stars"]
    user = ["--user-dir", own / "my_kinds"]
    prepare = ["--kind", "ordinal", "--train", files["films.csv"], *names, "--folds", 2]
    prepare += ["--vocabulary", own / "dir", "--output-dir", files["tasks"] / "films"]
    assert "--kind: a task of kind 'ordinal', none of" in refused("prepare-task", *prepare)
    run_here("tupe-prepare-task", *prepare, *user)
    tune = [own / "checkpoint_last.pt", "--output-dir", files["runs"], "--cpu"]
    tune += ["--epochs", 1, "--lrs", "1e-2", "--seeds", 1, *user]
    with trainings_here():
        text = run_here("tupe-finetune", "--data", files["tasks"] / "films", *tune).stdout
    assert "closeness" in text
    results = json.loads((files["runs"] / "films" / "results.json").read_text())
    rows = [line.split("\t") for line in open(files["runs"] / "films" / "predictions.tsv")][1:]
    predicted, target = (np.array([int(row[n]) for row in rows]) for n in (1, 2))
    expected = 1 - np.abs(predicted - target).mean() / 4
    assert results["metrics"]["closeness"]["value"] == pytest.approx(expected)
    # one model, its predictions, evaluation and export
    prepare = [x for x in prepare if x not in ("--folds", 2)]
    run_here("tupe-prepare-task", *prepare, "--overwrite", *user)
    with trainings_here():
        run_here("tupe-finetune", "--data", files["tasks"] / "films", tune[0],
                 "--output-dir", own / "one", *tune[3:])  # fmt: skip
    best = own / "one" / "films" / "best" / "checkpoint_best.pt"
    assert torch.load(best, weights_only=False)["cfg"]["task"]["kind"] == "ordinal"
    out = own / "out.jsonl"
    flags = [files["films.csv"], "--all-probabilities", "--output-file", out]
    run_here("tupe-predict", best, *flags, "--report", own / "evaluation", *user)
    for line in out.read_text().splitlines():
        row = json.loads(line)
        shares = np.cumsum([row["all_probabilities"][star] for star in STARS])
        assert row["label"] == STARS[int((shares >= 0.5).argmax())]
    measured = json.loads((own / "evaluation" / "results.json").read_text())["metrics"]
    assert {*measured} == {"closeness", "accuracy"}
    run_here("tupe-export", best, "--output-dir", own / "folder", *user)
    config = json.loads((own / "folder" / "config.json").read_text())
    assert [*config["id2label"].values()] == [*STARS]
    run_here("tupe-convert", "--checkpoint", own / "folder", "--output-dir", own / "back", *user)
    again = own / "again.jsonl"
    run_here("tupe-predict", own / "back", *flags[:2], "--output-file", again, *user)
    assert again.read_text() == out.read_text()


def test_a_subclass_of_tagging_is_trained_as_itself(own):
    """Its name reaches token_tagging, and so the checkpoint."""
    (own / "my_tags").mkdir()
    code = "from tupe_fairseq.kinds import register_kind\n"
    code += "from tupe_fairseq.kinds.tagging import Tagging\n"
    code += "register_kind('my_tagging')(type('MyTagging', (Tagging,), {}))\n"
    (own / "my_tags" / "__init__.py").write_text(code)
    with open(own / "words.csv", "w", newline="") as file:
        rows = (sentence(number).split() for number in range(20))
        pairs = [[" ".join(row), " ".join("AB"[len(x) % 2] for x in row)] for row in rows]
        csv.writer(file).writerows([["words", "tags"], *pairs])
    user = ["--user-dir", own / "my_tags"]
    run_here("tupe-prepare-task", "--kind", "my_tagging", "--train", own / "words.csv",
             "--vocabulary", own / "dir", "--output-dir", own / "tasks" / "words",
             *user)  # fmt: skip
    tune = ["--data", own / "tasks" / "words", own / "checkpoint_last.pt"]
    tune += ["--output-dir", own / "tags", "--cpu", "--epochs", 1, "--lrs", "1e-2", "--seeds", 1]
    with trainings_here():
        run_here("tupe-finetune", *tune, *user)
    best = own / "tags" / "words" / "best" / "checkpoint_best.pt"
    out = ["--output-file", own / "tags.jsonl"]
    run_here("tupe-predict", best, own / "words.csv", *out, *user)
    KINDS.pop("my_tagging"), sys.modules.pop("my_tags")
    for command in (["predict", best, own / "words.csv", *out], ["finetune", *tune]):
        message = "describes a task of kind 'my_tagging', none of .*; give the --user-dir that"
        assert re.search(message, refused(*command))


def test_names_and_tasks_that_do_not_fit_are_refused():
    for name in ("tagging", "qa"):
        with pytest.raises(ValueError, match=f"a kind of tasks '{name}' already"):
            register_kind(name)(Kind)
    with pytest.raises(ValueError, match="'two words' cannot name a kind of tasks; give a word"):
        register_kind("two words")(Kind)
    with pytest.raises(ValueError, match="a task with the metric 'nosuch', none of .*accuracy"):
        Task("mine", "classification", ("a", "b"), 1, ("train",), ("nosuch",), "accuracy")
    with pytest.raises(ValueError, match="--kind tagging needs --task token_tagging"):
        kind_of_options({"task": "glue_sentence_prediction", "kind": "tagging"})


@pytest.mark.parametrize(
    "base, lines, message",
    [
        ("base.Kind", "keys = ('label',)", "the kind 'half' does not define metrics; see Kind in"),
        ("base.Kind", "pass", "the kind 'half' does not define keys, metrics; see Kind in"),
        ("regression.Regression", "metrics = ('mse',)",
         "the kind 'half' has the metric 'mse', none of .*; put it into METRICS"),
    ],
)  # fmt: skip
def test_a_kind_that_lacks_something_is_refused_at_once(base, lines, message, tmp_path):
    module, _, name = base.partition(".")
    (tmp_path / "half_kinds").mkdir()
    (tmp_path / "half_kinds" / "__init__.py").write_text(
        "from tupe_fairseq.kinds import register_kind\n"
        f"from tupe_fairseq.kinds.{module} import {name}\n"
        f"@register_kind('half')\nclass Half({name}):\n    {lines}\n"
    )
    (tmp_path / "a.csv").write_text("text,label\na,b\n")
    user = ["--user-dir", tmp_path / "half_kinds"]
    rest = ["--kind", "half", "--train", tmp_path / "a.csv", "--vocabulary", tmp_path]
    rest += ["--output-dir", tmp_path / "out"]
    line = refused("prepare-task", *user, *rest)
    assert re.search(message, line)
    sys.modules.pop("half_kinds", None)


def test_switches_of_two_kinds_are_refused():
    task = {"task": "glue_sentence_prediction"}
    both = {"regression_target": True, "multilabel": True}
    assert kind_of_options({**task, "multilabel": True}) is KINDS["multilabel"]
    for options in (both, {"kind": "regression", "multilabel": True}):
        with pytest.raises(ValueError, match="--[a-z-]* is not for --kind [a-z]*; drop it"):
            kind_of_options({**task, **options})


def test_no_other_folder_knows_a_kind():
    """Neither its name, as a string, nor its class; words of transformers and a flag excepted."""
    ours = [kind for kind in KINDS.values() if not kind.is_own]
    known = {kind.name for kind in ours} | {type(kind).__name__ for kind in ours}
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name in ("kinds", "export") and path.name != "names.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
            for word in (value, getattr(node, "id", None), getattr(node, "attr", None)):
                if isinstance(word, str) and word in known:
                    found.add((path.name, word))
    # fairseq's task has the flag --multilabel
    assert found == {("sentence_prediction.py", "multilabel")}
    assert all(isinstance(kind, Kind) for kind in KINDS.values())
