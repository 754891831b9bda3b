"""The results of a comparison as markdown."""

from typing import Any

from tupe_fairseq.compare.readout_tables import claim_section, readout_sections
from tupe_fairseq.compare.spread_text import number, perplexity
from tupe_fairseq.compare.tuning_table import tuning_section
from tupe_fairseq.files.markdown import markdown_table


def headline(row: dict[str, Any], baseline: str) -> str:
    """A sentence on how soon a scheme reaches the baseline's final loss."""
    found, label = row["to_baseline"], f"`{row['scheme']}`"
    if found is None:
        return f"{label}: none of its seeds has a finished run of `{baseline}`."
    one_seed = " One seed: a single observation, not a result." if found["of"] == 1 else ""
    if not found["reached"]:
        return f"{label} does not reach it ({_seeds(found['of'])}).{one_seed}"
    # the seeds that reach it are no sample of all
    all_reach = found["reached"] == found["of"]
    text = (
        f"{label} reaches it after {number(found['updates'], ',.0f', margin=all_reach)} updates, "
        f"**{number(found['fraction'], '.2f', margin=all_reach)}** of the baseline's"
    )
    if not all_reach:
        return f"{text}, with {found['reached']} of {_seeds(found['of'])}; not with the others."
    return f"{text} ({_seeds(found['of'])}).{one_seed}"


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def _to_baseline(row: dict[str, Any]) -> str:
    found = row["to_baseline"]
    if found is None:
        return "-"
    if not found["reached"]:
        return "not reached"
    if found["reached"] < found["of"]:
        text = number(found["fraction"], ".2f", margin=False)
        return f"{text}, {found['reached']} of {found['of']}"
    return number(found["fraction"], ".2f")


def report(results: dict[str, Any]) -> str:
    """The text of OUT/results.md.

    Args:
        results (dict): the content of results.json.
    """
    settings = results["settings"]
    updates = f"{settings['updates']:,} updates"
    if settings["seconds"]:
        updates = (
            f"{settings['seconds']:g} seconds of training, each scheme's own number of updates"
        )
    lines = [
        "# Position encodings compared",
        "",
        f"{updates} of {settings['batch_size']} samples of {settings['tokens_per_sample']} tokens.",
        "",
    ]
    for arch in dict.fromkeys(row["arch"] for row in results["summary"]):
        table = [row for row in results["summary"] if row["arch"] == arch]
        lines += [f"## `{arch}`", "", *_size(table, results["baseline"], settings)]
        lines += readout_sections(table)
        lines += claim_section([row for row in results["claims"] if row["arch"] == arch])
        lines += tuning_section([row for row in results["tuning"] if row["arch"] == arch])
    return "\n".join([*lines, "## Settings", "", *_settings(results), ""])


def _size(table: list[dict[str, Any]], baseline: str, settings: dict[str, Any]) -> list[str]:
    """The section of one model size."""
    return [
        f"### Updates to the final validation loss of `{baseline}`",
        "",
        *(f"- {headline(row, baseline)}" for row in table if row["scheme"] != baseline),
        "",
        "### Validation loss",
        "",
        markdown_table(
            [
                "scheme", "seeds", "final loss, bits", "perplexity", "best loss, bits",
                "difference", "fraction of updates",
            ],
            [_losses(row, baseline) for row in table],
        ),
        *_loss_notes(table, baseline),
        "### Cost",
        "",
        markdown_table(
            [
                "scheme", "parameters", "of positions", "updates", "words per second",
                "peak memory, MiB", "training time, s",
            ],
            [_costs(row, baseline) for row in table],
        ),
        *_cost_notes(settings, table),
    ]  # fmt: skip


def _name(row: dict[str, Any], baseline: str) -> str:
    return row["scheme"] + (" (baseline)" if row["scheme"] == baseline else "")


def _losses(row: dict[str, Any], baseline: str) -> list[str]:
    seeds = ", ".join(map(str, row["seeds"]))
    if row["diverged"]:
        seeds += f" (diverged: {', '.join(map(str, row['diverged']))})"
    final = row["final_loss"]
    cells = ["diverged"] * 5
    if final is not None:
        cells = [
            number(final), perplexity(final["mean"]), number(row["best_loss"]),
            "" if row["scheme"] == baseline else _difference(row),
            _to_baseline(row),
        ]  # fmt: skip
    return [_name(row, baseline), seeds, *cells]


def _difference(row: dict[str, Any]) -> str:
    found = row["difference"]
    fewer = found is not None and found["n"] < row["final_loss"]["n"]
    return number(found, "+.3f") + (f", {_seeds(found['n'])}" if fewer else "")


