"""Quantiles of Student's t distribution, without scipy."""

import math

_HALVINGS = 100  # more than a float has digits


def t_quantile(freedom: int, inside: float = 0.95) -> float:
    """The t within which, on both sides of 0, lies a share of the distribution.

    Bisection of the exact distribution for whole degrees of freedom, a finite sum of powers of
    cos(theta) with theta = atan(t / sqrt(freedom)): Abramowitz and Stegun, Handbook of Mathematical
    Functions, 26.7.3 and 26.7.4.

    Args:
        freedom (int): degrees of freedom, 1 or more: values less one.
        inside (float): the share, above 0 and below 1.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(_HALVINGS):
        theta = (low + high) / 2
        if _share_within(theta, freedom) < inside:
            low = theta
        else:
            high = theta
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _share_within(theta: float, freedom: int) -> float:
    cosine, is_odd = math.cos(theta), freedom % 2
    # c + 2/3 c^3 + (2 * 4)/(3 * 5) c^5 ..., or 1 + 1/2 c^2 + (1 * 3)/(2 * 4) c^4 ...
    total, term = 0.0, cosine if is_odd else 1.0
    for power in range(2 + is_odd, freedom + 1, 2):
        total += term
        term *= cosine**2 * (power - 1) / power
    if is_odd:
        return (theta + math.sin(theta) * total) * 2 / math.pi
    return math.sin(theta) * total
