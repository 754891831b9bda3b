"""What our tasks share: the checks when training starts, and batches of samples."""

import contextlib
import logging
import os
import pickle
from types import SimpleNamespace

import numpy as np
import torch
import torch.distributed as dist
from fairseq import checkpoint_utils
from fairseq.data import FairseqDataset, data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.tasks import FairseqTask
from fairseq.utils import safe_getattr, split_paths

from tupe_fairseq.checkpoint.checkpoint import allowed_for_fairseq, reason_of
from tupe_fairseq.data.tokenizer import copy_vocabulary
from tupe_fairseq.files import atomic_copy, lock_until_exit

logger = logging.getLogger(__name__)

# what fairseq's criterions measure on a validation set
_MEASURED = {
    "masked_lm": ["loss", "ppl"],
    "cross_entropy": ["loss", "ppl"],
    "label_smoothed_cross_entropy": ["loss", "nll_loss", "ppl"],
}


class AtomicPathManager(PathManager):
    """fairseq's file access, with atomic copies.

    fairseq writes the first checkpoint of an update atomically, but then copies it to
    ``checkpoint_last.pt`` and ``checkpoint_best.pt``. A kill during the copy leaves half a file.
    """

    @staticmethod
    def copy(src_path, dst_path, overwrite=False):
        if PathManager.path_requires_pathmanager(dst_path):
            return PathManager.copy(src_path, dst_path, overwrite=overwrite)
        atomic_copy(src_path, dst_path)
        return True


@contextlib.contextmanager
def numpy_long():
    """Provide np.compat.long, which numpy 2 lacks and fairseq's --sample-break-mode eos uses."""
    if hasattr(np, "compat"):
        yield
        return
    np.compat = SimpleNamespace(long=int)
    try:
        yield
    finally:
        del np.compat


