"""What is recorded from a run's log, with a clock set by hand."""

import os

import pytest

from tupe_fairseq.compare.measurement import Measurement, peak_resident_mib, read_points
from tupe_fairseq.fairseq_runs.train import Diverged

PREFIX = "2024-01-02 03:04:05 | INFO | "


class Log:
    """A measurement that is fed lines at given times."""

    def __init__(self, path, updates=0, **kwargs):
        self.now = 0.0
        self.measured = Measurement(str(path), updates, clock=lambda: self.now, **kwargs)

    def at(self, now, line):
        self.now = now
        return self.measured.follow(PREFIX + line + "\n")

    def inner(self, now, updates, words, more=""):
        numbers = f'{{"loss": "9.1", "wpb": "{words}", "num_updates": "{updates}"{more}}}'
        return self.at(now, f"train_inner | {numbers}")

    def valid(self, now, updates, loss):
        self.at(now, 'fairseq_cli.train | begin validation on "valid" subset')
        numbers = f'{{"epoch": 1, "valid_loss": "{loss}", "valid_num_updates": "{updates}"}}'
        self.at(now + 5, f"valid | {numbers}")

    def saved(self, now, updates):
        self.at(now, f"x | Preparing to save checkpoint for epoch 1 @ {updates} updates")
        self.at(now + 7, f"x | Saved checkpoint a.pt (epoch 1 @ {updates} updates)")


def two_intervals(path):
    log = Log(path)
    log.at(0, "fairseq_cli.train | Start iterating over samples")
    assert log.inner(2, 5, 100) == 5
    assert log.inner(4, 10, 200) == 10
    log.valid(4, 10, "8.5")  # until 9
    log.saved(9, 10)  # until 16
    log.inner(19, 15, 300)
    log.at(20, "fairseq_cli.train | end of epoch 1 (average epoch stats below)")
    log.at(50, "fairseq_cli.train | Start iterating over samples")
    log.inner(52, 20, 300)
    log.valid(52, 20, "8.25")
    return log


def test_only_training_counts(tmp_path):
    """4 s for 1,500 words; then 4 s + 2 s for 3,000."""
    two_intervals(tmp_path / "curve.jsonl")
    first, second = read_points(str(tmp_path / "curve.jsonl"))
    assert (first["updates"], first["loss"], first["seconds"]) == (10, 8.5, 4.0)
    assert first["words_per_second"] == pytest.approx(375)
    assert (second["updates"], second["loss"], second["seconds"]) == (20, 8.25, 10.0)
    assert second["words_per_second"] == pytest.approx(500)


def test_a_resumed_run_continues_from_its_checkpoint(tmp_path):
    path = tmp_path / "curve.jsonl"
    two_intervals(path)
    log = Log(path, updates=10, side_by_side=2)
    assert [point["updates"] for point in log.measured.points] == [10]
    log.at(100, "fairseq_cli.train | Start iterating over samples")
    log.inner(103, 20, 50)
    log.valid(103, 20, "8.2")
    assert [(p["updates"], p["seconds"]) for p in read_points(str(path))] == [(10, 4.0), (20, 7.0)]
    assert [p["side_by_side"] for p in log.measured.points] == [1, 2]
    assert Log(path).measured.points == []  # without a checkpoint all begins again


def test_an_interval_that_the_log_does_not_tile_has_no_speed(tmp_path):
    log = Log(tmp_path / "curve.jsonl")
    log.at(0, "x | Start iterating over samples")
    log.inner(2, 5, 100)
    log.valid(3, 7, "8.5")
    assert log.measured.points[0]["words_per_second"] is None


def test_validated_twice_after_an_overflow(tmp_path):
    log = two_intervals(tmp_path / "curve.jsonl")
    log.valid(70, 20, "8.24")
    assert [p["loss"] for p in log.measured.points] == [8.5, 8.24]


@pytest.mark.parametrize("loss", ["nan", "inf"])
def test_a_loss_that_is_not_finite(loss, tmp_path):
    with pytest.raises(Diverged, match=f"the validation loss after 4 updates is {loss}"):
        Log(tmp_path / "curve.jsonl").valid(0, 4, loss)


def test_peak_memory_of_a_gpu(tmp_path):
    log = Log(tmp_path / "curve.jsonl")
    log.at(
        0,
        "x | rank   0: capabilities =  9.0  ; total memory = 100.000 GB ; name = A GPU" + " " * 30,
    )
    log.at(1, "x | Start iterating over samples")
    for updates, free in ((1, "97.5"), (2, "98")):
        log.inner(2, updates, 10, f', "gb_free": "{free}"')
    log.valid(3, 2, "8.5")
    assert log.measured.points[0]["peak_memory_mib"] == pytest.approx(2.5 * 1024)
    assert log.measured.device == "A GPU"


def test_peak_memory_of_a_process():
    if not os.path.exists("/proc/self/status"):
        pytest.skip("this system has no /proc")
    assert 20 < peak_resident_mib(os.getpid()) < 100_000
    assert peak_resident_mib(None) is None
