"""The model card of a folder: what the model is, how to use it, and what was measured."""

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from tupe_fairseq.export.folder_config import NAMES, Head
from tupe_fairseq.export.parity import Parity
from tupe_fairseq.export.sample_texts import LIMIT
from tupe_fairseq.export.unlisted_pieces import FIELD
from tupe_fairseq.export.usage import pipeline_of, usage
from tupe_fairseq.files.markdown import markdown_table
from tupe_fairseq.files.record import check_record
from tupe_fairseq.labelled.task_description import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING
from tupe_fairseq.options import POSITION_OPTIONS, flag
from tupe_fairseq.version import __version__

# what is told of a report.json, of the one kind or the other
_TASK = {"task": str, "splits": {str: {"rows": int}}}
_PRETRAINING = {"lines": {str: int}, "tokens": {str: int}, "unknown_rate": {str: float}}
# the kinds of vocabularies, in words
_VOCABULARIES = {
    "fastbpe": "fastBPE, as the TUPE authors used it: lower case, tokenized by Moses' rules",
    "gpt2": "GPT-2's byte-level BPE",
    "sentencepiece": "SentencePiece",
}
# what a head does, in words
_ANSWERS = {
    CLASSIFICATION: "tells {} classes apart",
    MULTILABEL: "tells which of {} labels a text has, any number of them (with sigmoid, above 0.5)",
    TAGGING: "gives each word one of {} tags, at its first token",
}


class CardFacts(NamedTuple):
    """What a card tells.

    Args:
        name (str): of the folder.
        license (str, optional), languages (list of str): as given.
        config (dict): of config.json.
        parameters (int): how many numbers the model has.
        head (Head, optional): its classification head.
        vocabulary (str): the kind.
        report (dict, optional): what tupe-prepare-pretrain or tupe-prepare-glue recorded.
        onnx (dict): file for onnxruntime -> largest difference from the folder's model.
        parity (Parity): what was measured.
        sample (str): on what, in words.
    """

    name: str
    license: str | None
    languages: Sequence[str]
    config: dict[str, Any]
    parameters: int
    head: Head | None
    vocabulary: str
    report: dict[str, Any] | None
    onnx: dict[str, float]
    parity: Parity
    sample: str


