"""Nothing is lost in --save-dir: whole files, one training at a time, and the right one to go on.

fairseq calls neither model nor task before it reads a checkpoint, nor while it writes one, and
masked_lm's task, criterion and trainer are its own.  So two names of ``fairseq.checkpoint_utils``
are replaced, which both lines of fairseq look up there at each use; and only when a model of ours
is built, so that importing the package changes nothing.
"""

import functools
import glob
import logging
import os
from typing import Any, Callable, List, Optional

from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed

from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load
from tupe_fairseq.checkpoint.whole_file import damage
from tupe_fairseq.plugin.model.held_folder import hold
from tupe_fairseq.plugin.model.whole_files import WholeFiles
from tupe_fairseq.plugin.on_import import torch_is_at_least
from tupe_fairseq.programs.save_dir import LAST, updates_of

logger = logging.getLogger(__name__)


def guard_save_dir() -> None:
    """Guard the trainings of this process; nothing happens if they are guarded already."""
    if checkpoint_utils.PathManager is not WholeFiles:
        checkpoint_utils.PathManager = WholeFiles
        checkpoint_utils.load_checkpoint = _guarded(checkpoint_utils.load_checkpoint)


def _guarded(load: Callable) -> Callable:
    @functools.wraps(load)
    def load_checkpoint(cfg, trainer, **kwargs):
        instead = _agreed(trainer, lambda: _prepare(cfg, trainer))
        given = cfg.restore_file, cfg.finetune_from_model
        if instead is not None:
            # which fairseq ignores when there is a checkpoint to go on from
            cfg.restore_file, cfg.finetune_from_model = instead, None
        _refuse_other_files(cfg, trainer)
        _read_in_every_process(trainer)
        _refuse_code(cfg)
        try:
            loaded = load(cfg, trainer, **kwargs)
        finally:
            cfg.restore_file, cfg.finetune_from_model = given
        _end_if_finished(trainer)
        return loaded

    return load_checkpoint


def _prepare(cfg, trainer) -> Optional[str]:
    if not cfg.no_save:
        hold(cfg.save_dir, trainer)
    # with a suffix each process may have a file of its own, and all must be of one update
    if cfg.restore_file != LAST or trainer.checkpoint_suffix:
        return None
    return whole_instead_of_last(cfg.save_dir)


def _refuse_other_files(cfg, trainer) -> None:
    """All processes must see the files, or none: fairseq waits for ever for one that does not."""
    if trainer.cfg.distributed_training.distributed_world_size == 1:
        return
    for path in _to_read(cfg):
        is_there = _agreed(trainer, functools.partial(os.path.isfile, path))
        if is_there != os.path.isfile(path):
            has, lacks = ("the first", "this one") if is_there else ("this", "the first one")
            raise CheckpointError(
                f"{has} machine has {path} and {lacks} does not; all machines must have it "
                "under this name: give a --save-dir that they share, or copy it"
            )


def _read_in_every_process(trainer) -> None:
    """Spare fairseq to send what one process has read to the others.

    It does so through ``torch.load``, which since torch 2.6 refuses the config in it, so that no
    training of several processes could go on.
    """
    distributed_training = trainer.cfg.distributed_training
    is_alone = distributed_training.distributed_world_size == 1
    # whose optimizer states are shared out on the way
    if is_alone or distributed_training.zero_sharding == "os" or not torch_is_at_least(2, 6):
        return
    trainer.cfg.checkpoint.load_checkpoint_on_all_dp_ranks = True


def _refuse_code(cfg) -> None:
    """Read with the restricted unpickler what fairseq is about to give to ``torch.load``.

    From torch 2.10 on ``weights_only=True`` is enough.  A file made for it can mean one thing to
    this reader and another to torch's, of which :mod:`watch` warns.
    """
    if not torch_is_at_least(2, 10):
        for path in filter(os.path.isfile, _to_read(cfg)):
            restricted_load(path)


def _to_read(cfg) -> List[str]:
    """The files that fairseq will read if they are there."""
    is_last = cfg.restore_file == LAST
    to_go_on = os.path.join(cfg.save_dir, LAST) if is_last else cfg.restore_file
    return [path for path in (to_go_on, cfg.finetune_from_model) if path]


def whole_instead_of_last(folder: str) -> Optional[str]:
    """The checkpoint to go on from if checkpoint_last.pt is not whole; None if it is, or absent.

    Args:
        folder (str): the --save-dir.
    Returns:
        str: the path of the whole one with the most updates.
    Raises:
        CheckpointError: if there is none: training was begun here, and must not begin afresh
            without being told to.
    """
    last = os.path.join(folder, LAST)
    problem = damage(last) if os.path.isfile(last) else None
    if problem is None:
        return None
    found = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "checkpoint*.pt"))):
        try:
            if path != last and damage(path) is None:
                found[path] = updates_of(path)
        except (OSError, CheckpointError) as error:
            logger.warning("%s", error)
    if not found:
        raise CheckpointError(
            f"{last} is not whole ({problem}), nor is any other checkpoint in {folder}; put a "
            "whole one in its place, or delete it to begin afresh"
        )
    newest = max(found, key=lambda path: found[path])
    logger.warning(
        "%s is not whole (%s): going on from %s, after %d updates",
        last, problem, newest, found[newest],
    )  # fmt: skip
    return newest


def _agreed(trainer, decide: Callable[[], Any]) -> Any:
    """What the first process decides; its error is raised in all, so that none waits for it."""
    if trainer.cfg.distributed_training.distributed_world_size == 1:
        return decide()
    answer = None
    if distributed.get_global_rank() == 0:
        try:
            answer = [decide(), None]
        except (OSError, ValueError) as error:
            answer = [None, str(error)]
    decided, problem = distributed.broadcast_object(
        answer, src_rank=0, group=distributed.get_global_group(), dist_device=trainer.device
    )
    if problem is not None:
        raise CheckpointError(problem)
    return decided


def _end_if_finished(trainer) -> None:
    """Let a training that has made all its updates end; fairseq would make one more of them.

    Otherwise a command that was killed between its last checkpoint and its end could not be
    given again without changing its result.
    """
    optimization = trainer.cfg.optimization
    if 0 < optimization.max_update <= trainer.get_num_updates():
        logger.info(
            "all %d updates of --max-update %d are made already",
            trainer.get_num_updates(), optimization.max_update,
        )  # fmt: skip
        optimization.max_epoch = -1  # 0 would be no limit
