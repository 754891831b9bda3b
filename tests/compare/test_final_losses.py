"""What the figure of the final losses shows, read before it is a picture."""

import pytest

from tupe_fairseq.compare.aggregate import summarize_schemes
from tupe_fairseq.compare.final_losses import _draw


def run(scheme, seed, loss, diverged=None):
    return {
        "arch": "tupe_roberta_tiny", "scheme": scheme, "seed": seed, "diverged": diverged,
        "updates": 30, "curve": [], "final_loss": loss, "best_loss": loss, "seconds": 1.0,
        "words_per_second": 1.0,
        "peak_memory_mib": 1.0, "side_by_side": 1, "parameters": 1, "position_parameters": 1,
    }  # fmt: skip


RUNS = [
    run("learned", 1, 7.0), run("learned", 2, 6.0),
    run("tupe", 1, 5.0), run("tupe", 2, None, "NaN"),
    run("rope", 1, 5.5), run("rope", 2, 5.0),
]  # fmt: skip


def panels():
    results = {
        "runs": RUNS, "baseline": "learned", "summary": summarize_schemes(RUNS, "learned"),
    }  # fmt: skip
    return _draw(results).axes


def dots(panel):
    return {
        int(line.get_ydata()[0]): sorted(map(float, line.get_xdata()))
        for line in panel.lines
        if line.get_marker() == "o" and len(line.get_xdata())
    }


def bars(panel):
    """Line to the ends of its interval."""
    ends = [path.vertices for bar in panel.collections for path in bar.get_paths()]
    return {int(y): (low, high) for ((low, y), (high, _)) in ends}


def test_losses():
    left, _ = panels()
    assert dots(left) == {0: [6.0, 7.0], 1: [5.0], 2: [5.0, 5.5]}
    # standard errors 0.5 and 0.25; one of two runs diverged
    assert bars(left) == {
        0: pytest.approx((6.5 - 6.3531, 6.5 + 6.3531), abs=1e-4),
        2: pytest.approx((5.25 - 3.1766, 5.25 + 3.1766), abs=1e-4),
    }
    names = [label.get_text() for label in left.get_yticklabels()]
    assert names == ["learned (n = 2)", "tupe (n = 1)", "rope (n = 2)"]
    assert left.get_ylim()[0] > left.get_ylim()[1]  # the baseline is on top


def test_differences():
    """The baseline's own is left out; that of rope is -1.5 and -1."""
    _, right = panels()
    assert dots(right) == {1: [-2.0], 2: [-1.5, -1.0]}
    assert bars(right) == {2: pytest.approx((-1.25 - 3.1766, -1.25 + 3.1766), abs=1e-4)}
    assert right.get_xlabel() == "difference to learned with the same seed"
