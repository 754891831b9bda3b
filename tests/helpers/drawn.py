"""Inputs drawn by hypothesis, the same in every run; tests that need it are skipped without it."""

import pytest

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis draws the inputs (extra: test)")

from hypothesis import strategies  # noqa: E402, F401


def drawn(count=50, **inputs):
    """A test that is called with ``count`` inputs, each drawn from its strategy."""

    def decorate(test):
        settings = hypothesis.settings(
            max_examples=count, deadline=None, derandomize=True, database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        return settings(hypothesis.given(**inputs)(test))

    return decorate
