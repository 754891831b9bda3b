"""The numbers of a comparison as text."""

from typing import Any

_MOST_BITS = 1000  # 2 to a higher power is beyond a float


def perplexity(loss: float) -> str:
    """2 to the power of a loss in bits, with one decimal."""
    return f"{2**loss:,.1f}" if loss < _MOST_BITS else f"above 2^{_MOST_BITS}"


def mean_and_margin(found: dict[str, Any] | None, form: str) -> str:
    """Mean and 95% interval as text, "mean ± margin"; of one value the value.

    Args:
        found (dict or None): of :func:`tupe_fairseq.compare.aggregate.spread`; None: "-".
        form (str): the format of one number.
    """
    if found is None:
        return "-"
    mean = format(found["mean"], form)
    if found["margin95"] is None:
        return mean
    return f"{mean} ± {format(found['margin95'], form.replace('+', ''))}"


def number(found: dict[str, Any] | None, form: str = ".3f", *, margin: bool = True) -> str:
    """Mean and spread as text.

    Args:
        found (dict or None): of :func:`tupe_fairseq.compare.aggregate.spread`.
        form (str): the format of one number.
        margin (bool): whether to give the 95% interval.
    Returns:
        str: one value as it is; more as "mean ± margin (least to most)".
    """
    if found is None:
        return "-"
    mean = format(found["mean"], form)
    if found["n"] == 1:
        return mean
    interval = f" ± {format(found['margin95'], form.replace('+', ''))}" if margin else ""
    return f"{mean}{interval} ({format(found['min'], form)} to {format(found['max'], form)})"
