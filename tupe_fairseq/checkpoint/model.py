"""A model as its checkpoint holds it: read, and completed."""

import argparse
import functools
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tupe_fairseq.checkpoint.checkpoint import (
    EMBEDDING,
    ENCODER,
    HEADS,
    LM_HEAD,
    VOCABULARY_HASH,
    CheckpointError,
    check_finite,
    classification_heads,
    loading,
    read,
    symbols_of,
    vocabulary_version,
)
from tupe_fairseq.checkpoint.fit import check_sizes, check_vocabulary, fit, recorded_vocabulary
from tupe_fairseq.checkpoint.untrusted_options import (
    checked_options,
    options_of,
    source_of,
    training_flags,
)
from tupe_fairseq.data.dictionary import DICTIONARY, UNK, word_ids
from tupe_fairseq.data.tokenizer import (
    Tokenizer,
    find_dictionary,
)
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.kinds import Kind, kind_of_options
from tupe_fairseq.modules.heads import (
    POOLING_RECORD,
    LMHead,
    TaggingHead,
    TextHead,
    recorded_pooling,
    sized_head,
)
from tupe_fairseq.modules.record import RECORD, check_record, options_record
from tupe_fairseq.options import ARCHITECTURES, TupeConfig, flag

logger = logging.getLogger(__name__)


