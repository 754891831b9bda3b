"""What a time limit does to runs: not begun, asked to stop, ended; nothing is trained."""

import os
import subprocess
import time

import pytest

from tupe_fairseq.compare import concurrent_runs
from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.concurrent_runs import make_runs
from tupe_fairseq.compare.parse_schemes import parse_scheme
from tupe_fairseq.compare.time_limit import TimeLimit

SCHEMES = [parse_scheme(name) for name in ("learned", "tupe", "none")]
RUNS = [ComparisonRun("tupe_roberta_tiny", scheme, 1) for scheme in SCHEMES]
PARAMETERS = {(run.arch, run.scheme): 0 for run in RUNS}


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize("seconds, saving, ending", [(540, 40, 10), (40, 10, 4)])
def test_runs_get_time_to_start_and_to_save(seconds, saving, ending):
    clock = Clock()
    limit = TimeLimit(seconds, clock)
    clock.now += 7
    assert limit.left() == seconds - 7 - ending
    assert limit.to_train() == seconds - 7 - saving


def test_no_limit():
    assert TimeLimit().left() is None and TimeLimit().to_train() is None
    with TimeLimit().at_end(lambda: pytest.fail("called")):
        pass


def test_what_ends_in_time_is_left_alone():
    called = []
    with TimeLimit(0.05).at_end(lambda: called.append(1)):
        pass
    time.sleep(0.1)
    assert called == []


@pytest.fixture
def planned(tmp_path):
    comparison = Comparison(
        str(tmp_path), str(tmp_path), updates=8, warmup_updates=1, validate_every=4
    )
    return [(comparison, run) for run in RUNS]


@pytest.fixture
def lock():
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


def test_nothing_begins_when_the_time_is_over(planned, lock, monkeypatch):
    seen, clock = [], Clock()
    limit = TimeLimit(10**6, clock)

    def compare_one(comparison, run, *, seconds, **_):
        seen.append((run, seconds))
        clock.now += 10**6
        return {"diverged": None, "final_loss": 5.0}

    monkeypatch.setattr(concurrent_runs, "compare_one", compare_one)
    assert make_runs(planned, PARAMETERS, [None], lock, limit) == 2
    assert seen == [(RUNS[0], 10**6 - 40)]


def test_what_runs_at_the_end_is_ended_and_left(planned, lock, monkeypatch):
    """The first one is finished by then, the others do not stop by themselves."""

    def compare_one(comparison, run, *, on_start, **_):
        if run == RUNS[0]:
            return {"diverged": None, "final_loss": 5.0}
        with subprocess.Popen(["sleep", "60"]) as process:
            on_start(process)
        raise ValueError(f"exit code {process.returncode}")

    monkeypatch.setattr(concurrent_runs, "compare_one", compare_one)
    began = time.monotonic()
    finished = []
    left = make_runs(
        planned,
        PARAMETERS,
        [None] * 3,
        lock,
        TimeLimit(0.5),
        on_finished=lambda: finished.append(1),
    )
    assert (left, finished) == (2, [1])
    assert time.monotonic() - began < 30


def test_an_error_before_the_end_is_one(planned, lock, monkeypatch):
    def compare_one(comparison, run, **_):
        raise ValueError("exit code 1")

    monkeypatch.setattr(concurrent_runs, "compare_one", compare_one)
    with pytest.raises(ValueError, match="exit code 1"):
        make_runs(planned, PARAMETERS, [None], lock, TimeLimit(600))
