"""tupe-finetune on GLUE, through fairseq-train on tiny data: grid, tables, submission, resuming."""

import json
import shlex
import shutil

import pytest
import torch
from scipy import stats
from sklearn import metrics

from helpers.finetuning import GRID, ROWS, call, finetuning
from helpers.training import assert_same_weights
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.inference.predict import predict

RUNS = ("lr5e-4-seed1", "lr5e-4-seed2", "lr0.01-seed1", "lr0.01-seed2")
UPDATES = 2 * ROWS["train"] // 8


def rows_of(path):
    header, *rows = path.read_text().splitlines()
    assert header == "prediction\ttarget"
    return zip(*(row.split("\t") for row in rows))


def read(*path):
    return json.loads(path[0].joinpath(*path[1:]).read_text())


def last_updates(path):
    return torch.load(path, map_location="cpu")["optimizer_history"][-1]["num_updates"]


def test_each_run_is_as_planned(grid):
    output, text = grid
    for name in RUNS:
        folder = output / "CoLA" / name
        found = read(folder, "result.json")
        assert found["updates"] == UPDATES and found["epochs"] == 2
        assert (folder / "checkpoint_best.pt").exists()  # --keep-checkpoints
        assert not (folder / "checkpoint_last.pt").exists()
        predictions, targets = rows_of(folder / "predictions-valid.tsv")
        assert len(targets) == ROWS["valid"]
        expected = metrics.matthews_corrcoef(targets, predictions)
        assert found["metrics"]["valid"]["mcc"] == pytest.approx(expected, abs=1e-12)
        # fairseq has picked the checkpoint by the same score
        best = torch.load(folder / "checkpoint_best.pt", weights_only=False)["extra_state"]["best"]
        assert best / 100 == pytest.approx(expected, abs=1e-6)
    assert (folder / "command.sh").read_text().split("\n", 1)[1] in text
    assert "prepared for 512 positions and the model has 64: longer rows are truncated" in text


def test_runs_side_by_side_are_the_same(grid, chain, tmp_path):
    code, text = call(finetuning(chain, "CoLA", tmp_path, *GRID, "--parallel", 2))
    assert code == 0, text
    for name in RUNS:
        for file in ("result.json", "predictions-valid.tsv"):
            found, expected = (out / "CoLA" / name / file for out in (tmp_path, grid[0]))
            assert found.read_bytes() == expected.read_bytes(), found
    for file in ("CoLA/results.md", "CoLA/results.json", "results.md", "submission/CoLA.tsv"):
        assert (tmp_path / file).read_bytes() == (grid[0] / file).read_bytes(), file


def test_tables(grid):
    cola = grid[0] / "CoLA"
    runs = [read(path) for path in cola.glob("lr*/result.json")]
    summary = read(cola, "results.json")
    for row in summary["by_lr"]:
        scores = [run["metrics"]["valid"]["mcc"] for run in runs if run["lr"] == row["lr"]]
        assert row["metrics"]["valid"]["mcc"] == pytest.approx(sum(scores) / 2)
        assert row["seeds"] == [1, 2]
    assert summary["score"] == max(row["metrics"]["valid"]["mcc"] for row in summary["by_lr"])
    assert summary["best_run_score"] == max(run["metrics"]["valid"]["mcc"] for run in runs)
    assert summary["score"] > 0.2  # there is something to learn
    assert summary["baseline"]["metrics"] == {"valid": {"mcc": 0.0}}
    table = (cola / "results.md").read_text()
    assert "| always 0 (majority class) |  | 0.0 |" in table and table.count("-seed") == 4
    assert "average of 1 of 9 tasks" in (grid[0] / "results.md").read_text()


def test_submission(grid, chain):
    header, *rows = (grid[0] / "submission" / "CoLA.tsv").read_text().splitlines()
    index = (chain / "out" / "CoLA" / "test.index").read_text().split()
    assert header == "index\tprediction"
    assert [row.split("\t")[0] for row in rows] == index and len(index) == ROWS["test"]
    assert {row.split("\t")[1] for row in rows} <= {"0", "1"}


