"""Stores the options of an encoder or decoder in its state dict."""

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tupe_fairseq.options import TupeConfig
from tupe_fairseq.position import get_position_encoding

RECORD = "position_version"
OFF = "not given"
#: options that older checkpoints do not record
_LATER = ("activation_fn", "max_positions")


def recorded_options(config: TupeConfig) -> dict[str, Any]:
    """The options that tensor shapes do not tell. Options that are off are left out."""
    encoding = get_position_encoding(config.position_encoding)
    options = {**encoding.defaults(config.rel_pos), **config.position_options}
    if encoding.max_positions_is_unit:
        options["max_positions"] = config.max_positions
    for name in ("num_heads", "activation_fn"):
        options[name] = getattr(config, name)
    return {"scheme": config.position_encoding, **{name: x for name, x in options.items() if x}}


def _option(name: str) -> str:
    return "position_encoding" if name == "scheme" else name


def check_record(config: TupeConfig, record: Tensor, shown: Callable[[str], str] = _option) -> None:
    """Refuse weights with other options: they would load, and silently compute something else.

    ``shown`` gives an option's name in the message, such as its flag.
    """
    # to integers, in case the whole state dict was cast to half precision
    saved, own = json.loads(bytes(record.long().tolist()).decode()), recorded_options(config)
    defaults = get_position_encoding(config.position_encoding).defaults(config.rel_pos)
    pairs = {  # an older checkpoint does not know an option; the model then has its default
        name: (saved.get(name) or defaults.get(name) or OFF, own.get(name, OFF))
        for name in {**saved, **own}
    }
    differing = [
        f"{shown(name)} is {old} in the checkpoint and {new} in the model"
        for name, (old, new) in sorted(pairs.items())
        if old != new and not (name in _LATER and name not in saved)
    ]
    if differing:
        raise ValueError(f"position options differ: {'; '.join(differing)}")


def options_record(config: TupeConfig) -> Tensor:
    """The options as JSON, one character per element.

    It is a buffer, because code that loads a state dict sees nothing else of the file. It is int64
    and has "version" in its name, so that checkpoint averaging and half precision leave it alone.
    """
    return torch.tensor(list(json.dumps(recorded_options(config), sort_keys=True).encode()))


class RecordsOptions(nn.Module):
    """A module whose state dict records its ``config``, and does not load into other configs."""

    config: TupeConfig
    position_version: Tensor

    def register_record(self) -> None:
        self.register_buffer(RECORD, options_record(self.config))

    def _load_from_state_dict(self, state_dict, prefix, *args):
        saved = state_dict.get(prefix + RECORD)
        if saved is not None:
            check_record(self.config, saved)
            state_dict[prefix + RECORD] = options_record(self.config)  # an older record is shorter
        super()._load_from_state_dict(state_dict, prefix, *args)

    def reset_parameters(self) -> None:
        """Record the options again, for example after ``to_empty``."""
        self.position_version.copy_(options_record(self.config))

    def load_state_dict(self, state_dict, strict: bool = True, *args, **kwargs):
        """As in ``nn.Module``, but with ``strict`` the state dict must record its options."""
        if strict:
            self.check_whole(state_dict)
        return super().load_state_dict(state_dict, strict, *args, **kwargs)

    def check_whole(self, state_dict: dict[str, Tensor], prefix: str = "") -> None:
        """Refuse a whole state dict (``strict=True``) without recorded options."""
        if prefix + RECORD not in state_dict:
            raise ValueError(
                "the checkpoint holds no position options, so it was not written by this project; "
                "tupe-convert converts checkpoints of the TUPE authors and of fairseq's RoBERTa"
            )
