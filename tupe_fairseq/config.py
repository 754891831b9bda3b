"""The options of an encoder, as plain data."""

import dataclasses
from numbers import Integral
from typing import Any, Dict, Mapping

from tupe_fairseq.position import POSITION_OPTIONS, PositionOptions, get_position_encoding


@dataclasses.dataclass(frozen=True)
class TupeConfig(PositionOptions):
    """The options of a :class:`TupeEncoder`; the defaults are the tiny size, TUPE-A.

    Args:
        embed_dim (int): model width.
        num_heads (int): attention heads of a layer; divides ``embed_dim``.
        num_layers (int): encoder layers.
        ffn_embed_dim (int): inner width of the feed-forward networks.
        max_positions (int): the longest sequence, [CLS] included.
        dropout, attention_dropout, activation_dropout (float): dropout probabilities of the
            embedding and the residual branches, of the attention probabilities, and after the
            activation.
        activation_fn (str): name of the activation function of the feed-forward networks.
        normalize_before (bool): pre-LN, with one more LayerNorm after the last layer.
        position_encoding (str): one of ``tupe_fairseq.position.CATALOGUE``.
        rel_pos, rel_pos_buckets, max_rel_pos, ...: see :class:`PositionOptions`.
        attn_impl (str): how attention is computed, one of ``tupe_fairseq.attention.NAMES``.
        unpad (bool): leave padding out of all layers if it is all at the end; hidden states are
            zero there.
        compile_layers (bool): ``torch.compile`` each layer; needs torch 2.2.
    Raises:
        ValueError: if a size is no whole number of at least 1, a probability is not in 0 .. 1, or
            the position encoding is unknown.  What depends on several options, and other names,
            the encoder refuses when it is built.
    """

    embed_dim: int = 128
    num_heads: int = 2
    num_layers: int = 2
    ffn_embed_dim: int = 512
    max_positions: int = 512
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation_dropout: float = 0.0
    activation_fn: str = "gelu"
    normalize_before: bool = False
    position_encoding: str = "tupe"
    attn_impl: str = "auto"
    unpad: bool = False
    compile_layers: bool = False

    def __post_init__(self):
        for name, flag in (
            ("embed_dim", "--encoder-embed-dim"),
            ("num_heads", "--encoder-attention-heads"),
            ("num_layers", "--encoder-layers"),
            ("ffn_embed_dim", "--encoder-ffn-embed-dim"),
            ("max_positions", "--max-positions"),
        ):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(
                    f"{name} ({value}) must be a whole number of at least 1; change {flag}"
                )
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(
                    f"{name} ({value}) must be a probability, 0 .. 1; "
                    f"change --{name.replace('_', '-')}"
                )
        get_position_encoding(self.position_encoding)

    @classmethod
    def from_roberta_options(cls, args) -> "TupeConfig":
        """The config of a model's options under fairseq's names, presets applied.

        Args:
            args (Namespace or DictConfig): RoBERTa's options and ours.
        """
        # a Hydra config of fairseq 0.12.2 gives None for a missing key
        given = {name: getattr(args, name, None) for name in POSITION_OPTIONS}
        return cls(
            embed_dim=args.encoder_embed_dim,
            num_heads=args.encoder_attention_heads,
            num_layers=args.encoder_layers,
            ffn_embed_dim=args.encoder_ffn_embed_dim,
            max_positions=args.max_positions,
            dropout=args.dropout,
            attention_dropout=args.attention_dropout,
            activation_dropout=args.activation_dropout,
            activation_fn=args.activation_fn,
            normalize_before=args.encoder_normalize_before,
            position_encoding=getattr(args, "position_encoding", None) or "tupe",
            attn_impl=args.attn_impl,
            unpad=args.unpad,
            compile_layers=args.compile_layers,
            **{name: value for name, value in given.items() if value is not None},
        )

    @property
    def position_options(self) -> Dict[str, Any]:
        """The options of the position encoding, with the defaults of those that are not given."""
        # not in the fields, where dataclasses.replace would take them for given
        scheme = get_position_encoding(self.position_encoding)
        defaults = scheme.defaults(self.scheme_options)
        options: Dict[str, Any] = {"scheme": self.position_encoding}
        for name, option in POSITION_OPTIONS.items():
            value = getattr(self, name)
            value = defaults.get(name) if value is None else value
            if option.always_recorded or value != option.default:
                options[name] = value
        return options

    @property
    def record(self) -> Dict[str, Any]:
        """What the shapes of a state dict do not tell, so that it is recorded beside them."""
        return {**self.position_options, "num_heads": self.num_heads}

    def check_record(self, theirs: Mapping[str, Any]) -> None:
        """Refuse weights that would fit and silently compute something else.

        Args:
            theirs (mapping): the ``record`` of the config that the weights were made with.
        Raises:
            ValueError: if it differs from this one; the message names each option.
        """
        ours = self.record
        # version 0.1 did not record it
        theirs = {"num_heads": self.num_heads, **theirs}
        # what the flags call it
        flags = {"scheme": "position-encoding", "num_heads": "encoder-attention-heads"}
        differing = [
            f"--{flags.get(name, name).replace('_', '-')} is {theirs.get(name)} in the checkpoint "
            f"and {ours.get(name)} in this model"
            for name in sorted({**theirs, **ours})
            if theirs.get(name) != ours.get(name)
        ]
        if differing:
            raise ValueError(
                "position options differ: " + "; ".join(differing) + "; give the checkpoint's"
            )

    @property
    def scheme_options(self) -> Dict[str, Any]:
        """What :func:`build_position_encoding` is given in addition to the sizes."""
        # the encoder itself adds the vectors again before each layer
        own = "position_each_layer"
        return {name: getattr(self, name) for name in POSITION_OPTIONS if name != own}
