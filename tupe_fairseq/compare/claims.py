"""Claims about two schemes: read from --claims, and judged by the 95% interval of the difference.

A claim is written ``SCHEME over SCHEME: READOUT by AMOUNT``, with the amount from which on a
difference would count, for example::

    tupe over learned: loss by 0.05
    tupe over learned: updates by 0.1
    alibi --untie-cls over alibi: CoLA,MRPC,RTE/cls by 2
    tupe over tupe --tie-cls: CoLA/cls - CoLA/mean by 3
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tupe_fairseq.compare.aggregate import spread, updates_to_reach
from tupe_fairseq.compare.measures import LOSS, measures
from tupe_fairseq.compare.parse_schemes import parse_scheme

UPDATES = "updates"
HOLDS, IN_PART = "holds", "holds in part"
DOES_NOT, UNKNOWN = "does not hold at this scale", "cannot be told"

_CLAIM = re.compile(r"(?P<better>.+?) over (?P<worse>.+?): (?P<readout>.+) by (?P<amount>\S+)")


@dataclass(frozen=True)
class Claim:
    """That one scheme is better than another by some amount.

    Args:
        better (str): label of a scheme.
        worse (str): label of the other one.
        readout (str): ``loss`` (bits, less is better), ``updates`` (the share of updates that are
            saved until the other's final loss), or names of :func:`measures`.
        amount (float): the least difference that counts, in the readout's unit.
        added (tuple of str): the measures whose mean it is.
        subtracted (tuple of str): the measures whose mean is taken off.
    """

    better: str
    worse: str
    readout: str
    amount: float
    added: tuple[str, ...]
    subtracted: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{self.better} over {self.worse}: {self.readout} by {self.amount:g}"

    def gain(self, better: dict[str, Any], worse: dict[str, Any]) -> float | None:
        """By how much one run is better than another; None if one of them lacks the numbers.

        A run that never reaches the other's final loss has saved none of its updates.
        """
        own, other = measures(better), measures(worse)
        if self.readout == UPDATES:
            if LOSS not in own or LOSS not in other:
                return None
            reached = updates_to_reach(better["curve"], other[LOSS])
            return 0.0 if reached is None else 1 - reached / worse["updates"]
        if not set(self.added + self.subtracted) <= set(own) & set(other):
            return None
        return (
            (other[LOSS] - own[LOSS]) if self.readout == LOSS else self._of(own) - self._of(other)
        )

    def _of(self, found: dict[str, float]) -> float:
        less = fmean(found[name] for name in self.subtracted) if self.subtracted else 0.0
        return fmean(found[name] for name in self.added) - less


def parse_claims(text: str, schemes: Sequence[str], readouts: Sequence[str]) -> list[Claim]:
    """Read --claims: claims separated by semicolons.

    Args:
        text (str): what the flag was given.
        schemes (sequence of str): labels of the schemes that are compared.
        readouts (sequence of str): names of what is read out, such as ``pairs`` and ``CoLA/cls``.
    Raises:
        ValueError: if one is not of that form, or of another scheme or readout.
    """
    claims = []
    for part in text.strip().rstrip(";").split(";"):
        where = f"--claims {part.strip()!r}"
        found = _CLAIM.fullmatch(part.strip())
        if found is None:
            raise ValueError(f"{where} is not of the form 'SCHEME over SCHEME: READOUT by AMOUNT'")
        pair = [parse_scheme(found[name], "--claims").label for name in ("better", "worse")]
        for label in pair:
            if label not in schemes:
                raise ValueError(
                    f"{where}: {label!r} is not in --schemes; list it there, or drop it"
                )
        amount = _amount(found["amount"], where)
        sides = found["readout"].split(" - ")
        names = [_names(side, where, readouts) for side in sides]
        alone = {LOSS, UPDATES} & {name for side in names for name in side}
        if len(sides) > 2 or (alone and found["readout"] not in alone):
            raise ValueError(
                f"{where}: loss and updates stand alone, others with one ' - ' at most"
            )
        claims.append(Claim(pair[0], pair[1], found["readout"], amount, *names))
    return claims


def _amount(text: str, where: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        raise ValueError(f"{where}: the amount is a number of 0 or more, not {text!r}")
    return amount


def _names(text: str, where: str, readouts: Sequence[str]) -> tuple[str, ...]:
    """``CoLA,MRPC/cls`` is the mean of ``CoLA/cls`` and ``MRPC/cls``."""
    tasks, slash, pooling = text.strip().rpartition("/")
    names = [f"{task.strip()}/{pooling}" for task in tasks.split(",")] if slash else [pooling]
    for name in names:
        if name not in (LOSS, UPDATES, *readouts):
            known = ", ".join((LOSS, UPDATES, *readouts))
            raise ValueError(f"{where}: {name!r} is not read out; there are {known}")
    return tuple(names)


def judge(claim: Claim, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The verdict on a claim, from the runs of one size.

    Differences are paired by pre-training seed, and their interval is Student's t.

    Returns:
        dict: ``claim``, its text; ``readout``, ``amount``; ``gain``, the :func:`spread` of the
        differences, None if no seed has both runs; ``verdict``: it *holds* if the whole interval
        is at the amount or above, *does not hold at this scale* if it is below, *holds in part* if
        it is above 0 but has the amount within, and else *cannot be told*, as of one seed.
    """
    of = {label: {run["seed"]: run for run in runs if run["scheme"] == label}
          for label in (claim.better, claim.worse)}  # fmt: skip
    pairs = ((run, of[claim.worse].get(seed)) for seed, run in sorted(of[claim.better].items()))
    gains = [claim.gain(run, other) for run, other in pairs if other is not None]
    gain = spread([value for value in gains if value is not None])
    return {
        "claim": claim.text,
        "readout": claim.readout,
        "amount": claim.amount,
        "gain": gain,
        "verdict": _verdict(gain, claim.amount),
    }


def _verdict(gain: dict[str, Any] | None, amount: float) -> str:
    if gain is None or gain["margin95"] is None:
        return UNKNOWN
    low, high = gain["mean"] - gain["margin95"], gain["mean"] + gain["margin95"]
    if low >= amount:
        return HOLDS
    if high < amount:
        return DOES_NOT
    return IN_PART if low > 0 else UNKNOWN
