"""fairseq's hub interface, with the position bias, the attention weights and predictions."""

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch.nn.functional as F
from fairseq.models.roberta.hub_interface import RobertaHubInterface
from torch import LongTensor, Tensor

from tupe_fairseq.plugin.model.hub_predictor import hub_predictor
from tupe_fairseq.plugin.model.mean_pooling_head import head_outputs
from tupe_fairseq.position_terms import PositionTerms, position_terms


class TupeRobertaHub(RobertaHubInterface):
    """What :meth:`TupeRobertaModel.from_pretrained` gives; see fairseq's RobertaHubInterface.

    Attributes:
        places (sequence of str): folders with the vocabulary and the report.json of the data.
    """

    places: Sequence[str] = ()

    def predict_texts(self, texts: Sequence[Union[str, Sequence[str]]]) -> List[Dict[str, Any]]:
        """What a fine-tuned model predicts for texts, as ``tupe-predict`` does.

        Args:
            texts (sequence): texts; pairs of them, if the model takes pairs; for a tagging,
                sentences as lists of words.
        Returns:
            list of dict: for each label and probability; score; labels and probabilities; or tags.
        Raises:
            FileNotFoundError: if the vocabulary or the data's report.json is not beside the
                checkpoint nor in the folder that ``from_pretrained`` was given.
            ValueError: if the model has no head, was trained for another task than the report
                describes, or is in training mode; if there are more or fewer texts than it takes.
        """
        return hub_predictor(self)(texts)

    def predict(self, head: str, tokens: LongTensor, return_logits: bool = False) -> Tensor:
        """As fairseq's, with the pooling that the model was trained with.

        Shape:
            tokens (L) or (B, L) -> (B, C).
        Raises:
            ValueError: as :meth:`extract_features`.
        """
        tokens = tokens.to(self.device)
        features = self.extract_features(tokens)
        real = tokens.view(features.shape[:2]).ne(self.model.encoder.padding_idx)
        logits = head_outputs(self.model.classification_heads[head], features, real)
        return logits if return_logits else F.log_softmax(logits, dim=-1)

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
        self._check_length(tokens.size(-1))
        features = super().extract_features(tokens, return_all_hiddens)
        if not return_attention:
            return features
        encoder = self.model.encoder.sentence_encoder
        tokens = (tokens.unsqueeze(0) if tokens.dim() == 1 else tokens).to(self.device)
        padding = tokens.eq(encoder.embed_tokens.padding_idx)
        return features, encoder.attention_weights(encoder.embed_tokens(tokens), padding)

    def decode(self, tokens: Tensor) -> Union[str, List[str]]:
        """As fairseq's, which takes tokens on the CPU alone.

        Shape:
            tokens (L), on any device -> the text; of a pair, a list of both.
        Raises:
            ValueError: if it is not one sequence.
        """
        if tokens.dim() != 1 or len(tokens) == 0:
            raise ValueError(
                f"tokens of the shape {tuple(tokens.shape)} are not one sequence, (L); give one "
                "row of a batch at a time"
            )
        return super().decode(tokens.cpu())

    def _check_length(self, length: int) -> None:
        longest = self.model.max_positions()
        if length > longest:
            raise ValueError(
                f"the text has more tokens, <s> and </s> included, than the model takes: {length} "
                f"> {longest}; shorten it, or use predict_texts or tupe-predict, which cut as in "
                "training"
            )
