"""What the figures of fine-tuning show."""

import numpy as np
import pytest

from tupe_fairseq.plots import canvas, class_bars, confusion_matrix, learning_curves, score_scatter


def curve(*scores):
    return [{"epoch": n, "score": s, "loss": 1 / n} for n, s in enumerate(scores, start=1)]


def test_the_best_run_is_bold_and_rates_have_colours():
    curves = {
        "lr2e-5-seed1": curve(50.0, 60.0), "lr2e-5-seed2": curve(51.0, 70.0),
        "lr3e-5-seed1": curve(52.0),
    }  # fmt: skip
    figure = learning_curves.draw(curves, "lr2e-5-seed2", "accuracy", "mood $x_")
    loss, score = figure.axes
    lines = {tuple(line.get_ydata()): line for line in score.lines}
    best, other, single = lines[51.0, 70.0], lines[50.0, 60.0], lines[(52.0,)]
    assert best.get_linewidth() > 2 * other.get_linewidth()
    assert best.get_color() == other.get_color() != single.get_color()
    assert [list(line.get_ydata()) for line in loss.lines][0] == [1, 1 / 2]
    (legend,) = figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ["lr 2e-5", "lr 3e-5", "best: lr2e-5-seed2"]
    assert score.get_title() == "accuracy, development set"
    assert canvas.pixels(figure).std() > 0


def test_curves_without_a_best_run():
    figure = learning_curves.draw({"lr2e-5-seed1": curve(50.0)}, None, "F1", "mood")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["lr 2e-5"]


def test_confusions():
    figure = confusion_matrix.draw(np.array([[3, 1], [0, 0]]), ["a", "x" * 40], "mood")
    panel = figure.axes[0]
    numbers = {text.get_position(): text.get_text() for text in panel.texts}
    assert numbers == {(0, 0): "3", (1, 0): "1"}  # prediction, true class
    np.testing.assert_allclose(panel.images[0].get_array(), [[0.75, 0.25], [0, 0]])
    labels = [label.get_text() for label in panel.get_yticklabels()]
    assert labels == ["a", "x" * 23 + "\u2026"]
    assert canvas.pixels(figure).std() > 0


def test_many_classes_have_no_numbers():
    figure = confusion_matrix.draw(np.eye(16, dtype=int), list(map(str, range(16))), "mood")
    assert len(figure.axes[0].texts) == 0


def test_bars_of_classes():
    classes = [
        {"label": "a", "precision": 0.5, "recall": 1.0, "f1": 2 / 3, "support": 7},
        {"label": "b", "precision": 0.25, "recall": 0.0, "f1": 0.0, "support": 0},
    ]
    figure = class_bars.draw(classes, "mood")
    (panel,) = figure.axes
    widths = [bar.get_width() for bar in panel.patches]
    assert widths == pytest.approx([50, 25, 100, 0, 200 / 3, 0])
    assert [label.get_text() for label in panel.get_yticklabels()] == ["a  (7)", "b  (0)"]
    assert canvas.pixels(figure).std() > 0


def test_scatter_has_room_for_all_scores():
    figure = score_scatter.draw(np.array([1.0, 1.1, 0.9]), np.array([0.0, 2.5, 5.0]), "mood")
    (panel,) = figure.axes
    points = panel.collections[0].get_offsets().tolist()
    assert points == [[0.0, 1.0], [2.5, 1.1], [5.0, 0.9]]
    low, high = panel.get_ylim()
    assert low < 0 and high > 5
    assert canvas.pixels(figure).std() > 0