@dataclass
class Model:
    """What a checkpoint holds, in the form of this project.

    Its ``module`` is built when it is first used, in float32, on the CPU and in evaluation mode;
    ``encoder``, ``lm_head`` and ``head`` are parts of it.
    """

    path: str
    options: argparse.Namespace  # of tupe_roberta, see ``checked_options``
    tensors: dict[str, Tensor]
    lines: list[str] = field(default_factory=list)  # of its ``dictionary``, if that was read
    dictionary: str = DICTIONARY
    origin: str = ""  # what wrote it, in words; "" for this project
    labels: list[str] | None = None  # the lines of the label/dict.txt of a fine-tuned model
    # what is left out or added
    remarks: list[str] = field(default_factory=lambda: ["left out the training state"])

    @classmethod
    def read(
        cls,
        path: str,
        dictionary: str | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> "Model":
        """Read a checkpoint without running its code.

        Args:
            dictionary: its dict.txt. With it, a checkpoint of the TUPE authors or of fairseq's
                RoBERTa is converted.
            overrides: options that replace those of the file.
        """
        saved, tensors, _ = read(path)
        source = None if dictionary is None else source_of(saved.get("arch"))
        if source is None:
            options = checked_options({**saved, **(overrides or {})}, path)
        else:
            with loading(path):
                tensors, options = source.rename_tensors(tensors), options_of(saved, source, path)
        check_finite(tensors, path)
        model = cls(path, argparse.Namespace(**options), tensors)
        with loading(path):
            check_sizes(model.config, tensors)
        if dictionary is not None:
            model.lines = dictionary_lines(dictionary, source.HIDDEN_SYMBOLS if source else ())
            model.dictionary = dictionary
            with loading(path):
                check_vocabulary(model.vocabulary, model.symbols, dictionary)
        if source is not None:
            model.origin = source.NAME
            complete(model)
        return model

    @property
    def config(self) -> TupeConfig:
        return TupeConfig.from_roberta_options(self.options)

    @property
    def max_positions(self) -> int:
        """The length of its longest sequence, ``<s>`` and ``</s>`` included."""
        return self.options.max_positions

    @property
    def symbols(self) -> list[str]:
        """The symbols of its dictionary, and ``<mask>``."""
        return symbols_of(self.lines)

    @property
    def vocabulary(self) -> tuple[int, int | None]:
        """See ``recorded_vocabulary``."""
        with loading(self.path):
            return recorded_vocabulary(self.tensors)

    @property
    def heads(self) -> dict[str, int]:
        """The classification heads: name to number of outputs."""
        return classification_heads(self.tensors)

    @property
    def kind(self) -> Kind:
        """What it was fine-tuned for, one of ``kinds.KINDS``."""
        return kind_of_options(vars(self.options))

    def flags(self) -> tuple[str, ...]:
        """The flags of fairseq-train that build it, which must be those of its weights."""
        if self.options.arch not in ARCHITECTURES:
            raise CheckpointError(
                f"{self.path} is refused: its arch is {self.options.arch}, not one of "
                f"{', '.join(ARCHITECTURES)}"
            )
        if ENCODER + RECORD in self.tensors:
            with loading(self.path):
                check_record(self.config, self.tensors[ENCODER + RECORD], flag)
        return training_flags(vars(self.options))

    @functools.cached_property
    def module(self) -> nn.ModuleDict:
        """All its parts, with the names that they have in the file."""
        options = self.options
        # tensors that are made in inference mode cannot be changed later
        with torch.inference_mode(False), loading(self.path):
            tensors = {
                name: x if "version" in name else x.float()
                for name, x in self.tensors.items()
                if name != VOCABULARY_HASH
            }
            check_sizes(self.config, tensors)
            rows, dim = tensors[EMBEDDING].shape
            with torch.device("meta"):  # takes no memory
                encoder = TupeEncoder(self.config)
                encoder.embed_tokens = nn.Embedding(rows, dim)
                weight = None if options.untie_weights_roberta else encoder.embed_tokens.weight
                parts = nn.ModuleDict({"sentence_encoder": encoder})
                if LM_HEAD + "weight" in tensors:
                    parts["lm_head"] = LMHead(dim, rows, options.activation_fn, weight)
                heads = nn.ModuleDict()
                for name in self.heads:
                    start = f"{HEADS}{name}."
                    of_head = {x[len(start) :]: tensors[x] for x in tensors if x.startswith(start)}
                    activation_fn, pooling = options.pooler_activation_fn, recorded_pooling(of_head)
                    heads[name] = sized_head(of_head, activation_fn, 0.0, pooling)
            module = nn.ModuleDict({"encoder": parts, HEADS.rstrip("."): heads})
            fit(module, tensors, ENCODER)
            module.load_state_dict(tensors, assign=True)
            return module.eval()

    @property
    def encoder(self) -> TupeEncoder:
        """The encoder with its word embedding, ``embed_tokens``."""
        return self.module.get_submodule(ENCODER.rstrip("."))

    @property
    def lm_head(self) -> LMHead:
        if LM_HEAD + "weight" not in self.tensors:
            raise CheckpointError(f"{self.path} has no LM head, which predicts masked tokens")
        return self.module.get_submodule(LM_HEAD.rstrip("."))

    def masked_logits(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The LM head's logits at some positions.

        Shape: tokens without padding, int64 (B, L); positions int64 (B, P) -> (B, P, V).
        """
        x = self.encoder(self.encoder.embed_tokens(tokens))
        x = x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.size(2)))
        return self.lm_head(x)

    @property
    def trained_head(self) -> str:
        """The name of the head that was trained last, or of the only one."""
        name = getattr(self.options, "classification_head_name", None)
        return trained_head(self.heads, name, self.path)

    @property
    def head(self) -> TextHead | TaggingHead:
        """The head that was trained last."""
        head = self.module.get_submodule(HEADS + self.trained_head)
        recorded, pooling = recorded_pooling(head.state_dict()), self.options.pooling
        if recorded != pooling:
            raise CheckpointError(
                f"{self.path}: pooling is {pooling} in its options and {recorded} in its head"
            )
        return head


def trained_head(heads: Collection[str], name: str | None, path: str) -> str:
    """The name of the head that was trained last, or of the only one."""
    if not heads:
        raise CheckpointError(
            f"{path} has no classification head: it is pre-trained only; fine-tune it first "
            "(tupe-finetune)"
        )
    if name not in heads and len(heads) > 1:
        raise CheckpointError(
            f"{path} has {len(heads)} classification heads, {', '.join(sorted(heads))}, and does "
            "not say which was trained last"
        )
    return name if name in heads else next(iter(heads))


def read_with_tokenizer(
    path: str, folders: Sequence[str], vocabulary: tuple[str, Sequence[str]] | None = None
) -> tuple[Model, Tokenizer]:
    """A model and its tokenizer, from the folders or from ``vocabulary``: its kind and files.

    The first folder with a dict.txt must have the model's.
    """
    model = Model.read(path, find_dictionary(folders))
    tokenizer = Tokenizer.load(folders, vocabulary)
    if model.origin:  # the authors' code has symbols that dict.txt does not list
        ids = {word: number for number, word in enumerate(model.symbols)}
        tokenizer.ids.update((word, ids[word]) for word, i in tokenizer.ids.items() if i != UNK)
    return model, tokenizer


def dictionary_lines(path: str, hidden: Sequence[str] = ()) -> list[str]:
    """The lines of a dict.txt, with lines for hidden symbols before them."""
    listed = word_ids(path)
    for symbol in hidden:
        if symbol in listed:
            raise ValueError(f"{path} lists {symbol}, which the authors' code adds by itself")
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip() for line in file.read().split("\n")]
    return [*(f"{symbol} 0" for symbol in hidden), *filter(None, lines)]


def complete(model: Model) -> None:
    """Turn the tensors into a whole float32 state dict with records, and check that it loads."""
    records = {ENCODER + RECORD: options_record(model.config)}
    if model.options.pooling == "mean":
        heads = (name for name in model.heads if f"{HEADS}{name}.dense.weight" in model.tensors)
        records.update((f"{HEADS}{name}.{POOLING_RECORD}", torch.tensor(1)) for name in heads)
    model.tensors = {**records, **model.tensors}
    vocabulary = {VOCABULARY_HASH: vocabulary_version(model.symbols)}
    model.lm_head  # noqa: B018, refuses a model without one
    model.tensors = {**model.module.state_dict(), **vocabulary}