def test_a_kept_run_is_a_model_by_itself(grid, chain, tmp_path):
    """A copy of its folder predicts from raw text what the run predicted."""
    best = read(grid[0], "CoLA", "results.json")["best_run"]
    folder = shutil.copytree(grid[0] / "CoLA" / best, tmp_path / "moved")
    hub = TupeRobertaModel.from_pretrained(str(folder), "checkpoint_best.pt").eval()
    labels, found = hub.task.label_dictionary, []
    for line in (chain / "glue" / "CoLA" / "dev.tsv").read_text().splitlines():
        tokens = hub.encode(line.split("\t")[3])
        number = hub.predict("sentence_classification_head", tokens).argmax().item()
        found.append(labels[number + labels.nspecial])
    predictions, _ = rows_of(folder / "predictions-valid.tsv")
    assert tuple(found) == predictions and len(set(found)) == 2


def test_other_settings_are_refused(grid, chain):
    code, text = call(finetuning(chain, "CoLA", grid[0], *GRID, "--epochs", 3))
    assert code == 2
    assert "was made with other settings: epochs was 2 and is now 3" in text


def test_a_further_seed_resumes_where_it_was_stopped(grid, chain, run, tmp_path):
    """By hand to the end of the first epoch, then by tupe-finetune; and all by hand elsewhere."""
    flags = ["--lrs", "0.01", "--seeds", "1,2,3"]
    _, shown = call(finetuning(chain, "CoLA", grid[0], *flags, "--dry-run"))
    by_hand = shown[shown.rindex("# CoLA, lr0.01-seed3") :]
    folder = grid[0] / "CoLA" / "lr0.01-seed3"
    printed = run("sh", "-c", by_hand.replace("--max-epoch 2", "--max-epoch 1")).stdout
    (folder / "train.log").write_text(printed)
    assert last_updates(folder / "checkpoint_last.pt") == UPDATES // 2

    code, text = call(finetuning(chain, "CoLA", grid[0], *flags, "--keep-checkpoints"))
    assert code == 0, text
    assert "CoLA: 1 of 3 runs left" in text
    assert f"(epoch 2 @ {UPDATES // 2} updates)" in (folder / "train.log").read_text()
    assert read(folder, "result.json")["updates"] == UPDATES
    assert len(read(grid[0], "CoLA", "results.json")["runs"]) == 5

    elsewhere = tmp_path / "else where"
    script = (folder / "command.sh").read_text()
    run("sh", "-c", script.replace(shlex.quote(str(folder)), shlex.quote(str(elsewhere))))
    assert_same_weights(elsewhere / "checkpoint_best.pt", folder / "checkpoint_best.pt")

    _, again = call(finetuning(chain, "CoLA", grid[0], *flags))
    assert "CoLA: 0 of 3 runs left" in again and "fairseq-train" not in again
    best = read(grid[0], "CoLA", "results.json")["best_run"]
    for pattern in ("lr*/*.pt", "lr*/*.model", "lr*/input0"):  # without --keep-checkpoints
        assert [path.parent.name for path in (grid[0] / "CoLA").glob(pattern)] == [best]


