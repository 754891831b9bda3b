"""What masked_lm's samples need for --isolate-documents: a <s> at the start of each document.

fairseq's data mark the end of a document by an empty line, a </s> of its own.  In a sample it
becomes the <s> of the next document, in the place that it has, so that no length changes.  The
task has no hook for it, so the model, which is built before data are loaded, wraps the methods of
this task that load them.
"""

from typing import Any

import torch
from fairseq.data import BaseWrapperDataset
from fairseq.tasks.masked_lm import MaskedLMTask
from torch import Tensor

# how a sample is to be cut, and why in another way there is nothing to isolate
_NOTHING_TO_ISOLATE = {
    "complete_doc": "already ends each sample with its document",
    "eos": "makes each sentence a sample of its own",
}


class DocumentStarts(BaseWrapperDataset):
    """Samples of tokens whose separators are <s>.

    Args:
        dataset (Dataset): samples as masked_lm makes them: <s>, then sentences with their </s>.
        bos, eos (int): <s> and </s>.
    Shape:
        each int64 (L), its first token <s>.
    """

    def __init__(self, dataset: Any, bos: int, eos: int):
        super().__init__(dataset)
        self.bos, self.eos = bos, eos

    def __getitem__(self, index: int) -> Tensor:
        tokens = self.dataset[index]
        is_end = tokens == self.eos
        # a </s> right after another, or after the <s> of a sample that begins with one
        follows = torch.zeros_like(is_end)
        follows[1:] = is_end[:-1] | (tokens[:-1] == self.bos)
        return tokens.masked_fill(is_end & follows, self.bos)


class UnmaskedStarts(BaseWrapperDataset):
    """Masked samples in which each <s> within stays, and is not to be predicted.

    That of the sample itself may be masked, as without isolated documents.

    Args:
        dataset (Dataset): masked_lm's, of :class:`DocumentStarts`.
        bos, pad (int): <s>, and the target of what is not masked.
    """

    def __init__(self, dataset: Any, bos: int, pad: int):
        super().__init__(dataset)
        self.bos, self.pad = bos, pad

    def __getitem__(self, index: int) -> Any:
        sample = self.dataset[index]
        source, target = sample["net_input.src_tokens"], sample["target"]
        is_start = torch.where(target == self.pad, source, target) == self.bos
        is_start[:1] = False
        return {
            **sample,
            "net_input.src_tokens": source.masked_fill(is_start, self.bos),
            "target": target.masked_fill(is_start, self.pad),
        }


def isolate_documents(task: Any) -> None:
    """Let a task load samples with a <s> at the start of each document.

    Args:
        task (FairseqTask): the task; changed in place.
    Raises:
        ValueError: if it is not masked_lm, or cuts the text so that a sample has one document;
            when it loads a train split that separates no documents.
    """
    if not isinstance(task, MaskedLMTask):
        raise ValueError(
            f"--isolate-documents is for pre-training with --task masked_lm, not {_name(task)}; "
            "drop the flag: a model that was trained with it needs it no more"
        )
    mode = str(task.cfg.sample_break_mode)
    if mode in _NOTHING_TO_ISOLATE:
        raise ValueError(
            f"--isolate-documents has nothing to do: --sample-break-mode {mode} "
            f"{_NOTHING_TO_ISOLATE[mode]}; drop the flag, or cut by none or complete"
        )
    if "load_dataset" in vars(task):
        return  # another model of this task has asked for it
    dictionary, load_split, load = task.dictionary, task._load_dataset_split, task.load_dataset

    def load_dataset_split(split: str, epoch: int, combine: bool) -> DocumentStarts:
        dataset = load_split(split, epoch, combine)
        # what is cut into samples, below the <s> of each; an empty line has </s> alone
        sentences = dataset.dataset.dataset
        if split == "train" and 1 not in sentences.sizes:
            raise ValueError(
                f"--isolate-documents: the train split of {task.cfg.data} has no empty line, which "
                "is what separates documents; prepare it from a text that has some, with "
                "tupe-prepare-pretrain, or drop the flag"
            )
        return DocumentStarts(dataset, dictionary.bos(), dictionary.eos())

    def load_dataset(split: str, *args: Any, **kwargs: Any) -> None:
        load(split, *args, **kwargs)
        task.datasets[split] = UnmaskedStarts(
            task.datasets[split], dictionary.bos(), dictionary.pad()
        )

    task._load_dataset_split, task.load_dataset = load_dataset_split, load_dataset


def _name(task: Any) -> str:
    """Its name, for a message."""
    return str(getattr(getattr(task, "cfg", None), "_name", None) or type(task).__name__)
