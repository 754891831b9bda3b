"""tupe-compare: schemes, statistics, measurement, and comparisons through fairseq-train."""

import collections
import json
import math
import os
import re
import runpy
import shlex
import statistics
import sys

import pytest
import torch
from fairseq.data import data_utils

from helpers.running import (
    REPO,
    VERSIONS,
    call_program,
    refused,
    run_here,
    run_process,
    trainings_here,
    words_of,
)
from helpers.training import assert_same_weights
from tupe_fairseq.compare import figures, results
from tupe_fairseq.compare.comparison import Comparison, tuning_runs
from tupe_fairseq.compare.options import CompareOptions
from tupe_fairseq.compare.pre_training import PreTraining, parameters_of, read_log
from tupe_fairseq.compare.schemes import schemes as parse_schemes
from tupe_fairseq.files import locked, write_json

TINY, MINI = "tupe_roberta_tiny", "tupe_roberta_mini"
LEARNED, TUPE = f"{TINY}/learned-seed1", f"{TINY}/tupe_rel-pos-seed1"
SIZE = "--encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64"


def comparing(data, folder, *flags, schemes="learned; tupe --rel-pos"):
    """The arguments of tupe-compare; later flags win."""
    words = [
        data, "--output-dir", folder, "--schemes", schemes, "--seeds", "1", "--updates", 16,
        "--validate-every", 4, "--batch-size", 4, "--tokens-per-sample", 64, "--lr", "1e-2",
        "--cpu", "--threads", 1, f"--train-flags={SIZE}", "--keep-checkpoints", *flags,
    ]  # fmt: skip
    return [str(word) for word in words]


def compare(*words):
    """Run tupe-compare; returns what it printed."""
    with trainings_here():
        return run_here("tupe-compare", *words).stdout


def read(path):
    return json.loads(path.read_text())


# ---- Flags


def test_schemes():
    schemes = parse_schemes("learned; tupe  --tie-cls --rel-pos --max-rel-pos 020 ;")
    assert [one.label for one in schemes] == [
        "learned",
        "tupe --rel-pos --max-rel-pos 20 --tie-cls",
    ]
    assert schemes[1].folder == "tupe_rel-pos_max-rel-pos-20_tie-cls"
    assert schemes[0].words == ("--position-encoding", "learned")


@pytest.fixture
def bin_folder(tmp_path):
    for name in ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx"):
        (tmp_path / name).touch()
    return tmp_path


def test_each_run_has_a_curve_of_its_own(bin_folder):
    """So have the short runs, which tune the learning rate."""
    options = CompareOptions(
        data=bin_folder, output_dir="/tmp/out", schemes="tupe", updates=40, warmup_updates=3,
        train_flags=("--tensorboard-logdir", "tb"), tune_lrs=(1e-3, 2e-3),
    )  # fmt: skip
    run = PreTraining(options, TINY, *options.schemes, 1, options.lr)
    short, _ = tuning_runs([run])
    logs, warmups, totals = (
        [one.command[one.command.index(flag) + 1] for one in (run, short)]
        for flag in ("--tensorboard-logdir", "--warmup-updates", "--total-num-update")
    )
    assert logs == [f"tb/{TINY}/tupe-seed1", f"tb/tuning/lr0.001/{TINY}/tupe-seed1"]
    assert (warmups, totals) == (["3", "0"], ["40", "4"])


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--train-flags=--max-valid-steps 2"], "may not set --max-valid-steps: the command sets"),
        (["--train-flags=--amp"], "--train-flags: --amp has no effect on a CPU; drop it"),
        (["--train-flags=--no-such"], "--train-flags: unrecognized arguments: --no-such"),
        (["--train-flags=--lr-scheduler fixed"], "--total-num-update 16, which the command sets"),
        (["--schemes=alibi --rel-pos"], "--schemes 'alibi --rel-pos': "),
        (["--tasks", "glue/CoLA"], "; --tasks is gone: run tupe-finetune on each run, see"),
        (["--schemes=learned;; tupe"], "a scheme is missing before or after a semicolon"),
    ],
)
def test_what_fairseq_train_would_not_do_is_refused(flags, message, bin_folder, tmp_path):
    assert message in refused("compare", *comparing(bin_folder, tmp_path / "out", *flags))


