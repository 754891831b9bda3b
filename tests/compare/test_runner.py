"""tupe-compare through fairseq-train: concurrent runs, interrupted, resumed, added to."""

import json
import shlex

import pytest

from helpers.running import call_program, interrupt
from helpers.training import assert_same_weights
from tupe_fairseq.commands import compare
from tupe_fairseq.commands.compare import main
from tupe_fairseq.compare import comparison, pace
from tupe_fairseq.compare.time_limit import TimeLimit
from tupe_fairseq.fairseq_runs.command import fairseq_train
from tupe_fairseq.files.lock import locked

SCHEMES = "learned; tupe --rel-pos"
TINY, MINI = "tupe_roberta_tiny", "tupe_roberta_mini"
RUNS = [
    f"{TINY}/learned-seed1", f"{TINY}/learned-seed2",
    f"{TINY}/tupe_rel-pos-seed1", f"{TINY}/tupe_rel-pos-seed2",
]  # fmt: skip
# several batches per update, so that a run lasts long enough to be interrupted
SIZE = "--encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64 --update-freq 4"


def comparing(data, folder, *flags, schemes=SCHEMES):
    """The words after tupe-compare; later flags win."""
    words = [
        data, "--output-dir", folder, "--schemes", schemes, "--seeds", "1,2", "--updates", 12,
        "--validate-every", 4, "--batch-size", 4, "--tokens-per-sample", 64, "--lr", "1e-2",
        "--cpu", "--threads", 1, f"--train-flags={SIZE}", "--keep-checkpoints", *flags,
    ]  # fmt: skip
    return [str(word) for word in words]


