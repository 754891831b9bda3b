"""Classification of whole sequences, and regression."""

from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from tupe_fairseq.export.remote.configuration_tupe import TupeConfig
from tupe_fairseq.export.remote.pretrained_model import TupePreTrainedModel
from tupe_fairseq.export.remote.tupe_model import TupeModel
from tupe_fairseq.modules.activations import get_activation_fn
from tupe_fairseq.modules.pooling import get_pooling


def head_dropout(config: TupeConfig) -> nn.Dropout:
    """The dropout of a head for a task."""
    p = config.classifier_dropout
    return nn.Dropout(config.hidden_dropout_prob if p is None else p)


class TupeClassificationHead(nn.Module):
    """out_proj(dropout(activation(dense(dropout(x))))), x = the pooled hidden states.

    Raises:
        ValueError: if ``config.classifier_pooling`` is unknown.
    """

    def __init__(self, config: TupeConfig):
        super().__init__()
        self.pool = get_pooling(config.classifier_pooling)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation_fn = get_activation_fn(config.pooler_activation)
        self.dropout = head_dropout(config)
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, hidden: Tensor, key_padding_mask: Optional[Tensor] = None) -> Tensor:
        """The logits.

        Shape:
            hidden (B, L, D), key_padding_mask bool (B, L), True = padding -> (B, num_labels).
        """
        if key_padding_mask is None:
            key_padding_mask = hidden.new_zeros(hidden.shape[:2], dtype=torch.bool)
        x = self.pool(hidden, ~key_padding_mask).to(hidden.dtype)
        x = self.activation_fn(self.dense(self.dropout(x)))
        return self.out_proj(self.dropout(x))


def classification_loss(config: TupeConfig, logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of ``config.problem_type``, which is filled in from the first labels if None.

    One label is regression; several are classes if the labels are integers, and otherwise
    independent yes-or-no questions.

    Shape:
        logits (B, num_labels); labels (B), for several questions (B, num_labels) -> ().
    """
    if config.problem_type is None:
        if config.num_labels == 1:
            config.problem_type = "regression"
        elif labels.dtype in (torch.long, torch.int):
            config.problem_type = "single_label_classification"
        else:
            config.problem_type = "multi_label_classification"
    logits, labels = logits.float(), labels.to(logits.device)
    if config.problem_type == "regression":
        return F.mse_loss(logits.flatten(), labels.flatten().float())
    if config.problem_type == "single_label_classification":
        return F.cross_entropy(logits, labels.flatten().long())
    return F.binary_cross_entropy_with_logits(logits, labels.float())


class TupeForSequenceClassification(TupePreTrainedModel):
    """TUPE with a head on its first token, or on the mean of all; see ``classifier_pooling``.

    Args:
        config (TupeConfig): the options; ``num_labels`` and ``problem_type`` are transformers'.
    Shape:
        input_ids (B, L) -> logits (B, num_labels).
    Raises:
        ValueError: as :class:`TupeModel`.
    """

    _auto_class = "AutoModelForSequenceClassification"
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.tupe = TupeModel(config)
        self.classifier = TupeClassificationHead(config)
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
    ) -> Union[Tuple, SequenceClassifierOutput]:
        """The logits of each sequence, and with labels their loss.

        Args:
            labels (Tensor, optional): see :func:`classification_loss`.
            input_ids, attention_mask, ...: as :meth:`TupeModel.forward`.
        Shape:
            input_ids (B, L), labels (B) or (B, num_labels) -> logits (B, num_labels).
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
        mask = self.tupe.key_padding_mask(input_ids, attention_mask)
        logits = self.classifier(outputs.last_hidden_state, mask)
        output = SequenceClassifierOutput(
            loss=None if labels is None else classification_loss(self.config, logits, labels),
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
        return output if return_dict else output.to_tuple()