def test_three_seeds_by_default(bin_folder, tmp_path):
    """Two would give no interval that says anything."""
    words = comparing(bin_folder, tmp_path / "out", "--dry-run", schemes="alibi")
    place = words.index("--seeds")
    del words[place : place + 2]
    assert re.findall(r"^# .*, seed (\d)", compare(*words), re.M) == ["1", "2", "3"]


def test_a_file_of_flags(bin_folder, tmp_path):
    study = tmp_path / "study.args"
    study.write_text(f"""# a study
        {bin_folder} --output-dir {tmp_path}/out --updates 40 --cpu  # on a laptop
        --schemes "learned; tupe --rel-pos" --seeds 1,2,3
    """)
    text = compare(f"@{study}", "--seeds", "7", "--dry-run", "--lr", "0.5")
    runs = [line for line in text.splitlines() if line.startswith("# ")]
    runs_of = "# tupe_roberta_tiny, {}, seed 7, lr 0.5".format
    assert runs == [runs_of("learned"), runs_of("tupe --rel-pos")]
    assert "--max-update 40 " in text and not (tmp_path / "out").exists()
    study.write_text('--schemes "learned; tupe\n')
    assert 'No closing quotation in the line: --schemes "learned; tupe' in refused(
        "compare", f"@{study}"
    )


# ---- Statistics


def result(scheme, seed, losses, arch=TINY, diverged=None, **more):
    """The result.json of a run with validations after 10, 20, ... updates."""
    curve = [{"updates": 10 * n, "loss": x} for n, x in enumerate(losses, 1)]
    return {
        "arch": arch, "scheme": scheme, "seed": seed, "lr": 1e-3, "updates": 10 * len(losses),
        "diverged": diverged, "final_loss": None if diverged else losses[-1],
        "words_per_second": 50.0, "parallel": 1, "machine": "x", "parameters": 1000,
        "curve": curve, **more,
    }  # fmt: skip


def write(folder, *found):
    for one in found:
        path = folder / one["arch"] / f"{one['scheme']}-seed{one['seed']}" / "result.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(one))


def test_differences_over_the_seeds(tmp_path):
    write(
        tmp_path,
        *(result("learned", seed, [9, loss]) for seed, loss in ((1, 8.0), (2, 8.2), (3, 8.1))),
        result("tupe", 1, [8.5, 7.5]), result("tupe", 2, [9, 7.9]), result("tupe", 3, [9, 8.3]),
        result("tupe", 4, [9, 7]), result("tupe", 5, [8], diverged="NaN"),
        result("learned", 1, [5], arch=MINI),
    )  # fmt: skip
    runs = results.read_runs(str(tmp_path), "learned", ["tupe", "learned"])
    rows = {(row["arch"], row["scheme"]): row for row in results.summarize(runs)}
    assert list(rows) == [(MINI, "learned"), (TINY, "learned"), (TINY, "tupe")]
    tupe = rows[TINY, "tupe"]
    assert (tupe["seeds"], tupe["diverged"]) == ([1, 2, 3, 4, 5], [5])
    assert tupe["final_loss"]["n"] == 4  # not the diverged run
    # -0.5, -0.3, 0.2 of the seeds with a baseline: mean -0.2, t of 2 degrees of freedom
    deviation = math.sqrt((0.3**2 + 0.1**2 + 0.4**2) / 2)
    assert tupe["difference"] == pytest.approx(
        {"n": 3, "mean": -0.2, "min": -0.5, "max": 0.2,
         "margin95": 4.302652729911275 * deviation / math.sqrt(3)}
    )  # fmt: skip
    # seed 1 after 15 of 20 updates, seed 2 after 10 + 10 * 0.8 / 1.1; seed 3 never
    fraction = tupe["to_baseline"]["fraction"]
    assert tupe["to_baseline"]["of"] == 3 and fraction["n"] == 2
    assert (fraction["min"], fraction["max"]) == pytest.approx((0.75, (10 + 8 / 1.1) / 20))
    assert rows[MINI, "learned"]["final_loss"]["margin95"] is None


