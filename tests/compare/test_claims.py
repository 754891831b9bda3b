"""Claims: how they are read, the differences that they are about, and the verdicts."""

import math

import pytest
from scipy import stats

from tupe_fairseq.compare.claim_figure import _draw
from tupe_fairseq.compare.claims import DOES_NOT, HOLDS, IN_PART, UNKNOWN, judge, parse_claims
from tupe_fairseq.compare.readout_tables import claim_section, readout_sections

SCHEMES = ["learned", "tupe --rel-pos"]
NAMES = ["pairs", "CoLA/cls", "SST-2/cls", "CoLA/mean"]


def claim(text, better="tupe --rel-pos", worse="learned"):
    return parse_claims(f"{better} over {worse}: {text}", SCHEMES, NAMES)[0]


def run(scheme, seed, loss, cola=(0.1,), pairs=0.5, diverged=None):
    return {
        "scheme": scheme, "seed": seed, "final_loss": loss, "diverged": diverged, "updates": 40,
        "curve": [{"updates": 10, "loss": 9.0, "seconds": 1.0},
                  {"updates": 40, "loss": loss, "seconds": 4.0}],
        "readouts": {
            "pairs": {"accuracy": pairs, "phenomena": {"npi": 0.25}},
            "tasks": {
                "CoLA/cls": {"metric": "mcc", "scores": list(cola)},
                "SST-2/cls": {"metric": "accuracy", "scores": [0.5, 0.7]},
                "CoLA/mean": {"metric": "mcc", "scores": [0.05]},
            },
        },
    }  # fmt: skip


BASE = [run("learned", seed, 5.0) for seed in (1, 2, 3)]


@pytest.mark.parametrize(
    "text, other, gain",
    [
        ("loss by 1", run("tupe --rel-pos", 1, 4.75), 0.25),
        # 9 to 4 in 30 updates: 5 is reached after 10 + 24
        ("updates by 1", run("tupe --rel-pos", 1, 4.0), 1 - 34 / 40),
        ("updates by 1", run("tupe --rel-pos", 1, 6.0), 0.0),
        ("pairs by 1", run("tupe --rel-pos", 1, 9.0, pairs=0.6), 10.0),
        ("CoLA/cls by 1", run("tupe --rel-pos", 1, 9.0, cola=(0.2, 0.4)), 20.0),
        ("CoLA,SST-2/cls by 1", run("tupe --rel-pos", 1, 9.0, cola=(0.3,)), 10.0),
        ("CoLA/cls - CoLA/mean by 1", run("tupe --rel-pos", 1, 9.0, cola=(0.3,)), 20.0),
        ("SST-2/cls - CoLA,SST-2/cls by 1", run("tupe --rel-pos", 1, 9.0, cola=(0.3,)), -10.0),
    ],
)
def test_the_difference(text, other, gain):
    found = judge(claim(text), [*BASE, other])
    assert found["gain"]["n"] == 1 and found["gain"]["mean"] == pytest.approx(gain)
    assert found["verdict"] == UNKNOWN  # one seed


def test_what_lacks_the_numbers_does_not_count():
    others = [run("tupe --rel-pos", 1, 4.0), run("tupe --rel-pos", 2, None, diverged="NaN")]
    del others[0]["readouts"]
    assert judge(claim("pairs by 1"), [*BASE, *others])["gain"] is None
    for text in ("loss by 1", "updates by 0.1"):
        assert judge(claim(text), [*BASE, *others])["gain"]["n"] == 1


@pytest.mark.parametrize(
    "amount, verdict", [("0.15", HOLDS), ("0.2", IN_PART), ("0.5", DOES_NOT), ("0", HOLDS)]
)
def test_verdicts(amount, verdict):
    """Gains of 0.25, 0.3 and 0.35."""
    others = [run("tupe --rel-pos", seed, 4.8 - 0.05 * seed) for seed in (1, 2, 3)]
    found = judge(claim(f"loss by {amount}"), [*BASE, *others])
    margin = stats.t.ppf(0.975, 2) * 0.05 / math.sqrt(3)
    assert found["gain"]["mean"] == pytest.approx(0.3)
    assert found["gain"]["margin95"] == pytest.approx(margin) and 0.1 < margin < 0.2
    assert found["verdict"] == verdict


def test_what_may_be_nothing_cannot_be_told():
    others = [run("tupe --rel-pos", seed, 5.3 - 0.2 * seed) for seed in (1, 2, 3)]
    assert judge(claim("loss by 0.1"), [*BASE, *others])["verdict"] == UNKNOWN


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is not of the form"),
        ("tupe --rel-pos over learned", "is not of the form 'SCHEME over SCHEME: READOUT by"),
        ("tupe over learned: loss by 1", "'tupe' is not in --schemes; list it there, or drop it"),
        ("nope over learned: loss by 1", "--claims 'nope': unknown position encoding"),
        ("tupe --rel-pos over learned: loss by x", "a number of 0 or more, not 'x'"),
        ("tupe --rel-pos over learned: loss by nan", "a number of 0 or more, not 'nan'"),
        ("tupe --rel-pos over learned: RTE/cls by 1", "'RTE/cls' is not read out; there are loss,"),
        ("tupe --rel-pos over learned: CoLA by 1", "'CoLA' is not read out"),
        ("tupe --rel-pos over learned: loss - pairs by 1", "loss and updates stand alone"),
        ("tupe --rel-pos over learned: pairs - pairs - pairs by 1", "with one ' - ' at most"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ValueError, match="--claims") as error:
        parse_claims(text, SCHEMES, NAMES)
    assert message in str(error.value)


def test_tables_and_figure():
    others = [run("tupe --rel-pos", seed, 4.8 - 0.05 * seed) for seed in (1, 2, 3)]
    rows = [judge(claim(text), [*BASE, *others]) for text in ("loss by 0.15", "CoLA/cls by 1")]
    table = "\n".join(claim_section(rows))
    assert "| tupe --rel-pos over learned: loss by 0.15 | +0.300 ± 0.124 | 3 | holds |" in table
    assert "| tupe --rel-pos over learned: CoLA/cls by 1 | +0.0 ± 0.0 | 3 | does not hold" in table
    (axis,) = _draw(rows).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == [row["claim"] for row in rows]
    dots = [line.get_xdata()[0] for line in axis.lines if line.get_marker() == "o"]
    assert dots == pytest.approx([2.0, 0.0])
    assert readout_sections([{"scheme": "learned", "measures": {"loss": None}}]) == []
