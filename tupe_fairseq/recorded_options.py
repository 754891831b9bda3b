"""The options that a state dict records, so that it is not loaded into another model."""

import json
from typing import Any, Dict

import torch
from torch import Tensor, nn

from tupe_fairseq.config import TupeConfig

NAME = "position_version"
_DAMAGED = f"the checkpoint's record of its options ({NAME}) is damaged"


class RecordedOptions(nn.Module):
    """A module whose state dict has the ``record`` of its config, which is compared on loading.

    The record is a buffer, because whoever loads a state dict sees nothing else of the file; of
    int64 and with "version" in its name, so that averaging checkpoints, half precision and
    fairseq's moving average leave it alone.  It is JSON text, one character a number.

    A subclass sets ``config`` and calls :meth:`record_options` in its ``__init__``.
    """

    config: TupeConfig
    position_version: Tensor

    def record_options(self) -> None:
        self.register_buffer(NAME, self._record())

    def reset_parameters(self) -> None:
        """Record the options again, as after ``to_empty``; the parts have methods of their own."""
        with torch.no_grad():
            self.position_version.copy_(self._record())

    def load_state_dict(self, state_dict, strict: bool = True, *args, **kwargs):
        """As ``nn.Module``'s; see :meth:`check_whole`."""
        if strict:
            self.check_whole(state_dict)
        return super().load_state_dict(state_dict, strict, *args, **kwargs)

    def check_whole(self, state_dict: Dict[str, Tensor], prefix: str = "") -> None:
        """Refuse, with the reason, a state dict that is to be loaded whole but is not ours.

        A part of one (``strict=False``) needs no record: who trains adapters, or averages as
        fairseq's ``--store-ema`` does, loads without.

        Args:
            state_dict (dict): tensors by name.
            prefix (str): the prefix of this module's names.
        Raises:
            ValueError: if it does not record its options.
        """
        # not in _load_from_state_dict, which torch never tells that a part is loaded
        if prefix + NAME not in state_dict:
            raise ValueError(
                "the checkpoint holds no position options, so it was not written by this "
                "project; tupe-convert converts the TUPE authors' checkpoints"
            )

    def _load_from_state_dict(self, state_dict, prefix, *args):
        saved = state_dict.get(prefix + NAME)
        if saved is not None:
            self.config.check_record(_read(saved))
            # an older record may be shorter
            state_dict[prefix + NAME] = self._record().to(saved.device)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _record(self) -> Tensor:
        return torch.tensor(list(json.dumps(self.config.record, sort_keys=True).encode()))


def _read(saved: Tensor) -> Dict[str, Any]:
    try:
        # whole numbers also if somebody has cast the whole state dict to half precision
        record = json.loads(bytes(saved.long().flatten().tolist()).decode())
    except (RecursionError, ValueError) as error:
        raise ValueError(_DAMAGED) from error
    if not isinstance(record, dict):
        raise ValueError(_DAMAGED)
    return record