def test_the_files_of_a_comparison(tmp_path, bin_folder):
    options = CompareOptions(
        data=bin_folder, output_dir=tmp_path, schemes="tupe", updates=20,
        train_flags=("--update-freq", "2"),
    )  # fmt: skip
    run = PreTraining(options, TINY, *options.schemes, 1, 1e-3)
    settings = Comparison(options.output_dir, [run]).record
    out = tmp_path / "out"
    write(
        out,
        *(result("learned", n, [9, 8 + n / 10]) for n in (1, 2)),
        *(result("tupe", n, [8.5, 7 + n / 10]) for n in (1, 2)),
        result("alibi", 1, [9.5], diverged="NaN"),
    )
    # what tupe-score and tupe-finetune wrote beside the runs; an earlier version kept scores itself
    # with other numbers of pairs and epochs
    scores = {"learned-seed1": (0.61, 0.29, 50, 3), "learned-seed2": (0.62, 0.28, 50, 3)}
    scores |= {"tupe-seed1": (0.62, None, 50, 3), "tupe-seed2": (0.61, 0.29, 200, 5)}
    for run, (pairs, score, number, epochs) in scores.items():
        shares = {"all": {"accuracy": pairs}, "phenomena": {"order": {"accuracy": 0.5}}}
        task = {"score": score, "settings": {"epochs": epochs, "batch_size": 8, "checkpoint": run}}
        found = {
            "pairs": {"pairs": {**shares, "files": {"one": {"pairs": number}}}},
            "CoLA": {**task, "runs": [{"run": "lr1e-4-seed1"}]},
            "evaluation": {"rows": 9},
        }
        for name, content in found.items():
            write_json(str(out / TINY / run / name / "results.json"), content)
    old = {"downstream": {"RTE": 50.0, "CoLA": 1.0}, "machine": "y", "versions": {"torch": "3"}}
    path = out / TINY / "tupe-seed2" / "result.json"
    write_json(str(path), result("tupe", 2, [8.5, 7.2], **old))
    found = results.write_results(str(out), settings, "learned", ["tupe", "alibi"])
    figures.draw_loss(found, str(out))
    text = (out / "results.md").read_text()
    assert results.page_of(read(out / "results.json")) == text
    assert "\n20 updates, batches of 16 samples of 128 tokens.\n" in text  # an update has two
    # for two seeds there is no interval, but both values
    assert "| fraction of updates | CoLA | pairs | RTE |" in text
    assert "| learned | 2 | 8.100, 8.200 |  |  | 28.0, 29.0 | 61.0, 62.0 | - |" in text
    tupe = "| tupe | 2 | 7.100, 7.200 | -1.000 | 0.62, 0.64 | 29.0 | 61.0, 62.0 | 50.0 |"
    assert f"{tupe} 1,000 | 50" in text
    assert "| alibi | 1 (1 diverged) | - | - | not reached | - | - | - | 1,000 | - |" in text
    assert "| order | 50.0 |" in text and "{" not in text
    # schemes that are clearly below token frequencies alone
    for unigram, warned in ((8.0, False), (7.5, True)):
        found = results.write_results(str(out), settings, "learned", unigram=unigram)
        page = (out / "results.md").read_text()
        assert f"| token frequencies alone |  | {unigram:.3f} |  |" in page
        assert ("No scheme is clearly below" in page) == warned
        figures.draw_loss(found, str(out))
    # what is not equal in all runs is listed, and what is equal is not
    _, _, section = text.partition("## Not equal in all runs\n\n")
    rows = [line.split(" | ") for line in section.partition("\n\n")[0].splitlines()[2:]]
    names = "tupe, seed 2; learned, seed 1; learned, seed 2; tupe, seed 1; alibi, seed 1".split(
        "; "
    )
    other, *others = [f"{TINY}, {name}".replace("_", "\\_") for name in names]
    measured = "; ".join(others[:2])
    assert rows == [
        ["| training: machine", "x", f"{'; '.join(others)} |"],
        ["| training: machine", "y", f"{other} |"],
        ["| training: versions", "not recorded", f"{'; '.join(others)} |"],
        ["| training: versions", "torch 3", f"{other} |"],
        ["| CoLA: epochs", "3", f"{measured} |"],
        ["| CoLA: epochs", "5", f"{other} |"],
        ["| pairs: pairs", "one 50", f"{'; '.join(others[:3])} |"],
        ["| pairs: pairs", "one 200", f"{other} |"],
    ]
    assert (out / "loss_by_updates.png").read_bytes().startswith(b"\x89PNG")


