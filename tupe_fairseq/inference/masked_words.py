"""Loads a model that predicts masked words: ours, fairseq's RoBERTa or the TUPE authors'.

It needs torch alone, and runs no code of the file.
"""

from typing import NamedTuple

from torch import Tensor, nn

from tupe_fairseq.checkpoint.allowed_options import own_options
from tupe_fairseq.checkpoint.checkpoint import CheckpointError, check_finite, loading, read
from tupe_fairseq.checkpoint.convert import convert_tensors
from tupe_fairseq.checkpoint.foreign_model import read_checkpoint
from tupe_fairseq.checkpoint.state_dict import symbols_of
from tupe_fairseq.files.text_lines import read_lines
from tupe_fairseq.inference.load_model import (
    WordEncoder,
    build_encoder,
    check_vocabulary,
    symbols_in,
)
from tupe_fairseq.modules.tupe_encoder_layer import ACTIVATIONS

_HEAD = "encoder.lm_head."


class MaskedWords(nn.Module):
    """An encoder with its LM head, which computes only what is asked for.

    LN(activation(dense(x))) times the word embedding, or a matrix of its own, plus a bias.

    Args:
        encoder (WordEncoder): the encoder.
        activation_fn (str): the head's activation.
    Shape:
        tokens, int64 (B, L) without padding, and positions, int64 (B, P) -> logits (B, P, V), those
        of P positions of each sequence.
    Dtype and device: those of the parameters.
    Raises:
        ValueError: if L exceeds the model's longest sequence and positions have a table.
    """

    def __init__(self, encoder: WordEncoder, activation_fn: str):
        super().__init__()
        self.encoder = encoder
        num_symbols, dim = encoder.embed_tokens.weight.shape
        self.dense = nn.Linear(dim, dim)
        self.activation = ACTIVATIONS[activation_fn]
        self.layer_norm = nn.LayerNorm(dim)
        self.output = nn.Linear(dim, num_symbols)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x = self.encoder(self.encoder.embed_tokens(tokens))
        x = x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.size(2)))
        return self.output(self.layer_norm(self.activation(self.dense(x))))


class LoadedModel(NamedTuple):
    """A checkpoint that predicts masked words.

    Args:
        model (MaskedWords): in evaluation mode on the CPU, float32.
        symbols (list of str): those of its dictionary in order, ``<mask>`` included.
        max_positions (int): its longest sequence, ``<s>`` and ``</s>`` included.
        origin (str): what wrote the file, in words; empty for this project.
        task (str): what it was trained for last, if the file says so.
    """

    model: MaskedWords
    symbols: list[str]
    max_positions: int
    origin: str
    task: str


def load_masked_words(path: str, dictionary: str) -> LoadedModel:
    """Read a checkpoint: ours, or fairseq's RoBERTa or the TUPE authors', as tupe-convert makes it.

    Args:
        path (str): the file.
        dictionary (str): its dict.txt.
    Raises:
        FileNotFoundError: if there is no such file.
        CheckpointError: if it is refused, damaged, of another model, or has no LM head.
        ValueError: if dict.txt is not the checkpoint's.
    """
    checkpoint = read(path, finite=False)
    given, tensors = checkpoint.options, checkpoint.tensors
    origin = ""
    if str(given.get("arch")).startswith("tupe_roberta"):
        check_finite(tensors, path)
        options = own_options(given, tensors, path)
        symbols = symbols_in(dictionary)
        with loading(path):
            check_vocabulary(tensors, symbols)
    else:
        del checkpoint, tensors  # read again, which is simple, rather than held twice
        lines = read_lines(dictionary, dictionary)
        foreign = read_checkpoint(path, lines, dictionary, None, "")
        symbols, origin = symbols_of(foreign.lines), foreign.origin
        with loading(path):
            tensors = convert_tensors(foreign.tensors, foreign.options, len(symbols))
        options = vars(foreign.options)
    head = _head(tensors, path)
    with loading(path):
        encoder = build_encoder(options, tensors, len(symbols))
        model = MaskedWords(encoder, encoder.config.activation_fn)
        model.load_state_dict(
            {**{f"encoder.{name}": x for name, x in encoder.state_dict().items()}, **head}
        )
    task = given.get("task") if isinstance(given.get("task"), str) else ""
    return LoadedModel(model.eval(), symbols, options["max_positions"], origin, task)


def _head(tensors: dict[str, Tensor], path: str) -> dict[str, Tensor]:
    """The LM head's tensors by their names in :class:`MaskedWords`."""
    parts = {"weight": "output.weight", "bias": "output.bias"}
    for part in ("dense", "layer_norm"):
        parts.update({f"{part}.{name}": f"{part}.{name}" for name in ("weight", "bias")})
    missing = [name for name in parts if _HEAD + name not in tensors]
    if missing:
        raise CheckpointError(
            f"{path} has no LM head, which predicts masked words: "
            f"{', '.join(_HEAD + name for name in missing)} missing"
        )
    return {ours: tensors[_HEAD + name] for name, ours in parts.items()}
