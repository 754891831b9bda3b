"""What the curves of a comparison show, read from the figure before it is a picture."""

import matplotlib.colors
import pytest

from tupe_fairseq.compare.aggregate import summarize_schemes
from tupe_fairseq.compare.loss_curves import _draw, mean_curve


def run(scheme, seed, losses, diverged=None):
    curve = [
        {"updates": 10 * n, "loss": loss, "seconds": n + seed} for n, loss in enumerate(losses, 1)
    ]
    return {
        "arch": "tupe_roberta_tiny", "scheme": scheme, "seed": seed, "diverged": diverged,
        "updates": 30, "curve": curve, "best_loss": min(losses),
        "final_loss": None if diverged else losses[-1],
        "seconds": 1.0, "words_per_second": 1.0, "peak_memory_mib": 1.0, "side_by_side": 1,
        "parameters": 1, "position_parameters": 1,
    }  # fmt: skip


RUNS = [
    run("learned", 1, [9.0, 8.0, 7.0]),
    run("learned", 2, [9.5, 8.0, 6.0]),
    run("tupe", 1, [8.0, 6.0, 5.0]),
    run("tupe", 2, [8.5, 8.25], diverged="gradients are Nan/Inf"),
]


def panels(key):
    results = {
        "runs": RUNS, "baseline": "learned", "summary": summarize_schemes(RUNS, "learned"),
    }  # fmt: skip
    left, right = (ax for ax in _draw(results, key, "x").axes if ax.lines)
    return left, right


def curves(ax, **wanted):
    """The lines of a style, as (x values, y values)."""
    return [
        (list(map(float, line.get_xdata())), list(map(float, line.get_ydata())))
        for line in ax.lines
        if all(getattr(line, f"get_{name}")() == value for name, value in wanted.items())
    ]


def test_mean_over_the_updates_that_all_have():
    both = [run("a", 1, [9.0, 8.0, 7.0])["curve"], run("a", 3, [5.0, 7.0])["curve"]]
    assert mean_curve(both, "updates") == ([10, 20], [7.0, 7.5])
    assert mean_curve(both, "seconds") == ([3.0, 4.0], [7.0, 7.5])
    assert mean_curve([], "updates") is None


@pytest.mark.parametrize(
    "key, learned, tupe",
    [("updates", [10, 20, 30], [10, 20, 30]), ("seconds", [2.5, 3.5, 4.5], [2, 3, 4])],
)
def test_lines(key, learned, tupe):
    """Thick: the means of whole runs; thin: every run."""
    for ax in panels(key):
        thick = curves(ax, linewidth=2.2)
        assert sorted(thick) == sorted([(learned, [9.25, 8.0, 6.5]), (tupe, [8.0, 6.0, 5.0])])
        thin = [y for _, y in curves(ax, linewidth=0.8) if len(y) > 1 and y[0] != y[1]]
        assert sorted(thin) == sorted([point["loss"] for point in one["curve"]] for one in RUNS)


def test_the_last_loss_of_the_baseline_is_drawn_through():
    for ax in panels("updates"):
        assert ([0.0, 1.0], [6.5, 6.5]) in curves(ax, linewidth=0.8)


def test_a_diverged_run_is_marked_where_it_ended():
    for ax in panels("updates"):
        assert curves(ax, marker="x") == [([20.0], [8.25])]


def test_schemes_differ_in_colour_and_the_baseline_is_black():
    ax = panels("updates")[0]
    colours = {
        line.get_label().split(":")[0]: matplotlib.colors.to_hex(line.get_color())
        for line in ax.lines
        if line.get_linewidth() == 2.2
    }
    assert colours["learned"] == "#000000" != colours["tupe"]


def test_the_legend_has_the_interval():
    """Seeds 7.0 and 6.0: standard error 0.5, t 12.706."""
    labels = {line.get_label() for line in panels("updates")[0].lines}
    assert "learned: 6.500 ± 6.353" in labels and "tupe: 5.000 (1 diverged)" in labels
