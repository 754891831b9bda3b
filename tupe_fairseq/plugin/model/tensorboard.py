"""Pictures of the position bias in TensorBoard, once at each validation."""

import logging
import os

from fairseq.distributed.utils import get_global_rank
from fairseq.logging import progress_bar
from fairseq.utils import safe_getattr
from omegaconf import OmegaConf

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.plots.subject import all_of

logger = logging.getLogger(__name__)


def tensorboard_logdir(args):
    """The value of --tensorboard-logdir, or of Hydra's common.tensorboard_logdir, if given.

    Args:
        args (Namespace or DictConfig): the model's options: all flags, or a part of the config.
    """
    if OmegaConf.is_config(args):
        args = safe_getattr(args._get_parent(), "common", {})
    return safe_getattr(args, "tensorboard_logdir") or None


class PositionPictures:
    """Draws when a run of fairseq-train goes from training to validation.

    Loading a checkpoint to use it calls :meth:`set_num_updates` alone, and draws nothing.  No
    random number is drawn here.

    Args:
        logdir (str): fairseq's folder; the pictures go into its subfolder ``positions``.
    """

    def __init__(self, logdir: str):
        self.logdir = os.path.join(logdir, "positions")
        self._is_training = False
        self._updates = self._shown = None
        self._writer = None

    def train(self) -> None:
        self._is_training = True

    def set_num_updates(self, before: int) -> None:
        if self._is_training:
            self._updates = before + 1  # after the update that is beginning

    def eval(self, encoder: TupeEncoder) -> None:
        """Draw, unless nothing was trained since the last time."""
        if self._updates == self._shown:
            return
        self._shown = self._updates
        if self.logdir is None or get_global_rank() != 0:
            return
        try:
            self._show(encoder)
        except Exception as error:  # a failed picture must not stop a training
            self.logdir = None
            logger.warning("no pictures of positions in TensorBoard: %s", error)

    def _show(self, encoder: TupeEncoder) -> None:
        # imported here, so that a run without the flag does not load matplotlib
        from tupe_fairseq.plots import canvas
        from tupe_fairseq.plots.figures import position_bias, profile_by_distance

        label, subject = f"update {self._updates}", all_of(encoder)
        for figure in (position_bias, profile_by_distance):
            measured = {label: figure.measure(subject)}
            image = canvas.pixels(figure.draw(measured, {label: subject}))
            if self._writer is None:
                # fairseq's choice between torch.utils.tensorboard and tensorboardX
                if progress_bar.SummaryWriter is None:
                    raise ImportError("tensorboard is not installed; pip install tensorboard")
                self._writer = progress_bar.SummaryWriter(self.logdir)
            tag = "positions/" + figure.__name__.rpartition(".")[2]
            self._writer.add_image(tag, image, self._updates, dataformats="HWC")
        self._writer.flush()
