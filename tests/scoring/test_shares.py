"""Shares and totals against a count by hand."""

import math

import pytest

from tupe_fairseq.scoring.shares import Shares, shares_table
from tupe_fairseq.scoring.totals import Total, totals_table


def test_shares_by_hand():
    shares = Shares()
    for file, phenomenon, good, bad in [
        ("b", "island", -1.0, -2.0), ("b", "island", -2.0, -1.0), ("b", "", -3.0, -3.0),
        ("b", "npi", 0.0, -9.0), ("a", "npi", -1.0, -2.0),
    ]:  # fmt: skip
        shares.add(file, phenomenon, good, bad)
    found = shares.to_dict()
    # a tie is wrong
    assert found["all"] == {
        "pairs": 5, "right": 3, "ties": 1, "accuracy": 0.6,
        "standard_error": pytest.approx(math.sqrt(0.6 * 0.4 / 5)),
    }  # fmt: skip
    assert list(found["files"]) == ["a", "b"]
    assert found["files"]["b"]["standard_error"] == pytest.approx(0.25)
    assert found["phenomena"]["island"]["pairs"] == 2 and found["phenomena"]["npi"]["right"] == 2
    assert found["mean_of_files"] == {"of": 2, "accuracy": 0.75, "standard_error": 0.125}
    table = shares_table(found)
    assert "| all pairs | 60.00 | 21.91 | 5 | 1 |" in table
    assert "| mean of files (2) | 75.00 | 12.50 |  |  |" in table


def test_without_phenomena():
    shares = Shares()
    shares.add("a", "", 1.0, 0.0)
    found = shares.to_dict()
    assert found["phenomena"] == {} and "mean_of_phenomena" not in found
    assert "phenomen" not in shares_table(found)


def test_totals_by_hand():
    total = Total()
    total.add(1, -2 * math.log(2))
    total.add(3, -2 * math.log(2))
    found = total.to_dict()
    assert found["loss"] == pytest.approx(math.log(2))
    assert found["pseudo_perplexity"] == pytest.approx(2)
    assert (found["sentences"], found["pieces"]) == (2, 4)
    assert "| all | 2.00 | 0.6931 | 2 | 4 |" in totals_table({"all": found})
    total.add(1, -1e6)
    assert math.isfinite(total.to_dict()["pseudo_perplexity"])
