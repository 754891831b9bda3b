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
    ACTIVATION_RECORD,
    POOLING_RECORD,
    LMHead,
    TaggingHead,
    TextHead,
    activation_record,
    recorded_pooling,
    sized_head,
)
from tupe_fairseq.modules.record import RECORD, check_record, options_record
from tupe_fairseq.options import ARCHITECTURES, TupeConfig, flag

logger = logging.getLogger(__name__)


@dataclass
class Model:
    """What a checkpoint holds, in the form of this project.

    ``encoder``, ``lm_head`` and ``head`` are built when they are first used, in float32, on the CPU
    and in evaluation mode.
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
        if dictionary is not None and (source := source_of(saved.get("arch"))):
            lines = dictionary_lines(dictionary, source.HIDDEN_SYMBOLS)
            with loading(path):
                tensors, options = source.rename_tensors(tensors), options_of(saved, source, path)
            given = argparse.Namespace(**options)
            model = cls(path, given, tensors, lines, dictionary, source.NAME)
            complete(model)
            return model
        options = checked_options({**saved, **(overrides or {})}, path)
        check_finite(tensors, path)
        model = cls(path, argparse.Namespace(**options), tensors)
        with loading(path):
            check_sizes(model.config, tensors)
        if dictionary is not None:
            model.lines, model.dictionary = dictionary_lines(dictionary), dictionary
            with loading(path):
                check_vocabulary(model.vocabulary, model.symbols, dictionary)
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
    def encoder(self) -> TupeEncoder:
        """The encoder with its word embedding, ``embed_tokens``."""
        tensors = self._part(ENCODER)
        # tensors that are made in inference mode cannot be changed later
        with torch.inference_mode(False), loading(self.path):
            encoder = TupeEncoder(self.config)
            encoder.embed_tokens = nn.Embedding(*tensors["embed_tokens.weight"].shape)
            encoder.load_state_dict(tensors, assign=True)
            return encoder.eval()

    @functools.cached_property
    def lm_head(self) -> LMHead:
        tensors = self._part(LM_HEAD)
        if "weight" not in tensors:
            raise CheckpointError(f"{self.path} has no LM head, which predicts masked tokens")
        with torch.inference_mode(False), loading(self.path):
            weight = nn.Parameter(tensors["weight"])
            head = LMHead(*reversed(weight.shape), self.options.activation_fn, weight)
            head.load_state_dict(tensors)
            return head.eval()

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

    @functools.cached_property
    def head(self) -> TextHead | TaggingHead:
        """The head that was trained last."""
        tensors = self._part(f"{HEADS}{self.trained_head}.")
        with torch.inference_mode(False), loading(self.path):
            recorded, pooling = recorded_pooling(tensors), self.options.pooling
            if recorded != pooling:
                raise ValueError(f"pooling is {pooling} in its options and {recorded} in its head")
            head = sized_head(tensors, self.options.pooler_activation_fn, 0.0, pooling)
            head.load_state_dict(tensors)
            return head.eval()

    def _part(self, prefix: str) -> dict[str, Tensor]:
        return {
            name[len(prefix) :]: x if "version" in name else x.float()
            for name, x in self.tensors.items()
            if name.startswith(prefix)
        }


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
    options = model.options
    tensors = {name: x if "version" in name else x.float() for name, x in model.tensors.items()}
    with loading(model.path):
        config, heads, dim = model.config, model.heads, options.encoder_embed_dim
        check_sizes(config, tensors)
        check_finite(tensors, model.path)
        tags = options.classification_head_name if model.kind.of_words else None
        with torch.device("meta"):  # takes no memory
            encoder = TupeEncoder(config)
            encoder.embed_tokens = nn.Embedding(*tensors[EMBEDDING].shape)
            weight = None if options.untie_weights_roberta else encoder.embed_tokens.weight
            lm_head = LMHead(dim, len(tensors[EMBEDDING]), config.activation_fn, weight)
            parts = {
                name: TaggingHead(dim, classes) if name == tags else TextHead(dim, dim, classes)
                for name, classes in heads.items()
            }
        whole = nn.ModuleDict({
            "encoder": nn.ModuleDict({"sentence_encoder": encoder, "lm_head": lm_head}),
            "classification_heads": nn.ModuleDict(parts),
        })  # fmt: skip
        record = {ENCODER + RECORD: options_record(config)}
        records = {VOCABULARY_HASH: vocabulary_version(model.symbols)}
        for name in {*heads} - {tags}:
            activation_fn = activation_record(options.pooler_activation_fn)
            records[f"{HEADS}{name}.{ACTIVATION_RECORD}"] = activation_fn
            if options.pooling == "mean":
                records[f"{HEADS}{name}.{POOLING_RECORD}"] = torch.tensor(1)
        fit(whole, tensors, ENCODER, symbols=model.symbols, dictionary=model.dictionary)
        known = {name: x for name, x in tensors.items() if name not in records}
        whole.load_state_dict({**record, **known}, assign=True)
    model.tensors = {**tensors, **record, **records}
