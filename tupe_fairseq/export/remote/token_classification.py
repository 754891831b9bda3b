"""A class for each token."""

from typing import Optional, Tuple, Union

import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_outputs import TokenClassifierOutput

from tupe_fairseq.export.remote.configuration_tupe import TupeConfig
from tupe_fairseq.export.remote.pretrained_model import TupePreTrainedModel
from tupe_fairseq.export.remote.sequence_classification import head_dropout
from tupe_fairseq.export.remote.tupe_model import TupeModel


class TupeForTokenClassification(TupePreTrainedModel):
    """TUPE with a linear layer on every token.

    Args:
        config (TupeConfig): the options; ``num_labels`` is transformers'.
    Shape:
        input_ids (B, L) -> logits (B, L, num_labels).
    Raises:
        ValueError: as :class:`TupeModel`.
    """

    _auto_class = "AutoModelForTokenClassification"
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.tupe = TupeModel(config)
        self.dropout = head_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Optional[Tensor] = None,
        attention_mask: Optional[Tensor] = None,
        inputs_embeds: Optional[Tensor] = None,
        labels: Optional[Tensor] = None,
        output_attentions: Optional[bool] = None,
        output_hidden_states: Optional[bool] = None,
        return_dict: Optional[bool] = None,
    ) -> Union[Tuple, TokenClassifierOutput]:
        """The logits of each token, and the loss of those with a label.

        Args:
            labels (Tensor, optional): classes, -100 for tokens without one; gives the mean
                cross-entropy.
            input_ids, attention_mask, ...: as :meth:`TupeModel.forward`.
        Shape:
            input_ids, labels (B, L) -> logits (B, L, num_labels).
        """
        return_dict = self.config.return_dict if return_dict is None else return_dict
        outputs = self.tupe(
            input_ids,
            attention_mask,
            inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten().to(logits.device))
        output = TokenClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
        return output if return_dict else output.to_tuple()
