"""The options of an encoder, as plain data."""

import dataclasses
from typing import Any, Dict, Optional


@dataclasses.dataclass(frozen=True)
class TupeConfig:
    """The options of a :class:`TupeEncoder`; the defaults are the tiny size, TUPE-A.

    Args:
        embed_dim (int): model width.
        num_heads (int): attention heads a layer; divides ``embed_dim``.
        num_layers (int): encoder layers.
        ffn_embed_dim (int): inner width of the feed-forward networks.
        max_positions (int): the longest sequence, [CLS] included.
        dropout, attention_dropout, activation_dropout (float): dropout probabilities of the
            embedding and the residual branches, of the attention probabilities, and after the
            activation.
        activation_fn (str): name of the activation function of the feed-forward networks.
        normalize_before (bool): pre-LN, with one more LayerNorm after the last layer.
        position_encoding (str): one of ``tupe_fairseq.position.CATALOGUE``.
        rel_pos (bool): add T5's bucketed bias: with tupe TUPE-R instead of TUPE-A.
        rel_pos_buckets, max_rel_pos (int, optional): see :class:`RelativePositionBias`; 32 and
            128 with ``rel_pos``.
        tie_cls, untie_cls, symmetric_basis (bool): see the schemes that take them.
        position_each_layer (bool): add the scheme's input vectors before every further layer too.
        attn_impl (str): how attention is computed, one of ``tupe_fairseq.attention.NAMES``.
        unpad (bool): leave out padding from all layers, where it is all at the end; hidden states
            are zero there.
        compile_layers (bool): ``torch.compile`` each layer; needs torch 2.2.
    Raises:
        ValueError: if a size is less than 1 or a probability not in 0 .. 1.
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
    rel_pos: bool = False
    rel_pos_buckets: Optional[int] = None
    max_rel_pos: Optional[int] = None
    tie_cls: bool = False
    untie_cls: bool = False
    symmetric_basis: bool = False
    position_each_layer: bool = False
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
            if value < 1:
                raise ValueError(f"{name} ({value}) must be at least 1; change {flag}")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(
                    f"{name} ({value}) must be a probability, 0 .. 1; "
                    f"change --{name.replace('_', '-')}"
                )
        if self.rel_pos:
            self._fill(rel_pos_buckets=32, max_rel_pos=128)
        elif self.position_encoding == "shaw":
            self._fill(max_rel_pos=16)

    def _fill(self, **defaults) -> None:
        """Set what is not given, so that it is recorded and compared as what it is."""
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)

    @classmethod
    def from_roberta_options(cls, args) -> "TupeConfig":
        """The config of a model's options under fairseq's names, presets applied.

        Args:
            args (Namespace or DictConfig): RoBERTa's options and ours.
        """
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
            rel_pos=args.rel_pos,
            rel_pos_buckets=getattr(args, "rel_pos_buckets", None),
            max_rel_pos=getattr(args, "max_rel_pos", None),
            tie_cls=args.tie_cls,
            untie_cls=bool(getattr(args, "untie_cls", False)),
            symmetric_basis=bool(getattr(args, "symmetric_basis", False)),
            position_each_layer=bool(getattr(args, "position_each_layer", False)),
            attn_impl=args.attn_impl,
            unpad=args.unpad,
            compile_layers=args.compile_layers,
        )

    @property
    def position_options(self) -> Dict[str, Any]:
        """The options of the position encoding, by which two checkpoints are told apart."""
        options = {"scheme": self.position_encoding}
        for name in ("rel_pos", "rel_pos_buckets", "max_rel_pos", "tie_cls"):
            options[name] = getattr(self, name)
        # only where given: checkpoints of TUPE hold the four above
        for name in ("untie_cls", "symmetric_basis", "position_each_layer"):
            if getattr(self, name):
                options[name] = True
        return options

    @property
    def scheme_options(self) -> Dict[str, Any]:
        """What :func:`build_position_encoding` is given beside the sizes."""
        names = (
            "rel_pos", "rel_pos_buckets", "max_rel_pos", "tie_cls", "untie_cls", "symmetric_basis",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}
