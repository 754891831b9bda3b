"""The encoder, built from a config that its state dict records."""

from typing import Callable, Dict, List, Optional, Tuple, Union, cast

import torch
from torch import Tensor, nn

from tupe_fairseq.attention import Documents
from tupe_fairseq.config import TupeConfig
from tupe_fairseq.encoder_stack import EncoderStack
from tupe_fairseq.modules import TupeEncoderLayer, check_embeddings, check_mask
from tupe_fairseq.position import PositionEncoding
from tupe_fairseq.recorded_options import RecordedOptions


class TupeEncoder(RecordedOptions, EncoderStack):
    """An :class:`EncoderStack` whose state dict records its options.

    It computes what the stack does, from a :class:`TupeConfig`; its state dict says with which
    options, and is refused by an encoder with others.

    Args:
        config (TupeConfig): the options.
        wrap_layer, layer_list (callable): as :class:`EncoderStack`.
    Shape:
        as :class:`EncoderStack`: embeddings (B, L, D), key_padding_mask bool (B, L), True =
        padding -> (B, L, D), with ``return_all_hiddens`` also a list of such.  With
        ``document_starts``, bool (B, L), zero at padding.
    Dtype and device: those of the parameters.
    Raises:
        ValueError: if ``config.compile_layers`` and torch cannot compile a module.
        ValueError, TypeError, RuntimeError: as :class:`EncoderStack`.
        ValueError: on loading a state dict made with other position options or another number of
            heads, which would fit and silently compute something else; on loading a whole one
            that does not say with which.
    """

    def __init__(
        self,
        config: TupeConfig,
        *,
        wrap_layer: Callable[[nn.Module], nn.Module] = lambda layer: layer,
        layer_list: Callable[[List[nn.Module]], nn.ModuleList] = nn.ModuleList,
    ):
        if config.compile_layers and not hasattr(nn.Module, "compile"):
            raise ValueError(
                f"--compile-layers needs torch 2.2 or later, and this is {torch.__version__}; "
                "drop the flag"
            )
        super().__init__(config, wrap_layer=wrap_layer, layer_list=layer_list)
        self.record_options()

    def build_layer(self) -> TupeEncoderLayer:
        layer = super().build_layer()
        if self.config.compile_layers:
            layer.compile(dynamic=True)
        return layer

    def forward(
        self,
        embeddings: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
        document_starts: Optional[Tensor] = None,
    ) -> Union[Tensor, Tuple[Tensor, List[Tensor]]]:
        """As :meth:`EncoderStack.forward`; several documents in a row can be kept apart.

        Args:
            document_starts (Tensor, optional): True = the first token of a document, which has
                position 0, so that it is [CLS] of this document.  Each is encoded as if it were
                alone, at the cost of doing so: no mask of L x L is made.  None if a row is one.
        Shape:
            embeddings (B, L, D), key_padding_mask, document_starts bool (B, L) -> (B, L, D), and a
            list of such.
        Raises:
            ValueError, TypeError: as :class:`Documents`.
            ValueError, TypeError, RuntimeError: as :class:`EncoderStack`.
        """
        if document_starts is None:
            return super().forward(embeddings, key_padding_mask, return_all_hiddens)
        check_embeddings(embeddings, self.config.embed_dim)
        if key_padding_mask is None:
            key_padding_mask = embeddings.new_zeros(embeddings.shape[:2], dtype=torch.bool)
        check_mask(key_padding_mask, embeddings)
        documents = Documents(document_starts, key_padding_mask)
        return self.encode(documents.pack(embeddings), documents, return_all_hiddens)

    def position_encodings(self) -> Dict[Optional[int], PositionEncoding]:
        """{None: the shared position encoding}, or {layer number: its position encoding}."""
        if self.position is not None:
            return {None: self.position}
        layers = (cast(TupeEncoderLayer, self.layers[n]) for n in range(self.config.num_layers))
        return {n: cast(PositionEncoding, x.self_attn.position) for n, x in enumerate(layers)}

    def attention_weights(
        self, embeddings: Tensor, key_padding_mask: Optional[Tensor] = None
    ) -> List[Tensor]:
        """The probabilities of attention in each layer, without dropout; for inspection.

        Shape:
            embeddings (B, L, D) -> for each layer (B, H, L, L), rows are queries; 0 at padded keys.
        Raises:
            ValueError: in training mode, where dropout makes every pass different and LayerDrop
                leaves out layers; else as :meth:`forward`.
        """
        if self.training:
            raise ValueError(
                "these are the weights of attention without dropout, but the model is in training "
                "mode; call eval() first"
            )
        padding = self.checked_padding(embeddings, key_padding_mask)
        _, hiddens = self.encode(embeddings, padding, return_all_hiddens=True)
        return self.weights_of(hiddens, padding)
