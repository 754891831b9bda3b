"""Checks a comparison before anything runs."""

import dataclasses
from collections.abc import Sequence

from tupe_fairseq.compare.comparison import Comparison
from tupe_fairseq.compare.parse_schemes import FLAGS, Scheme
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.fairseq_runs.command import parse_training
from tupe_fairseq.options import TupeConfig

# options of fairseq-train, in addition to those of the command, on which resuming, measuring or
# equal conditions depend
_OURS = (
    "disable_validation", "finetune_from_model", "log_file", "max_epoch", "max_valid_steps",
    "model_parallel_size", "no_last_checkpoints", "no_save", "no_save_optimizer_state", "patience",
    "reset_dataloader", "reset_lr_scheduler", "reset_meters", "reset_optimizer", "restore_file",
    "save_dir", "seed", "stop_min_lr", "stop_time_hours", "valid_subset",
    "validate_after_updates", "write_checkpoints_asynchronously",
)  # fmt: skip
# options of the command that may be changed for all runs
_FREE = ("adam_betas", "adam_eps", "clip_norm", "lr_scheduler", "max_positions", "num_workers",
         "optimizer", "sample_break_mode", "weight_decay")  # fmt: skip


def check_train_flags(comparison: Comparison, arch: str) -> None:
    """Refuse flags that fairseq-train does not know, or that the user may not set.

    Args:
        comparison (Comparison): its schedule and rate do not matter, as runs may have others.
        arch (str): one of its sizes; which one makes no difference.

    Raises:
        ValueError: the message names the flag.
    """
    # flags that are given the value of one of two settings are not given that of the other
    others = dataclasses.replace(
        comparison,
        updates=comparison.updates + 1,
        warmup_updates=comparison.warmup_updates + 1,
        validate_every=comparison.validate_every + 1,
        lr=comparison.lr / 2,
    )
    of_schemes = {flag[2:].replace("-", "_") for flag in ("--position-encoding", *FLAGS)}
    changed = set()
    for settings in (comparison, others):
        words = settings.common_words(arch)[1:]
        before = vars(parse_training(words))
        try:
            after = vars(parse_training([*words, *comparison.train_flags]))
        except ValueError as error:
            raise ValueError(f"--train-flags: {error}") from error
        in_command = {word[2:].replace("-", "_") for word in words if word.startswith("--")}
        refused = {*in_command, *_OURS} - {*_FREE} | of_schemes
        changed |= {name for name in refused if before.get(name) != after.get(name)}
    flags = ["--" + name.replace("_", "-") for name in sorted(changed)]
    if flags:
        # one option may set others: name the one that was written
        flag = min(flags, key=lambda flag: flag not in comparison.train_flags)
        raise ValueError(
            f"--train-flags may not set {flag}: "
            + (
                "it belongs to a scheme, in --schemes"
                if flag in ("--position-encoding", *FLAGS)
                else "tupe-compare sets it for all runs"
            )
        )


def check_schemes(
    comparison: Comparison, arch: str, schemes: Sequence[Scheme]
) -> dict[tuple[str, Scheme], int]:
    """Build each scheme's encoder of a size, to refuse now what cannot be built.

    Returns:
        dict: size and scheme to the number of parameters of its position encoding, over all
        layers.
    Raises:
        ValueError: if a scheme cannot be built, or two are the same; the message names them.
    """
    parameters, known = {}, {}
    for scheme in schemes:
        words = [*comparison.common_words(arch)[1:], *comparison.train_flags, *scheme.words]
        try:
            config = TupeConfig.from_roberta_options(parse_training(words))
            parameters[arch, scheme] = _position_parameters(config)
        except ValueError as error:
            raise ValueError(f"--schemes {scheme.label!r}: {error}") from error
        options = tuple(sorted(config.record.items()))
        if options in known:
            raise ValueError(
                f"--schemes: {scheme.label!r} is the same as {known[options].label!r}; drop one"
            )
        known[options] = scheme
    return parameters


def _position_parameters(config: TupeConfig) -> int:
    # one layer with a narrow feed-forward network is enough: position encodings do not depend on
    # its width
    encoder = TupeEncoder(
        dataclasses.replace(config, num_layers=1, ffn_embed_dim=1, compile_layers=False)
    )
    return sum(
        parameter.numel() * (1 if layer is None else config.num_layers)
        for layer, position in encoder.position_encodings().items()
        for parameter in position.parameters()
    )
