"""Watches the fairseq-train run that a model is part of."""

from fairseq.utils import safe_getattr
from omegaconf import OmegaConf

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.plugin.model.tensorboard import PositionPictures, tensorboard_logdir

# fairseq's default, which may be absent
_DEFAULT = "checkpoint_last.pt"


class RunWatch:
    """Stops a run whose ``--restore-file`` was not loaded, and draws for ``--tensorboard-logdir``.

    fairseq gives a model no hook for either.  The model forwards these calls: fairseq's
    trainer loads a state dict, then asks for the longest sequence; its task calls ``train()`` and
    ``set_num_updates(n)`` at each update, and ``eval()`` to validate.

    Args:
        args (Namespace or DictConfig): the model's options: all flags, or a part of the config.
    """

    def __init__(self, args):
        if OmegaConf.is_config(args):
            of_checkpoints = safe_getattr(args._get_parent(), "checkpoint", {})
        else:
            of_checkpoints = args
        restore_file = safe_getattr(of_checkpoints, "restore_file")
        self._restore_file = None if restore_file == _DEFAULT else restore_file
        logdir = tensorboard_logdir(args)
        self._pictures = None if logdir is None else PositionPictures(logdir)

    def loaded(self) -> None:
        """A state dict was loaded."""
        self._restore_file = None

    def check_restored(self) -> None:
        """Called right after the trainer tried to load.

        Raises:
            FileNotFoundError: if ``--restore-file`` was given and nothing has been loaded; fairseq
                itself would only log the missing file and train from scratch.
        """
        if self._restore_file is not None:
            raise FileNotFoundError(
                f"--restore-file {self._restore_file} does not exist, and nothing was loaded; "
                "correct the path, or drop the flag to train from scratch"
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