def test_a_panel_has_at_most_seven_curves(tmp_path, monkeypatch):
    schemes = ["learned", *(f"alibi{n}" for n in range(8))]
    write(tmp_path, *(result(scheme, 1, [9, 8]) for scheme in schemes))
    runs, drawn = results.read_runs(str(tmp_path), "learned", schemes), {}
    monkeypatch.setattr(figures.canvas, "save_all", lambda figures, folder: drawn.update(figures))
    found = {"runs": runs, "summary": results.summarize(runs), "unigram": 8.5}
    figures.draw_loss(found, str(tmp_path))
    texts = [part.legends[0].get_texts() for part in drawn["loss_by_updates"].subfigs]
    names = [[text.get_text() for text in panel] for panel in texts]
    own = [[f"{scheme} (1 seed)" for scheme in part] for part in (schemes[1:7], schemes[7:])]
    ends = "learned (1 seed)", "token frequencies alone"
    assert names == [[ends[0], *part, ends[1]] for part in own]


@pytest.mark.parametrize("name", ["study", "pilot", "muon"])
def test_the_pages_of_the_examples(name):
    """They are of earlier versions, and rendered as of today."""
    folder = REPO / "examples" / "results" / name
    assert results.page_of(read(folder / "results.json")) == (folder / "results.md").read_text()


# ---- Measurement


#: the log of a run that was interrupted after its second validation began
LOG = """\
| start | {"parallel": 2}
train_inner | {"wps": "9.0"}
train_inner | {"wps": "50.0"}
valid | {"valid_loss": "8.5", "valid_num_updates": "10"}
train_inner | {"wps": "20.0"}
train_inner | {"wps": "60.0"}
valid | {"valid_loss": "8.0", "valid_num_u
| start | {"parallel": 1}
train_inner | {"wps": "5.0"}
train_inner | {"wps": "70.0"}
valid | {"valid_loss": "8.25", "valid_num_updates": "20"}
valid | {"valid_loss": "nan", "valid_num_updates": "30"}
"""


def test_the_speed_is_that_of_training(tmp_path):
    """The speed of an interval that begins with a start or after a validation does not count."""
    lines = (f"2026-01-02 03:04:05 | INFO | {line}\n" for line in LOG.splitlines())
    (tmp_path / "train.log").write_text("".join(lines))
    found = read_log(str(tmp_path / "train.log"))
    assert (found["parallel"], found["words_per_second"]) == (2, 60.0)
    assert found["curve"] == [{"updates": 10, "loss": 8.5}, {"updates": 20, "loss": 8.25}]
    assert read_log(str(tmp_path / "none"))["curve"] == []


# ---- Through fairseq-train


@pytest.fixture(scope="module")
def compared(subwords, tmp_path_factory):
    """A run, and one that was stopped after its second validation and then finished."""
    folder = tmp_path_factory.mktemp("a comparison")
    compare(*comparing(subwords, folder, schemes="learned"))
    words, path = comparing(subwords, folder), folder / TUPE
    shown = compare(*words, "--dry-run")
    path.mkdir()
    command = words_of(shown[shown.index("tupe --rel-pos") :].partition("\n")[2])
    (path / "train.log").write_text(run_here(*command, "--max-update", 8).stdout)
    return folder, compare(*words)