@pytest.fixture(scope="module", autouse=True)
def trainings_start_at_once(shim_folder):
    """Those of an interrupted command, too; but the memory of one is that of another process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "fairseq_train", lambda: f"{shim_folder}/fairseq-train")
        yield


@pytest.fixture(scope="module")
def compared(data, shim_folder, tmp_path_factory):
    """2 x 2 runs, interrupted while the first two ran concurrently, and then finished."""
    for _ in range(3):  # on a busy machine a run may be over before it is interrupted
        folder = tmp_path_factory.mktemp("a comparison")
        words = comparing(data, folder)
        first, second = folder / RUNS[0], folder / RUNS[2]
        code, text = interrupt(
            [f"{shim_folder}/tupe-compare", *words, "--parallel", "2"],
            second / "train.log", "Saved checkpoint",
        )  # fmt: skip
        assert code == 130, text
        with locked(str(folder)):  # what it had started has ended, too
            assert not (second / "result.json").exists()
            assert {path.name for path in folder.glob("*/*-seed*")} == {first.name, second.name}
        if "@ 12 updates" not in (second / "train.log").read_text():
            break
    code, text = call_program(main, words)
    assert code == 0, text
    return folder, text


def read(path):
    return json.loads(path.read_text())


def test_every_run_is_whole(compared):
    folder, _ = compared
    for name in RUNS:
        found = read(folder / name / "result.json")
        assert found["diverged"] is None
        assert [point["updates"] for point in found["curve"]] == [4, 8, 12]
        seconds = [point["seconds"] for point in found["curve"]]
        assert 0 < seconds[0] < seconds[1] < seconds[2] == found["seconds"]
        assert found["final_loss"] == found["curve"][-1]["loss"] < found["curve"][0]["loss"]
        assert found["words_per_second"] > 0
        assert [path.name for path in (folder / name).glob("*.pt")] == ["checkpoint_last.pt"]


@pytest.mark.thorough
def test_memory_is_that_of_the_training(data, tmp_path, monkeypatch):
    """Here the process itself trains."""
    monkeypatch.setattr(comparison, "fairseq_train", fairseq_train)
    flags = ["--updates", 1, "--validate-every", 1, "--seeds", "1"]
    code, text = call_program(main, comparing(data, tmp_path, *flags, schemes="learned"))
    assert code == 0, text
    assert 50 < read(tmp_path / RUNS[0] / "result.json")["peak_memory_mib"] < 5000


def test_parameters(compared):
    """learned has a table of 64 x 32; all that tupe has more is positions: two projections, ..."""
    folder, _ = compared
    learned, tupe = (read(folder / name / "result.json") for name in (RUNS[0], RUNS[2]))
    assert learned["position_parameters"] == 64 * 32
    difference = tupe["position_parameters"] - learned["position_parameters"]
    assert difference == tupe["parameters"] - learned["parameters"] > 2 * 32 * 32


def test_the_interrupted_run_went_on(compared):
    folder, text = compared
    assert "4 of 4 runs left" in text or "3 of 4 runs left" in text
    log = (folder / RUNS[2] / "train.log").read_text()
    assert log.count("| Start iterating over samples") >= 2 and "(epoch 1 @ 4 updates)" in log
    assert read(folder / RUNS[2] / "result.json")["side_by_side"] == 2
    assert read(folder / RUNS[3] / "result.json")["side_by_side"] == 1
    assert "(2 concurrent)" in (folder / "results.md").read_text()


def test_by_hand_without_interruption_it_is_the_same(compared, run, tmp_path):
    folder = compared[0] / RUNS[2]
    script = (folder / "command.sh").read_text()
    assert script in compared[1]
    by_hand = script.replace(shlex.quote(str(folder)), shlex.quote(str(tmp_path / "by hand")))
    assert by_hand != script
    log = run("sh", "-c", by_hand).stdout
    for point in read(folder / "result.json")["curve"]:
        assert f'"valid_loss": "{point["loss"]:g}"' in log
    assert_same_weights(tmp_path / "by hand" / "checkpoint_last.pt", folder / "checkpoint_last.pt")


def test_stopped_twice_it_is_the_same(compared, data, tmp_path, monkeypatch):
    """By --stop-after: fairseq-train saves after the first update of each of these calls."""

    class AfterOneUpdate(TimeLimit):
        def to_train(self):
            return 1e-6

    words = comparing(data, tmp_path, "--seeds", "1", schemes="tupe --rel-pos")
    with monkeypatch.context() as patch:
        patch.setattr(compare, "TimeLimit", AfterOneUpdate)
        for updates in (1, 2):
            code, text = call_program(main, [*words, "--stop-after", "30"])
            assert code == 75, text
            last = text.splitlines()[-1]
            assert last.endswith(
                "stopped after 30 minutes: 1 of 1 runs are left; run it again to go on"
            )
            log = (tmp_path / RUNS[2] / "train.log").read_text()
            assert f" (epoch 1 @ {updates} updates, score " in log
    assert not (tmp_path / "results.md").exists()
    code, text = call_program(main, [*words, "--stop-after", "30"])
    assert code == 0, text
    found, whole = (read(folder / RUNS[2] / "result.json") for folder in (tmp_path, compared[0]))
    for point, other in zip(found["curve"], whole["curve"]):
        assert (point["updates"], point["loss"]) == (other["updates"], other["loss"])
    assert len(found["curve"]) == 3 and found["seconds"] > 0
    assert_same_weights(
        tmp_path / RUNS[2] / "checkpoint_last.pt", compared[0] / RUNS[2] / "checkpoint_last.pt"
    )


def test_results(compared):
    folder, text = compared
    results = read(folder / "results.json")
    assert results["baseline"] == "learned"
    assert [run["scheme"] for run in results["runs"]] == ["learned"] * 2 + ["tupe --rel-pos"] * 2
    assert results["settings"]["versions"].keys() >= {"torch", "fairseq"}
    row = results["summary"][1]
    losses = [read(folder / name / "result.json")["final_loss"] for name in RUNS]
    assert row["final_loss"]["mean"] == pytest.approx(sum(losses[2:]) / 2)
    assert row["difference"]["min"] == pytest.approx(
        min(losses[2] - losses[0], losses[3] - losses[1])
    )
    assert set(row["to_baseline"]["per_seed"]) == {"1", "2"}
    table = (folder / "results.md").read_text()
    assert table in text and "| learned (baseline) | 1, 2 |" in table
    for name in ("final_loss.png", "loss_by_updates.png", "loss_by_time.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_a_scheme_and_a_size_are_added_and_nothing_repeated(compared, data):
    folder, _ = compared
    logs = {name: (folder / name / "train.log").read_bytes() for name in RUNS}
    sizes = ["--seeds", "1", "--arch", f"{MINI},{TINY}"]
    code, text = call_program(main, comparing(data, folder, *sizes, schemes="learned; none"))
    assert code == 0, text
    assert "3 of 4 runs left" in text and f"{TINY}, none, seed 1: " in text
    assert all((folder / name / "train.log").read_bytes() == logs[name] for name in RUNS)
    summary = read(folder / "results.json")["summary"]
    assert [(row["arch"], row["scheme"], row["seeds"]) for row in summary] == [
        (MINI, "learned", [1]), (MINI, "none", [1]),
        (TINY, "learned", [1, 2]), (TINY, "none", [1]), (TINY, "tupe --rel-pos", [1, 2]),
    ]  # fmt: skip
    assert text.index(f"## `{MINI}`") < text.index(f"## `{TINY}`")
    assert "`none` " in text and "One seed: a single observation, not a result." in text


@pytest.mark.parametrize(
    "flags, difference",
    [
        (["--updates", "16"], "updates was 12 and is now 16"),
        (["--lr", "2e-2"], "lr was 0.01 and is now 0.02"),
        ([f"--train-flags={SIZE} --dropout 0"], "train_flags was"),
    ],
    ids=["updates", "lr", "train-flags"],
)
def test_other_settings_are_refused(flags, difference, compared, data):
    code, text = call_program(main, comparing(data, compared[0], *flags))
    assert code == 2 and "was made with other settings: " + difference in text


def test_a_folder_in_use_is_refused(compared, data):
    with locked(str(compared[0])):
        code, text = call_program(main, comparing(data, compared[0]))
    assert code == 2 and "another process is using" in text


def test_a_diverged_run_is_recorded(data, tmp_path):
    words = comparing(data, tmp_path / "out", "--lr", "1e30", "--seeds", "1", schemes="none")
    code, text = call_program(main, words)
    assert code == 0, text
    found = read(tmp_path / "out" / TINY / "none-seed1" / "result.json")
    assert found["diverged"] is not None and found["final_loss"] is None
    table = (tmp_path / "out" / "results.md").read_text()
    assert "| none (baseline) | 1 (diverged: 1) | diverged |" in table


def test_short_runs_decide_length_and_rate(data, tmp_path, monkeypatch):
    """Of two rates one diverges; a second call finds all of them finished."""
    monkeypatch.setattr(pace, "_PART", 3)
    words = comparing(
        data, tmp_path, "--tune-lrs", "1e30,1e-2", "--seconds", 1, "--seeds", "3", schemes="none"
    )
    for flag in ("--updates", "--validate-every", "--lr"):
        place = words.index(flag)
        del words[place : place + 2]
    code, text = call_program(main, words)
    assert code == 0, text
    assert "1 of 1 short runs for speed left" in text
    assert "2 of 2 short runs for learning rates left" in text and "1 of 1 runs left" in text
    results = read(tmp_path / "results.json")
    (tuning,), (run,) = results["tuning"], results["runs"]
    first, _, last = read(tmp_path / "speed" / TINY / "none-seed3" / "result.json")["curve"]
    updates = int(1 / (last["seconds"] - first["seconds"]) * (last["updates"] - first["updates"]))
    assert run["updates"] == pytest.approx(updates, abs=1)
    assert run["curve"][-1]["updates"] == run["updates"]
    assert [rate["lr"] for rate in tuning["rates"]] == [1e-2, 1e30]
    assert tuning["rates"][0]["final_loss"] > 0 and tuning["rates"][1]["final_loss"] is None
    assert (tuning["seed"], tuning["lr"], run["lr"]) == (3, 1e-2, 1e-2)
    assert tuning["updates"] == max(1, run["updates"] // 10)
    assert "--lr 0.01 " in (tmp_path / TINY / "none-seed3" / "command.sh").read_text()
    table = (tmp_path / "results.md").read_text()
    assert "| diverged | 0.01 (edge) |" in table and "1 seconds of training, each scheme" in table

    code, again = call_program(main, words)
    assert code == 0 and again.count("\ntupe-compare: 0 of ") == 2, again
    words[words.index("--seconds") + 1] = "2"
    code, text = call_program(main, words)
    assert code == 2 and "seconds was 1.0 and is now 2.0" in text
