"""Makes report.json, the record of prepared pre-training data."""

import hashlib
from typing import Any

from tupe_fairseq.text.treatment import AsItIs, TextTreatment

DROPPED = ("invalid_utf8", "too_short", "too_long", "duplicate", "no_pieces")


def build_report(
    options,
    cleaned: dict[str, int],
    split: dict[str, dict[str, int]],
    encoded: dict[str, list[dict[str, int]]],
    vocabulary: dict[str, Any],
    dictionary: str,
) -> dict[str, Any]:
    """Put the counts of all steps together.

    ``lines`` adds up: read + split_off + cut - joined - all that were dropped = train + valid +
    test.  ``tokens`` counts pieces, without the </s> of each line.  ``rows``, if the text is a
    field of rows: ``no_text`` are those of which no line is left before duplicates are dropped.

    Args:
        options (Namespace): of tupe-prepare-pretrain.
        cleaned, split, encoded, vocabulary: results of the steps; ``cleaned`` with the duplicates.
        dictionary (str): the dict.txt.
    """

    def total(split, key):
        return sum(counts[key] for counts in encoded[split])

    with open(dictionary, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    order = [name for name in ("train", "valid", "test") if name in encoded]
    no_pieces = sum(total(name, "no_pieces") for name in order)
    counts = {**cleaned, "no_pieces": no_pieces}
    treatment = AsItIs() if options.vocabulary else TextTreatment(options.lowercase)
    given = "given" if options.sentencepiece_model else options.model_type
    rows = {"read": cleaned["rows"], "no_text": cleaned["rows"] - cleaned["documents"]}
    return {
        "text_treatment": treatment.to_dict(),
        **({} if options.text_field is None else {"rows": rows}),
        "documents": {
            "read": cleaned["documents"],
            **{name: split[name]["documents"] for name in order},
        },
        "lines": {
            "read": cleaned["read"],
            "split_off": cleaned["split_off"],
            "joined": sum(split[name]["joined"] for name in order),
            "cut": sum(total(name, "cut") for name in order),
            **{name: total(name, "lines") for name in order},
        },
        "tokens": {name: total(name, "tokens") for name in order},
        "dropped": {reason: counts[reason] for reason in DROPPED},
        "unknown_rate": {
            name: total(name, "unknown") / max(1, total(name, "tokens")) for name in order
        },
        "vocabulary": {
            "pieces": vocabulary["pieces"],
            "dictionary": vocabulary["dictionary"],
            "type": vocabulary.get("type", given),
            "sha256": digest,
        },
        "settings": {
            "text_field": options.text_field,
            "split_sentences": options.split_sentences,
            "join_short": options.join_short,
            "min_chars": options.min_chars,
            "max_chars": options.max_chars,
            "tokens_per_sample": options.tokens_per_sample,
            "shards": options.shards,
        },
    }


def summary(report: dict[str, Any]) -> list[str]:
    """The report in a few lines."""

    def numbers(counts):
        return ", ".join(f"{name} {count:,}" for name, count in counts.items())

    rates = ", ".join(f"{name} {100 * rate:.4f}%" for name, rate in report["unknown_rate"].items())
    rows = [f"rows: {numbers(report['rows'])}"] if "rows" in report else []
    return [
        *rows,
        f"documents: {numbers(report['documents'])}",
        f"lines: {numbers(report['lines'])}",
        f"dropped lines: {numbers(report['dropped'])}",
        f"tokens: {numbers(report['tokens'])}",
        f"unknown: {rates}",
        f"vocabulary: {report['vocabulary']['dictionary']:,} entries, including fairseq's own and "
        "<mask>",
    ]
