"""Says in words what the cleaning dropped and what the vocabulary does not know."""

# the share of lines, or of pieces, whose loss deserves a warning
_MUCH = 0.01


def dropped_lines(counts: dict[str, int], max_chars: int) -> str:
    """Why lines were dropped, and what to do about it.

    Args:
        counts (dict): of one or several files, as ``clean_file`` returns them.
        max_chars (int): the limit.
    """
    lines = counts["read"] + counts["split_off"]
    if not lines:
        return "there is nothing but blank lines"
    reasons = {
        "invalid_utf8": "not UTF-8 (convert the file first: iconv -f LATIN1 -t UTF-8, or "
        "whatever it is in)",
        "too_long": f"longer than --max-chars, {max_chars:,}",
        "too_short": "shorter than --min-chars",
    }
    parts = [f"{counts[name]:,} {words}" for name, words in reasons.items() if counts[name]]
    return f"of {lines:,} lines, " + (", ".join(parts) or "none is dropped")


def is_much_dropped(counts: dict[str, int]) -> bool:
    """Whether so many lines are not UTF-8 or too long that the text may not be what it seems."""
    dropped = counts["invalid_utf8"] + counts["too_long"]
    return dropped > _MUCH * (counts["read"] + counts["split_off"])


def unknown_pieces(rates: dict[str, float], is_learned: bool) -> list[str]:
    """Warnings of splits for which the vocabulary lacks many characters.

    Args:
        rates (dict): split to the share of its pieces that are unknown.
        is_learned (bool): whether the vocabulary was learned from this text.
    """
    remedy = "is the vocabulary one for this language?"
    if is_learned:
        remedy = "a higher --character-coverage has more of them"
    return [
        f"{rate:.1%} of the pieces of {split} are unknown: characters that the vocabulary lacks; "
        f"{remedy}"
        for split, rate in rates.items()
        if rate > _MUCH
    ]