class TrainingTask(FairseqTask):
    """A task that checks the checkpoint before it is loaded, and prepares the ``--save-dir``."""

    _has_begun = False
    _num_processes_before = None

    def load_dataset(self, split, *args, **kwargs):
        with numpy_long():
            return super().load_dataset(split, *args, **kwargs)

    def build_model(self, cfg, from_checkpoint=False):
        model = super().build_model(cfg, from_checkpoint)
        self._model = model
        self._check_state_dict = getattr(model, "check_state_dict", lambda state_dict: None)
        return model

    def has_sharded_data(self, split):
        # fairseq-train calls this when it builds the trainer, right before it loads a checkpoint;
        # no other program of fairseq does
        if split == "train" and not self._has_begun:
            self._has_begun = True
            try:
                self.begin_training(self.cfg._get_root())
            except Exception:
                if dist.is_initialized():  # else gloo's threads can abort a process when it ends
                    dist.destroy_process_group()
                raise
        return super().has_sharded_data(split)

    def get_batch_iterator(self, *args, **kwargs):
        iterator = super().get_batch_iterator(*args, **kwargs)

        def load_state_dict(state):  # it has the batches of one process
            processes = self._num_processes_before or iterator.num_shards
            batches = state["iterations_in_epoch"] * processes
            state = {**state, "iterations_in_epoch": batches // iterator.num_shards}
            type(iterator).load_state_dict(iterator, state)

        iterator.load_state_dict = load_state_dict
        return iterator

    def begin_training(self, cfg) -> None:
        """Called once by fairseq-train, in each process, with the whole config.

        Raises:
            FileNotFoundError: if a checkpoint to load is missing, or only some machines have it;
                fairseq would train from scratch.
            ValueError: if another training writes to --save-dir, or the checkpoint does not fit the
                model; fairseq would hide the reason.
        """
        self._log_settings(cfg)
        self._check_metric(cfg)
        options, parallel = cfg.checkpoint, cfg.distributed_training
        path = last = os.path.join(options.save_dir, "checkpoint_last.pt")
        if options.restore_file != "checkpoint_last.pt":
            path = options.restore_file
        elif not os.path.isfile(path):
            once = safe_getattr(options, "continue_once")
            path = once or options.finetune_from_model or path
        if dist.is_initialized():
            exist = [None] * dist.get_world_size()
            dist.all_gather_object(exist, os.path.isfile(path))
            if len(set(exist)) > 1:
                raise FileNotFoundError(
                    f"{path} exists for only {sum(exist)} of {len(exist)} processes; give a "
                    "--save-dir that all machines share"
                )
        if os.path.isfile(path):
            is_reset = options.reset_optimizer or path == options.finetune_from_model
            self._check_checkpoint(path, None if is_reset else cfg.optimizer._name)
        elif path != last:
            raise FileNotFoundError(
                f"{path} is not a file; correct --restore-file, --continue-once or "
                "--finetune-from-model"
            )
        if parallel.distributed_world_size > 1 and parallel.zero_sharding != "os":
            # else one process sends the file to the others, whose torch.load refuses its config
            options.load_checkpoint_on_all_dp_ranks = True
        if not options.no_save:
            checkpoint_utils.PathManager = AtomicPathManager
            if distributed_utils.is_master(parallel):
                self._lock = lock_until_exit(options.save_dir)
                if "TUPE_STUDY" not in os.environ:  # which does it for the checkpoints it keeps
                    copy_vocabulary(split_paths(self.cfg.data)[0], options.save_dir)

    def _log_settings(self, cfg) -> None:
        """Log what determines the speed."""
        common, count = cfg.common, cfg.distributed_training.distributed_world_size
        is_cuda = torch.cuda.is_available() and not common.cpu
        device = torch.cuda.get_device_name() if is_cuda else "CPU"
        # by the flags: with fully_sharded the model has no parameters
        dtype = "float16" if common.fp16 else "bfloat16" if common.bf16 else "float32"
        settings = {
            "device": f"{count} x {device}",
            "dtype": dtype + (common.amp and is_cuda) * ", autocast",
            "attention": getattr(self._model, "training_attention", lambda: "fairseq's own")(),
            "optimizer": cfg.optimizer._name,
        }
        logger.info("; ".join(f"{name}: {value}" for name, value in settings.items()))

    def _check_metric(self, cfg) -> None:
        measured, metric = _MEASURED.get(cfg.criterion._name), cfg.checkpoint.best_checkpoint_metric
        if measured is None or cfg.dataset.disable_validation:
            return
        for name, is_measured in (
            ("nll_loss", cfg.optimization.sentence_avg),
            ("accuracy", safe_getattr(cfg.criterion, "report_accuracy")),
            ("bleu", safe_getattr(self.cfg, "eval_bleu")),
        ):
            measured = [*measured, name] if is_measured else measured
        if metric not in measured:
            raise ValueError(
                f"--best-checkpoint-metric {metric} is not measured; give {', '.join(measured)}"
            )

    def _check_checkpoint(self, path: str, optimizer: str | None) -> None:
        try:
            with allowed_for_fairseq():
                state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            self._check_state_dict(state["model"])
            before = state.get("cfg") or {}
            parallel = before.get("distributed_training", {})
            self._num_processes_before = parallel.get("distributed_world_size")
            saved = (before.get("optimizer") or {}).get("_name")
            if optimizer and saved and state.get("last_optimizer_state"):
                # with 16 bits fairseq compares only the names of its wrappers
                if saved.removeprefix("fused_") != optimizer.removeprefix("fused_"):
                    raise ValueError(
                        f"its --optimizer was {saved} and is now {optimizer}; add --reset-optimizer"
                    )
        except (KeyError, OSError, RuntimeError, TypeError, pickle.UnpicklingError) as error:
            raise ValueError(f"{path} is damaged or not a checkpoint: {reason_of(error)}") from None
        except ValueError as error:
            raise ValueError(f"{path} does not fit this model: {error}") from None


class Samples(FairseqDataset):
    """Samples of ``sizes`` tokens, padded in a batch; ``source`` is their dictionary."""

    def collater(self, samples):
        if not samples:
            return {}
        tokens = [sample["net_input"] for sample in samples]
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "net_input": {
                "src_tokens": data_utils.collate_tokens(tokens, self.source.pad()),
                "src_lengths": torch.tensor([len(row) for row in tokens]),
            },
            "ntokens": sum(map(len, tokens)),
            "nsentences": len(samples),
        }

    def __len__(self):
        return len(self.sizes)

    def num_tokens(self, index):
        return self.sizes[index]

    size = num_tokens
