"""Watches the fairseq-train run that a model is part of."""

import functools
import logging

import torch
from fairseq.utils import safe_getattr
from omegaconf import OmegaConf

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.plugin.model.cpu_workers import allow_cpu_workers
from tupe_fairseq.plugin.model.hastened_adam import hasten_adam
from tupe_fairseq.plugin.model.save_dir_guard import guard_save_dir
from tupe_fairseq.plugin.model.tensorboard import PositionPictures, tensorboard_logdir
from tupe_fairseq.plugin.on_import import torch_is_at_least

logger = logging.getLogger(__name__)

# the flags that name a file to load, with fairseq's default, which may be absent
_FLAGS = {"restore_file": "checkpoint_last.pt", "finetune_from_model": None}


@functools.lru_cache(maxsize=None)
def _warn_once(to_load: str, version: str) -> None:
    """Say, before fairseq gives a file to ``torch.load``, what that can do.

    Before torch 2.6 it runs whatever code the file names; and up to 2.9 the unpickler of
    ``weights_only=True`` could be made to corrupt memory (CVE-2026-24747).
    """
    logger.warning(
        "%s is read by torch %s, in which a crafted file can %s (mended in torch 2.10): give only "
        "files that you trust, and exchange models as safetensors (tupe-export, tupe-convert)",
        to_load,
        version,
        "corrupt memory" if torch_is_at_least(2, 6) else "run code",
    )


class RunWatch:
    """Stops a run that did not load the file it was told to; draws for ``--tensorboard-logdir``;
    has its ``--save-dir`` guarded, several processes on the CPU allowed, and Adam hastened there.

    fairseq gives a model no hook for any of them.  The model forwards these calls: fairseq's
    trainer loads a state dict, then asks for the longest sequence; its task calls ``train()`` and
    ``set_num_updates(n)`` at each update, and ``eval()`` to validate.

    Args:
        args (Namespace or DictConfig): the model's options: all flags, or a part of the config.
    """

    def __init__(self, args):
        guard_save_dir()
        allow_cpu_workers()
        hasten_adam()
        if OmegaConf.is_config(args):
            of_checkpoints = safe_getattr(args._get_parent(), "checkpoint", {})
        else:
            of_checkpoints = args
        given = {name: safe_getattr(of_checkpoints, name) for name in _FLAGS}
        self._to_load = [
            f"--{name.replace('_', '-')} {path}"
            for name, path in given.items()
            if path not in (None, _FLAGS[name])
        ]
        if self._to_load and not torch_is_at_least(2, 10):
            _warn_once(self._to_load[0], torch.__version__)
        logdir = tensorboard_logdir(args)
        self._pictures = None if logdir is None else PositionPictures(logdir)

    def loaded(self) -> None:
        """A state dict was loaded."""
        self._to_load = []

    def check_restored(self) -> None:
        """Called right after the trainer tried to load.

        Raises:
            FileNotFoundError: if ``--restore-file`` or ``--finetune-from-model`` was given and
                nothing has been loaded; fairseq itself trains from scratch if the first is missing
                or either is a folder.
        """
        if self._to_load:
            raise FileNotFoundError(
                f"{self._to_load[0]} is not a file, and nothing was loaded; correct the path, or "
                "drop the flag to train from scratch"
            )

    def mode(self, is_training: bool, encoder: TupeEncoder) -> None:
        """The model was put into training or evaluation mode."""
        if self._pictures is not None:
            if is_training:
                self._pictures.train()
            else:
                self._pictures.eval(encoder)

    def set_num_updates(self, num_updates: int) -> None:
        """An update begins, after ``num_updates`` others."""
        if self._pictures is not None:
            self._pictures.set_num_updates(num_updates)