def test_regression_with_mean_pooling(chain, tmp_path):
    command = finetuning(chain, "STS-B", tmp_path, "--epochs", 1)
    code, text = call([*command, "--pooling", "mean"])
    assert code == 0, text
    folder = tmp_path / "STS-B" / "lr0.01-seed1"
    found = read(folder, "result.json")["metrics"]["valid"]
    sides = rows_of(folder / "predictions-valid.tsv")
    scores, targets = ([*map(float, side)] for side in sides)
    assert found["pearson"] == pytest.approx(stats.pearsonr(scores, targets)[0])
    assert found["spearman"] == pytest.approx(stats.spearmanr(scores, targets)[0])
    assert targets == pytest.approx([number % 26 / 5 for number in range(ROWS["valid"])])
    rows = (tmp_path / "submission" / "STS-B.tsv").read_text().splitlines()[1:]
    assert all(0 <= float(row.split("\t")[1]) <= 5 and row[-4] == "." for row in rows)
    table = (tmp_path / "STS-B" / "results.md").read_text()
    assert "; epochs: 1; rows per update: 8" in table
    assert "(mean score)" in table and "mean of a text's features (--pooling)" in table
    assert "| STS-B (mean pooling) |" in (tmp_path / "results.md").read_text()

    # the kept checkpoint pools by the mean without being told to
    where = str(folder), "checkpoint_best.pt", str(chain / "out" / "STS-B")
    found = predict(f"{where[0]}/checkpoint_best.pt", where[2], "valid", cpu=True)
    hub = TupeRobertaModel.from_pretrained(*where).eval()
    head = hub.model.classification_heads["sentence_classification_head"]
    for row in hub.task.load_dataset("valid"):
        x = hub.extract_features(row["net_input.src_tokens"])[0].mean(dim=0)
        by_hand = head.out_proj(torch.tanh(head.dense(x))).item()
        assert found[row["id"]] == pytest.approx(by_hand, abs=1e-5)


def test_two_development_and_test_sets(chain, tmp_path):
    code, text = call(finetuning(chain, "MNLI", tmp_path, "--epochs", 1))
    assert code == 0, text
    folder = tmp_path / "MNLI" / "lr0.01-seed1"
    found = read(folder, "result.json")["metrics"]
    for split in ("valid", "valid1"):
        predictions, targets = rows_of(folder / f"predictions-{split}.tsv")
        assert set(targets) == {"contradiction", "entailment", "neutral"}
        expected = metrics.accuracy_score(targets, predictions)
        assert found[split]["accuracy"] == pytest.approx(expected)
    for name in ("MNLI-m", "MNLI-mm"):
        rows = (tmp_path / "submission" / f"{name}.tsv").read_text().splitlines()
        assert len(rows) == 1 + ROWS["test"]
    table = (tmp_path / "MNLI" / "results.md").read_text()
    assert "accuracy (matched) | accuracy (mismatched)" in table


def test_a_diverged_run_without_pretraining(chain, tmp_path):
    code, text = call(finetuning(chain, "CoLA", tmp_path, "--no-pretraining", "--lrs", "1e30"))
    assert code == 0, text
    folder = tmp_path / "CoLA" / "lr1e+30-seed1"
    found = read(folder, "result.json")
    assert found["diverged"] == "FloatingPointError: gradients are Nan/Inf"
    assert "tensors; newly initialized" not in (folder / "train.log").read_text()
    assert "every run of CoLA diverged" in text
    table = (tmp_path / "CoLA" / "results.md").read_text()
    assert "# CoLA, without pre-training" in table and "| lr1e+30-seed1 | 0 | diverged |" in table
    assert "CoLA (not pre-trained) | 0.0 | diverged |" in (tmp_path / "results.md").read_text()


def test_a_checkpoint_that_lacks_a_tensor(chain, tmp_path):
    state = torch.load(chain / "checkpoint_last.pt", weights_only=False)
    del state["model"]["encoder.sentence_encoder.layers.0.fc1.weight"]
    torch.save(state, tmp_path / "part.pt")
    command = finetuning(chain, "CoLA", tmp_path, "--checkpoint", tmp_path / "part.pt")
    code, text = call(command)
    assert code == 2
    assert "tupe-finetune: error: fairseq-train ended with exit code 1; the end of" in text
    assert "part.pt is damaged or not a checkpoint: " in text.splitlines()[-1]
    assert not (tmp_path / "CoLA" / "results.md").exists()