def test_an_interrupted_comparison_resumes(compared, subwords, tmp_path):
    folder, text = compared
    found = read(folder / TUPE / "result.json")
    assert [point["updates"] for point in found["curve"]] == [4, 8, 12, 16]
    assert found["final_loss"] == found["curve"][-1]["loss"] < found["curve"][0]["loss"]
    assert found["words_per_second"] > 0
    assert (found["versions"], found["fp16"], found["threads"]) == (VERSIONS, False, 1)
    assert found["train_flags"] == SIZE.split() and found["machine"]
    assert f"- versions: tupe_fairseq {VERSIONS['tupe_fairseq']}, fairseq " in text
    assert "Not equal" not in text
    # token frequencies alone, and no scheme is clearly below them after 16 updates
    tokens = {}
    for split in ("train", "valid"):
        data = data_utils.load_indexed_dataset(str(subwords / split), None)
        tokens[split] = [token for n in range(len(data)) for token in data[n].tolist()]
    vocabulary = {*range(1 + max(tokens["train"] + tokens["valid"]))}
    total = len(tokens["train"]) + len(vocabulary)
    counts = collections.Counter(tokens["train"])
    bits = statistics.fmean(math.log2(total / (1 + counts[x])) for x in tokens["valid"])
    assert f"| token frequencies alone |  | {bits:.3f} |  |" in text
    assert "**No scheme is clearly below token frequencies alone" in text
    log = (folder / TUPE / "train.log").read_text()
    assert "(epoch 1 @ 8 updates)" in log  # where it resumed
    assert (folder / "results.md").read_text() in text
    in_log = re.search(r"num. shared model params: ([\d,]+)", log)
    assert found["parameters"] == int(in_log[1].replace(",", ""))  # tied ones count once
    state = torch.load(folder / TUPE / "checkpoint_last.pt", weights_only=False)
    state["model"] = {name: tensor.clone() for name, tensor in state["model"].items()}  # as a GPU's
    torch.save(state, tmp_path / "clones.pt")
    assert parameters_of(tmp_path / "clones.pt") == found["parameters"]


def test_by_hand_it_is_the_same(compared, subwords, tmp_path):
    """One run alone, without interruption, as its command.sh says."""
    folder = compared[0] / TUPE
    script = (folder / "command.sh").read_text()
    shown = compare(*comparing(subwords, compared[0]), "--dry-run")
    assert script in shown and "--arch" not in compared[1]
    log = run_here(*words_of(script), "--save-dir", tmp_path).stdout
    for point in read(folder / "result.json")["curve"]:
        assert f'"valid_loss": "{point["loss"]:g}"' in log
    assert_same_weights(tmp_path / "checkpoint_last.pt", folder / "checkpoint_last.pt")


def test_a_scheme_is_added_and_a_rate_is_not(compared, subwords):
    """Finished runs are not repeated; a run that fails does not end the others."""
    folder, _ = compared
    log = (folder / TUPE / "train.log").read_bytes()
    lost = read(folder / LEARNED / "result.json")["curve"]
    (folder / LEARNED / "result.json").unlink()
    words = comparing(subwords, folder, schemes="none; learned")
    checkpoint = folder / LEARNED / "checkpoint_last.pt"
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(b"damaged")  # this must not end the other run
    with trainings_here():
        code, text = call_program("compare", words)
    assert code == 1 and text.splitlines()[-2].endswith("1 runs failed; run again to repeat them:")
    assert "learned, seed 1" in text.splitlines()[-1] and "| none | 1 |" in text
    checkpoint.write_bytes(whole)
    compare(*words)
    assert log == (folder / TUPE / "train.log").read_bytes()
    again = read(folder / LEARNED / "result.json")["curve"]
    assert [point["loss"] for point in again] == [point["loss"] for point in lost]
    summary = read(folder / "results.json")["summary"]
    assert [row["scheme"] for row in summary] == ["learned", "none", "tupe --rel-pos"]
    message = "made with other settings: lr was 0.01 and is now 0.02"
    for more in ([], ["--dry-run"]):
        assert message in refused("compare", *words, "--lr", "2e-2", *more)
    record = read(folder / "settings.json")
    write_json(str(folder / "settings.json"), {**record, "fp16": True})  # as on a GPU
    assert "other settings: fp16 was True and is now False" in refused("compare", *words)
    write_json(str(folder / "settings.json"), record)
    with locked(str(folder)):
        assert "is at work in" in refused("compare", *words)


