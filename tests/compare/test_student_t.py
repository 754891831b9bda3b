"""Quantiles of Student's t against scipy's and against printed tables."""

import math

import pytest
from scipy import stats

from tupe_fairseq.compare.student_t import t_quantile


@pytest.mark.parametrize(
    "freedom, printed",
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (30, 2.042)],
)
def test_printed_tables(freedom, printed):
    assert t_quantile(freedom) == pytest.approx(printed, abs=6e-4)


@pytest.mark.parametrize("inside", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 10, 61, 200])
def test_scipy(freedom, inside):
    expected = stats.t.ppf(0.5 + inside / 2, freedom)
    # older scipy's is off by 3e-9
    assert t_quantile(freedom, inside) == pytest.approx(expected, rel=1e-8)


def test_closed_forms():
    """One degree is Cauchy's distribution; two have t = s sqrt(2 / (1 - s^2))."""
    assert t_quantile(1, 0.8) == pytest.approx(math.tan(math.pi * 0.4), rel=1e-12)
    assert t_quantile(2, 0.8) == pytest.approx(0.8 * math.sqrt(2 / 0.36), rel=1e-12)
