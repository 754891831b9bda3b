"""fairseq's hub interface, with the position bias and the attention weights."""

from typing import List, Optional, Tuple, Union

from fairseq.models.roberta.hub_interface import RobertaHubInterface
from torch import Tensor

from tupe_fairseq.position_terms import PositionTerms, position_terms


class TupeRobertaHub(RobertaHubInterface):
    """What :meth:`TupeRobertaModel.from_pretrained` gives; see fairseq's RobertaHubInterface."""

    def position_bias(self, seq_len: int, layer: Optional[int] = None) -> PositionTerms:
        """What positions alone add to the attention logits, as the softmax sees it.

        Args:
            seq_len (int): number of positions, T, [CLS] included.
            layer (int, optional): the layer, only for schemes with one per layer.
        Shape:
            ``absolute``, ``relative`` and ``sum``, (H, T, T) each, rows are queries; None for a
            term that the scheme does not have.
        Raises:
            ValueError: as :func:`position_terms`: among others if there is no such bias.
        """
        return position_terms(self.model.encoder.sentence_encoder, seq_len, layer)

    def extract_features(
        self, tokens: Tensor, return_all_hiddens: bool = False, return_attention: bool = False
    ) -> Union[Tensor, List[Tensor], Tuple[Union[Tensor, List[Tensor]], List[Tensor]]]:
        """As fairseq's; with ``return_attention`` a pair with the attention weights.

        Shape:
            tokens (L) or (B, L) -> features as fairseq's, and for each layer (B, H, L, L), rows
            are queries; 0 at padded keys.
        Raises:
            ValueError: if there are more tokens than the model's longest sequence.
            ValueError: if ``return_attention`` is asked for in training mode, where dropout
                makes every pass different.
        """
        features = super().extract_features(tokens, return_all_hiddens)
        if not return_attention:
            return features
        encoder = self.model.encoder.sentence_encoder
        tokens = (tokens.unsqueeze(0) if tokens.dim() == 1 else tokens).to(self.device)
        padding = tokens.eq(encoder.embed_tokens.padding_idx)
        return features, encoder.attention_weights(encoder.embed_tokens(tokens), padding)
