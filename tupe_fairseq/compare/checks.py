"""Refusing a comparison before anything runs."""

import dataclasses
from typing import Dict, Sequence, Tuple

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.compare.comparison import Comparison
from tupe_fairseq.compare.schemes import FLAGS, Scheme
from tupe_fairseq.position import PositionEncoding
from tupe_fairseq.training.quiet import quiet

# options of fairseq-train beside the command's own words on which resuming, measuring or equal
# conditions rest
_OURS = (
    "disable_validation", "finetune_from_model", "log_file", "max_epoch", "max_valid_steps",
    "model_parallel_size", "no_last_checkpoints", "no_save", "no_save_optimizer_state", "patience",
    "reset_dataloader", "reset_lr_scheduler", "reset_meters", "reset_optimizer", "restore_file",
    "save_dir", "seed", "stop_min_lr", "stop_time_hours", "valid_subset",
    "validate_after_updates", "write_checkpoints_asynchronously",
)  # fmt: skip
# those of the command's words that may be another for all
_FREE = ("adam_betas", "adam_eps", "clip_norm", "lr_scheduler", "max_positions", "num_workers",
         "optimizer", "sample_break_mode", "weight_decay")  # fmt: skip


def check_train_flags(comparison: Comparison, archs: Sequence[str]) -> None:
    """Refuse sizes and flags that fairseq-train does not know, or that are not the user's to set.

    Raises:
        ValueError: the message names the flag.
    """
    from tupe_fairseq.plugin.training_options import architectures, parse_training

    for arch in archs:
        if arch not in architectures():
            raise ValueError(
                f"--arch {arch} is not one of tupe_roberta: {', '.join(architectures())}"
            )
    words = comparison.common_words(archs[0])[1:]
    with quiet("fairseq"):
        before = vars(parse_training(words))
        try:
            after = vars(parse_training([*words, *comparison.train_flags]))
        except ValueError as error:
            raise ValueError(f"--train-flags: {error}") from error
    in_command = {word[2:].replace("-", "_") for word in words if word.startswith("--")}
    of_schemes = {flag[2:].replace("-", "_") for flag in ("--position-encoding", *FLAGS)}
    refused = {*in_command, *_OURS} - {*_FREE} | of_schemes
    changed = [name for name in sorted(refused) if before.get(name) != after.get(name)]
    flags = ["--" + name.replace("_", "-") for name in changed]
    if flags:
        # one option may set others: what was written comes first
        flag = min(flags, key=lambda flag: flag not in comparison.train_flags)
        raise ValueError(
            f"--train-flags may not set {flag}: "
            + (
                "it belongs to a scheme, in --schemes"
                if flag in ("--position-encoding", *FLAGS)
                else "tupe-compare sets it itself, the same for all runs"
            )
        )


def check_schemes(
    comparison: Comparison, arch: str, schemes: Sequence[Scheme]
) -> Dict[Tuple[str, Scheme], int]:
    """Build each scheme's encoder of a size, so that what cannot be built is refused now.

    Returns:
        dict: size and scheme to the number of parameters of its position encoding, over all
        layers.
    Raises:
        ValueError: if a scheme cannot be built, or two are the same; the message names them.
    """
    from tupe_fairseq.plugin.training_options import parse_training

    parameters, known = {}, {}
    for scheme in schemes:
        words = [*comparison.common_words(arch)[1:], *comparison.train_flags, *scheme.words]
        try:
            with quiet("fairseq"):
                config = TupeConfig.from_roberta_options(parse_training(words))
            parameters[arch, scheme] = _position_parameters(config)
        except ValueError as error:
            raise ValueError(f"--schemes {scheme.label!r}: {error}") from error
        options = tuple(sorted(config.position_options.items()))
        if options in known:
            raise ValueError(
                f"--schemes: {scheme.label!r} is the same as {known[options].label!r}; drop one"
            )
        known[options] = scheme
    return parameters


def _position_parameters(config: TupeConfig) -> int:
    # one narrow layer tells all: position encodings do not depend on the feed-forward width
    encoder = TupeEncoder(
        dataclasses.replace(config, num_layers=1, ffn_embed_dim=1, compile_layers=False)
    )
    total = 0
    for root, times in ((encoder.position_bias, 1), (encoder.layers[0], config.num_layers)):
        if root is not None:
            modules = [one for one in root.modules() if isinstance(one, PositionEncoding)]
            found = {id(p): p.numel() for one in modules for p in one.parameters()}
            total += times * sum(found.values())
    return total
