"""The learning rates of a comparison as markdown."""

from typing import Any

from tupe_fairseq.files.markdown import markdown_table


def tuning_section(rows: list[dict[str, Any]]) -> list[str]:
    """How the learning rates of one size were chosen.

    Args:
        rows (list of dict): of :func:`tupe_fairseq.compare.tuning.read_tuning`.
    Returns:
        list of str: lines of markdown; none if there are no rows.
    """
    if not rows:
        return []
    rates = [f"{rate['lr']:g}" for rate in rows[0]["rates"]]

    def cells(row: dict[str, Any]) -> list[str]:
        losses = [rate["final_loss"] for rate in row["rates"]]
        shown = ["diverged" if loss is None else f"{loss:.3f}" for loss in losses]
        return [row["scheme"], *shown, f"{row['lr']:g}" + (" (edge)" if row["at_edge"] else "")]

    notes = [
        f"Final validation loss, in bits, of runs of {rows[0]['updates']:,} updates with the whole "
        "schedule and one seed (the first); the other runs have the rate with the lowest."
    ]
    if any(row["at_edge"] for row in rows):
        notes.append(
            "**Edge: the lowest or the highest rate is the best, so one beyond it may be better.**"
        )
    return [
        "### Learning rates",
        "",
        markdown_table(["scheme", *rates, "taken"], [cells(row) for row in rows]),
        " ".join(notes),
        "",
    ]