def _costs(row: dict[str, Any], baseline: str) -> list[str]:
    beside = f" ({row['side_by_side']} concurrent)" if row["side_by_side"] > 1 else ""
    return [
        _name(row, baseline),
        "-" if row["parameters"] is None else f"{row['parameters']:,}",
        f"{row['position_parameters']:,}",
        f"{row['updates']:,}",
        number(row["words_per_second"], ",.0f", margin=False) + beside,
        number(row["peak_memory_mib"], ",.0f", margin=False) + beside,
        number(row["seconds"], ",.0f", margin=False) + beside,
    ]


def _loss_notes(table: list[dict[str, Any]], baseline: str) -> list[str]:
    counts = {row["final_loss"]["n"] for row in table if row["final_loss"] is not None}
    notes = [
        "Losses are in bits per masked token on the validation set; the perplexity is that of the "
        "mean loss."
    ]
    if max(counts, default=1) > 1:
        notes.append(
            "With two seeds or more: mean ± half of its 95% interval over the seeds, by Student's "
            "t (least to most); that of a difference is of the differences seed by seed."
        )
    if 2 in counts:
        notes.append("With two seeds the interval is 12.7 standard errors, so it says little.")
    if 1 in counts:
        notes.append("**A scheme with one seed has no spread: its difference may be chance.**")
    notes.append(
        f"The last two columns compare with `{baseline}` of the same seed: "
        "its final loss is subtracted, and the fraction of its updates is given after "
        "which its final loss is reached (interpolated linearly between validations; at "
        "the first validation: there or before)."
    )
    if any(row["diverged"] for row in table):
        notes.append(
            "Diverged runs are left out of the means, and count as not having reached a loss."
        )
    return [" ".join(notes), ""]


def _cost_notes(settings: dict[str, Any], table: list[dict[str, Any]]) -> list[str]:
    memory = (
        "peak memory is the process's peak resident memory, Python and torch included"
        if settings["cpu"]
        else "peak memory is the GPU memory that torch had allocated, from fairseq's gb_free (in "
        "steps of 0.1 GiB)"
    )
    notes = [
        "Words per second (tokens without padding) are each run's median over its validation "
        f"intervals; training time excludes start-up, validation and saving; {memory}."
    ]
    if any(row["side_by_side"] > 1 for row in table):
        notes.append(
            '**Speed, memory and time marked "concurrent" were measured while other '
            "runs used the machine; a run alone has other values.**"
        )
    return [" ".join(notes), ""]


def _settings(results: dict[str, Any]) -> list[str]:
    settings = results["settings"]
    versions = ", ".join(f"{name} {text}" for name, text in settings["versions"].items())
    flags = " ".join(settings["train_flags"])
    rate = "of each scheme (above)" if settings["lr"] is None else settings["lr"]
    warmup = f"{settings['warmup_updates']:,} updates"
    every = f"{settings['validate_every']:,} updates"
    if settings["seconds"]:
        warmup = every = "5% of the updates"
    return [
        "Equal in all runs: data, optimizer, schedule, batch size, dropout, threads; and, between "
        "runs with the same seed, the order of the batches and the masks, in training and "
        "validation (fairseq draws both from --seed). Initial weights and dropout are drawn from "
        "the same seed, but schemes with different parameters draw different numbers.",
        "",
        f"- learning rate {rate} after {warmup} of warm-up, then linear to 0; validation every "
        f"{every}",
        f"- further flags of fairseq-train: {f'`{flags}`' if flags else 'none'}",
        *_read_out(settings["readouts"]),
        f"- {'CPU' if settings['cpu'] else 'GPU'}"
        + (", fp16" if settings["fp16"] else "")
        + f", threads: {settings['threads']}; {versions}",
        f"- {'; '.join(results['machines'])}",
        "- data: dict.txt " + settings["data"]["dict.txt"][:12]
        + ", valid.bin " + settings["data"]["valid.bin"][:12]
        + ", train.bin " + ", ".join(text[:12] for text in settings["data"]["train.bin"])
        + " (sha256)",
    ]  # fmt: skip


def _read_out(readouts: dict[str, Any]) -> list[str]:
    """What the tables of pairs and tasks depend on."""
    lines = []
    if "pairs" in readouts:
        first = readouts["pairs_per_file"]
        lines.append(f"- minimal pairs: {f'the first {first}' if first else 'all'} of each file")
    if "tasks" in readouts:
        lines.append(f"- flags of tupe-finetune: `{' '.join(readouts['finetune_flags'])}`")
    return lines
