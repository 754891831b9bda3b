"""What was read out of the models of a comparison, and the claims, as markdown."""

from typing import Any

from tupe_fairseq.compare.claims import LOSS, UPDATES
from tupe_fairseq.compare.readouts import PAIRS
from tupe_fairseq.compare.spread_text import mean_and_margin
from tupe_fairseq.files.markdown import markdown_table


def readout_sections(table: list[dict[str, Any]]) -> list[str]:
    """Minimal pairs and fine-tuned tasks of one size.

    Args:
        table (list of dict): of :func:`tupe_fairseq.compare.aggregate.summarize_schemes`.
    Returns:
        list of str: lines of markdown; none if nothing was read out.
    """
    names = list(dict.fromkeys(name for row in table for name in row["measures"]))
    phenomena = [name for name in names if name.startswith(f"{PAIRS}/")]
    tasks = [name for name in names if name not in (LOSS, PAIRS, *phenomena)]
    lines: list[str] = []
    if PAIRS in names:
        lines += ["### Minimal pairs", ""]
        lines += [_by_scheme(table, {PAIRS: "all pairs"})]
        lines += [_by_measure(table, [PAIRS, *phenomena])] if phenomena else []
        lines += ["Pairs whose acceptable sentence has the higher pseudo-log-likelihood, in %.", ""]
    if tasks:
        lines += ["### Fine-tuning", ""]
        for pooling in dict.fromkeys(name.rpartition("/")[2] for name in tasks):
            of = {name: name for name in tasks if name.endswith(f"/{pooling}")}
            lines += [_by_scheme(table, of)]
        lines += [
            "TASK/POOLING: the metric of the task on its development set x 100, for each "
            "pre-training seed the mean over the fine-tuning seeds.",
            "",
        ]
    return lines


def _by_scheme(table: list[dict[str, Any]], columns: dict[str, str]) -> str:
    rows = [
        [row["scheme"], *(mean_and_margin(row["measures"].get(name), ".1f") for name in columns)]
        for row in table
    ]
    return markdown_table(["scheme", *columns.values()], rows)


def _by_measure(table: list[dict[str, Any]], names: list[str]) -> str:
    """A row for each phenomenon; the means alone."""
    rows = []
    for name in names:
        found = [row["measures"].get(name) for row in table]
        cells = ["-" if one is None else f"{one['mean']:.1f}" for one in found]
        rows.append([name.rpartition("/")[2] if name != PAIRS else "all pairs", *cells])
    return markdown_table(["phenomenon", *(row["scheme"] for row in table)], rows)


def claim_section(rows: list[dict[str, Any]]) -> list[str]:
    """The claims of one size.

    Args:
        rows (list of dict): of :func:`tupe_fairseq.compare.claims.judge`.
    Returns:
        list of str: lines of markdown; none if there are no claims.
    """
    if not rows:
        return []
    cells = [
        [
            row["claim"],
            mean_and_margin(row["gain"], "+.3f" if row["readout"] in (LOSS, UPDATES) else "+.1f"),
            "0" if row["gain"] is None else str(row["gain"]["n"]),
            row["verdict"],
        ]
        for row in rows
    ]
    return [
        "### Claims",
        "",
        markdown_table(["claim", "better by", "seeds", "verdict"], cells),
        "Differences are taken seed by seed (mean ± half of the 95% interval over the seeds, by "
        "Student's t). A claim holds if the whole interval is at its amount or above, does not "
        "hold at this scale if it is below, holds in part if it is above 0 with the amount within; "
        "else, and with one seed, it cannot be told. Loss is in bits, updates in shares of the "
        "other's, all else in points.",
        "",
    ]