def model_card(facts: CardFacts) -> str:
    """The text of README.md."""
    parts = [
        _front_matter(facts),
        f"# {facts.name}",
        _summary(facts),
        usage(facts.name, facts.config, facts.head, list(facts.onnx)),
        "## Text",
        _text(facts),
        "## Options",
        _options(facts.config),
        "## Data",
        _data(facts.report),
        "## Measured",
        _measured(facts),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _is_ours(config: dict[str, Any]) -> bool:
    return config["model_type"] == "tupe"


def _front_matter(facts: CardFacts) -> str:
    tags = ["tupe"] if _is_ours(facts.config) else ["roberta"]
    lines = ["---", f"license: {facts.license or 'unknown'}"]
    if facts.languages:
        lines += ["language:", *(f"- {one}" for one in facts.languages)]
    lines += [
        "library_name: transformers",
        f"pipeline_tag: {pipeline_of(facts.head)}",
        "tags:",
        *(f"- {tag}" for tag in [*tags, "fairseq", "sentence-transformers"]),
    ]
    if _is_of_glue(facts.report):
        lines += ["datasets:", "- nyu-mll/glue"]
    return "\n".join([*lines, "---"])


def scheme(config: dict[str, Any]) -> str:
    """The position encoding in words."""
    if not _is_ours(config):
        return "learned positions (RoBERTa's)"
    name = config["position_encoding"]
    given = [
        flag(option) + ("" if value is True else f" {value}")
        for option, value in config.items()
        if option in POSITION_OPTIONS and value
    ]
    words = f"the position encoding {name}" + (f" ({', '.join(given)})" if given else "")
    return {"tupe": f"TUPE-{'R' if config['rel_pos'] else 'A'}: "}.get(name, "") + words


def _summary(facts: CardFacts) -> str:
    config = facts.config
    text = (
        f"A Transformer encoder with {scheme(config)}; {config['num_hidden_layers']} layers, width "
        f"{config['hidden_size']}, {config['num_attention_heads']} heads, {facts.parameters:,} "
        f"parameters, {config['vocab_size']:,} words, sequences of up to {_length(config)} tokens. "
        f"Trained with fairseq, exported by tupe_fairseq {__version__}."
    )
    if facts.head is not None and facts.head.kind == REGRESSION:
        text += f"\n\nIts head `{facts.head.name}` gives a score."
        if facts.report and facts.report.get("task") == "STS-B":
            text += " It was trained on scores divided by 5: multiply it by 5."
        elif _has(facts.report, {"description": {"scale": [float]}}):
            low, high = facts.report["description"]["scale"]
            text += f" It was trained on scores from {low:g} to {high:g} brought to 0 to 1."
    elif facts.head is not None:
        answer = _ANSWERS[facts.head.kind].format(len(facts.head.labels))
        text += f"\n\nIts head `{facts.head.name}` {answer}: {', '.join(facts.head.labels[:20])}."
    if facts.license is None:
        text += "\n\nWhoever exported it has not said under which license it is."
    return "\n\n".join(map(_wrapped, text.split("\n\n")))


def _length(config: dict[str, Any]) -> int:
    return config["max_position_embeddings"] - (0 if _is_ours(config) else 2)


def _text(facts: CardFacts) -> str:
    text = f"The vocabulary is {_VOCABULARIES[facts.vocabulary]}, in `tokenizer.json`."
    if facts.config.get(FIELD):
        text += (
            f" Of its pieces {facts.config[FIELD]:,} were unknown in training: they have the "
            "vector of `<unk>`."
        )
    treatment = (facts.report or {}).get("text_treatment")
    if isinstance(treatment, dict):
        unicode_form, lower = treatment.get("unicode"), treatment.get("lowercase")
        if unicode_form == "NFC" or lower:
            text += (
                " The training text was brought to Unicode's form NFC"
                f"{' and made lower case' if lower else ''}, without control characters: text that "
                "is given to the model should be, too."
            )
    return _wrapped(text)


def _options(config: dict[str, Any]) -> str:
    names = [name for name in NAMES if config.get(name) not in (None, False)]
    rows = [[f"`{name}`", str(config[name])] for name in names]
    return markdown_table(["option", "value"], rows)


def _data(report: dict[str, Any] | None) -> str:
    if _has(report, _TASK):
        rows = [[name, f"{split['rows']:,}"] for name, split in report["splits"].items()]
        table = markdown_table(["split", "sentences or pairs"], rows)
        of_glue = ", of GLUE" if _is_of_glue(report) else ""
        return f"Fine-tuned on {report['task']}{of_glue}:\n\n{table}"
    if not _has(report, _PRETRAINING):
        return "The data that it was trained on is not recorded."
    lines, unknown = report["lines"], report["unknown_rate"]
    rows = [
        [name, f"{lines.get(name, 0):,}", f"{tokens:,}", f"{100 * unknown.get(name, 0):.4f}%"]
        for name, tokens in report["tokens"].items()
    ]
    return markdown_table(["split", "lines", "tokens", "unknown"], rows)


def _is_of_glue(report: Any) -> bool:
    """Reports of 0.1.0 are without a description, and of GLUE."""
    has_own = _has(report, {"description": {"benchmark": str}})
    return _has(report, _TASK) and (not has_own or bool(report["description"]["benchmark"]))


def _has(report: Any, shape: Any) -> bool:
    try:
        check_record(report, shape, "report")
    except ValueError:
        return False
    return True


def _measured(facts: CardFacts) -> str:
    parity = facts.parity
    rows = [[f"`{kind}`", f"{value:.1e}"] for kind, value in parity.differences.items()]
    # of which the folder's own model is the measure
    rows += [[f"`{name}`", f"{value:.1e}"] for name, value in facts.onnx.items()]
    versions = parity.versions
    text = (
        f"The folder was compared with the checkpoint as fairseq computes it, on "
        f"{parity.sentences} {facts.sample} ({parity.tokens:,} tokens, the longest "
        f"{parity.longest}), in padded batches of unequal lengths and in float32, with "
        f"transformers {versions['transformers']}, torch {versions['torch']} and Python "
        f"{versions['python']}. The tokenizer gave the same ids for every text and every pair. "
        f"The largest difference of a logit ({LIMIT:.0e} is allowed):"
    )
    return _wrapped(text) + "\n\n" + markdown_table(["class, or file", "difference"], rows)
