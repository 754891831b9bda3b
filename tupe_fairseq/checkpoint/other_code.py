"""The options of a checkpoint of other code: of the TUPE authors, or of fairseq's RoBERTa."""

from types import ModuleType
from typing import Any

from tupe_fairseq.checkpoint import from_authors, from_roberta
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.checkpoint.untrusted_options import DEFAULTS, checked_options, in_brief
from tupe_fairseq.options import ARCHITECTURES, fairseq_name, other_values


def source_of(arch: Any) -> ModuleType | None:
    """The module that knows a checkpoint's names, or None."""
    arch = arch if isinstance(arch, str) else ""
    if arch.startswith("bert"):
        return from_authors
    # in stock fairseq, xlm is a size of RoBERTa
    return from_roberta if arch.startswith("roberta") or arch == "xlm" else None


def options_of(saved: dict[str, Any], source: ModuleType, path: str) -> dict[str, Any]:
    """The options of the tupe_roberta that equals a model of other code."""
    layers, width, heads = ARCHITECTURES["tupe_roberta_base"]  # RoBERTa's, which a file may omit
    sizes = {"num_layers": layers, "embed_dim": width, "num_heads": heads}
    sizes["ffn_embed_dim"] = 4 * width
    defaults = {fairseq_name(name): size for name, size in sizes.items()}
    defaults = {**defaults, **DEFAULTS, **source.DEFAULTS}
    saved = {**saved, "encoder_layerdrop": 0.0}  # only matters in training
    known = {*defaults, *source.FIXED}
    unknown = {x: y for x, y in saved.items() if x.startswith("encoder_") and x not in known}
    if wrong := {**unknown, **other_values(saved, source.FIXED)}:
        words = ", ".join(f"{name}={in_brief(wrong[name])}" for name in sorted(wrong))
        raise CheckpointError(f"options unknown to tupe_roberta: {words}")
    # the length of the table; a Hydra run of fairseq 0.12.2 leaves max_positions empty
    lengths = (saved.get(f"max_{kind}positions") for kind in ("", "source_"))
    length = next(filter(None, lengths), saved.get("tokens_per_sample") or 512)
    options = {name: saved.get(name, default) for name, default in defaults.items()}
    positions = source.position_options(saved)
    options |= {"arch": "tupe_roberta", "task": "masked_lm", "max_positions": length}
    options["classification_head_name"] = saved.get("classification_head_name")
    return checked_options({**options, "tokens_per_sample": length, **positions}, path)
