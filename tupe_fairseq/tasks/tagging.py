"""Fine-tuning on tags of words; sentences that are too long are split into windows."""

from dataclasses import dataclass
from typing import Optional  # omegaconf 2.0 does not know `X | None`

from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from omegaconf import II, MISSING

from tupe_fairseq.options import option
from tupe_fairseq.tasks._labelled import KIND_HELP, LabelledTask


@dataclass
class TokenTaggingConfig(FairseqDataclass):
    data: str = option(MISSING, "path to data directory")
    num_classes: int = option(-1, "number of tags; default: those of label/dict.txt")
    max_positions: int = option(512, "longest window, in tokens")
    no_shuffle: bool = option(False, "keep the order of the sentences")
    kind: Optional[str] = option(None, KIND_HELP)
    classification_head_name: str = II("criterion.classification_head_name")
    seed: int = II("common.seed")
    train_subset: str = II("dataset.train_subset")  # checkpoints of earlier versions have it


@register_task("token_tagging", dataclass=TokenTaggingConfig)
class TokenTaggingTask(LabelledTask):
    """Predicts a tag for each word.

    ``label`` has a symbol for each token of ``input0``: the tag at the first token of a word,
    ``<pad>`` at the others. Without labels all tags are ``<unk>``.
    """

    task_name = "token_tagging"