def test_a_short_run_that_fails_costs_its_scheme_alone(subwords, tmp_path):
    words = comparing(subwords, tmp_path, "--updates", 4, schemes="learned")
    words.remove("--cpu")  # as on any machine without a GPU
    rates = words.index("--lr")
    words[rates : rates + 2] = ["--tune-lrs", "1e-2,2e-2"]
    compare(*words)
    # --keep-checkpoints does not affect short runs; the vocabulary is for checkpoints
    assert not [*tmp_path.glob("tuning/**/*.pt"), *tmp_path.glob("tuning/**/dict.txt")]
    assert (tmp_path / LEARNED / "dict.txt").exists()
    (row,) = read(tmp_path / "results.json")["tuning"]
    lowest = min(row["losses"], key=lambda pair: pair[1])[0]
    assert read(tmp_path / LEARNED / "result.json")["lr"] == row["lr"] == lowest
    short = tmp_path / "tuning" / "lr0.01" / TINY / "none-seed1"
    short.mkdir(parents=True)
    (short / "checkpoint_last.pt").write_bytes(b"damaged")
    with trainings_here():
        code, text = call_program("compare", [*words, "--schemes", "none; learned", "--seeds=1,2"])
    assert code == 1 and "none, seed 1, lr 0.01" in text and "1 of 2 runs left" in text
    runs = read(tmp_path / "results.json")["runs"]
    assert [(run["scheme"], run["seed"]) for run in runs] == [("learned", 1), ("learned", 2)]
    for rate in ("0.01", "0.02"):  # as if all short runs of a scheme had diverged
        path = tmp_path / "tuning" / f"lr{rate}" / TINY / "alibi-seed1" / "result.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(result("alibi", 1, [9], diverged="NaN", lr=float(rate))))
    code, text = call_program("compare", [*words, "--schemes", "alibi; learned", "--seeds", "1"])
    assert code == 0 and "alibi is not trained: it diverged at each of --tune-lrs" in text
    assert "| alibi | diverged | diverged | none |" in text


@pytest.mark.parametrize("name", ["pilot", "study", "muon", "short"])
def test_the_studies_of_the_examples_can_be_run(name, bin_folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    path = REPO / "examples" / "results" / f"{name}.args"
    data, *_ = shlex.split(path.read_text(), comments=True)
    (tmp_path / data).parent.mkdir(parents=True)
    (tmp_path / data).symlink_to(bin_folder)
    assert "tupe --rel-pos, seed 1" in compare(f"@{path}", "--dry-run")


# ---- The scripts of the studies


def script(name):
    return runpy.run_path(str(REPO / "examples" / "results" / name))


def test_the_report_of_a_study_that_is_under_way(tmp_path, capsys):
    """It has all schemes; seed 2 lacks BLiMP, and only seed 1 of two schemes has tasks."""
    flags = shlex.split((REPO / "examples/results/pilot.args").read_text(), comments=True)
    schemes = [one.label for one in parse_schemes(flags[flags.index("--schemes") + 1])]
    tasks = dict.fromkeys(("CoLA", "RTE", "MRPC"), 30.0)
    runs = []
    for place, scheme in enumerate(schemes):
        for seed in (1, 2):
            found = {"pairs": 60.0 + place, "pairs/order": 60.0} if seed == 1 else {}
            found |= tasks if seed == 1 and scheme in ("learned", "tupe") else {}
            runs.append(result(scheme, seed, [9, 8 - place / 10 - seed / 50], downstream=found))
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"runs": runs}))
    script("differences.py")["main"](str(path))
    header, _, first, *more = capsys.readouterr().out.splitlines()
    assert header.count("|") == 7 and "five tasks" not in header
    cells = first.split(" | ")
    assert cells[:3] == ["| `tupe` less `learned`", "2", "-0.60: gain"]
    assert cells[4] == "+6.00, 1 of them: one seed" and cells[5].startswith("+0.00, 1 of them")
    assert len(more) == 7 + 1 and (tmp_path / "blimp.png").stat().st_size > 10_000
    path.write_text(json.dumps({"runs": [run | {"downstream": {}} for run in runs]}))
    script("differences.py")["main"](str(path))
    assert "BLiMP" not in capsys.readouterr().out


@pytest.mark.parametrize("path", ["results/differences.py", "models/card.py"])
def test_a_missing_file_is_one_line(path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [path, "no"])
    with pytest.raises(SystemExit, match=f"^{os.path.basename(path)}: .* 'no[/a-z.]*'$"):
        runpy.run_path(str(REPO / "examples" / path), run_name="__main__")


def test_a_missing_source_is_found_before_the_work():
    ended = run_process(REPO / "examples" / "models" / "make.sh", *["no"] * 4, check=False)
    assert ended.stdout == "make.sh: there is no no\n" and ended.returncode == 2
