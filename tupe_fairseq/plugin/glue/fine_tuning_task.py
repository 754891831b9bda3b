"""What the tasks for labelled texts share: the model's length, and the number of batches."""

from fairseq.tasks import FairseqTask
from fairseq.utils import safe_getattr

from tupe_fairseq.plugin.glue.warmup_ratio import record_batches


class FineTuningTask(FairseqTask):
    """The base of tasks whose config has ``max_positions`` and ``train_subset``."""

    def build_model(self, cfg, from_checkpoint=False):
        """As fairseq's, but refuses to overwrite the model's own length silently.

        Raises:
            ValueError: if model.max_positions is set and not the task's.
        """
        own = safe_getattr(cfg, "max_positions")
        if own is not None and own != self.cfg.max_positions:
            raise ValueError(
                f"model.max_positions is {own} and task.max_positions "
                f"{self.cfg.max_positions}; set both to the length that the checkpoint was "
                "trained with: task.max_positions=${model.max_positions}"
            )
        return super().build_model(cfg, from_checkpoint)

    def get_batch_iterator(self, dataset, *args, **kwargs):
        """As fairseq's; the number of training batches is kept for ``--warmup-ratio``."""
        iterator = super().get_batch_iterator(dataset, *args, **kwargs)
        if dataset is self.datasets.get(safe_getattr(self.cfg, "train_subset")):
            record_batches(self.cfg, len(iterator) - bool(kwargs.get("skip_remainder_batch")))
        return iterator
