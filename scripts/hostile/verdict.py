"""What an outcome is worth: as it should be, or which fault it shows."""

import re

import numpy as np
from case import CANARY, REFUSED, SAME
from forked_trial import MIB, SECONDS, Outcome
from readers import Reader

#: the verdicts that are as they should be
GOOD = ("refused", "accepted: the same", "accepted: another value", "refused by fairseq")
_LONGEST_MESSAGE = 1000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

Contents = dict[str, tuple[int, bytes]]


def verdict(
    outcome: Outcome, reader: Reader, right: str, before: Contents, after: Contents, sound: bytes
) -> tuple[str, str]:
    """A verdict, and what it is about.

    Args:
        outcome (Outcome): of the trial.
        reader (Reader): who read it.
        right (str): REFUSED, SAME or VALUE.
        before, after (dict): the files, before and after.
        sound (bytes): what the reader gives for the sound input.
    """
    if CANARY in after:
        return "code ran", CANARY
    if outcome.mib > MIB:
        return "memory", f"{outcome.mib:.0f} MiB"
    if outcome.code is None or outcome.seconds > SECONDS:
        return "hang", f"{outcome.seconds:.0f} s"
    if outcome.code < 0:
        return "crash", f"signal {-outcome.code}"
    if outcome.code == 0:
        return _of_accepted(outcome, reader, right, after, sound)
    return _of_refused(outcome, reader, before, after)


def _of_accepted(outcome, reader, right, after, sound) -> tuple[str, str]:
    given = reader.result(after, outcome.output)
    if given is None:
        return "nothing written", "exit code 0"
    if reader.gives_numbers and not _finite(given):
        return "silent", "its result has NaN or infinity"
    if right == REFUSED:
        return "silent", "accepted"
    if given == sound:
        return "accepted: the same", ""
    if right == SAME:
        return "silent", "another result"
    return "accepted: another value", ""


def _of_refused(outcome, reader, before, after) -> tuple[str, str]:
    changed = sorted(
        name
        for name in {*before, *after}
        if before.get(name) != after.get(name) and not reader.may_leave(name)
    )
    if changed:
        return "partial", ", ".join(changed)
    if reader.of_fairseq:
        return "refused by fairseq", _last(outcome.output)
    said = [line for line in outcome.output.splitlines() if f"{reader.program}: error: " in line]
    last = _last(outcome.output)
    if "Traceback (most recent call last)" in outcome.output or outcome.code != 2:
        return "traceback", last
    if len(said) != 1 or said[0] != last:
        return "not one line", last
    if len(last) > _LONGEST_MESSAGE:
        return "long line", f"{len(last)} characters"
    if reader.function is None and _CONTROL.search(last):
        return "control characters", repr(last)
    if not any(word in last for word in reader.words(before)):
        return "vague", last
    return "refused", last


def _last(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _finite(given: bytes) -> bool:
    if given.startswith(b"\x93NUMPY"):
        return bool(np.isfinite(np.frombuffer(given[128:], dtype="<f4")).all())
    return not re.search(rb"(?<![\w.])(nan|inf)(?![\w.])", given)
