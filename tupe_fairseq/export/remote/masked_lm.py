"""Masked language modeling: which word stands under a mask."""

from typing import Optional, Tuple, Union

import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput

from tupe_fairseq.export.remote.configuration_tupe import TupeConfig
from tupe_fairseq.export.remote.pretrained_model import TupePreTrainedModel
from tupe_fairseq.export.remote.tupe_model import TupeModel
from tupe_fairseq.modules.activations import get_activation_fn


class TupeLMHead(nn.Module):
    """LN(activation(dense(x))) times the word embedding, or a matrix of its own, plus a bias."""

    def __init__(self, config: TupeConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation_fn = get_activation_fn(config.hidden_act)
        self.layer_norm = nn.LayerNorm(config.hidden_size)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.layer_norm(self.activation_fn(self.dense(x))))


class TupeForMaskedLM(TupePreTrainedModel):
    """TUPE with the head that it is pre-trained with.

    Args:
        config (TupeConfig): the options.
    Shape:
        input_ids (B, L) -> logits (B, L, V).
    Raises:
        ValueError: as :class:`TupeModel`.
    """

    _auto_class = "AutoModelForMaskedLM"
    _tied_weights_keys = {"lm_head.decoder.weight": "tupe.embed_tokens.weight"}
    _keys_to_ignore_on_load_unexpected = [r"^classifier\.", r"^qa_outputs\."]

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.lm_head = TupeLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head.decoder = new_embeddings

    def forward(
        self,
        input_ids: Optional[Tensor] = None,
        attention_mask: Optional[Tensor] = None,
        inputs_embeds: Optional[Tensor] = None,
        labels: Optional[Tensor] = None,
        output_attentions: Optional[bool] = None,
        output_hidden_states: Optional[bool] = None,
        return_dict: Optional[bool] = None,
    ) -> Union[Tuple, MaskedLMOutput]:
        """The logits of all tokens, and the loss of those with a label.

        Args:
            labels (Tensor, optional): the tokens under the masks, -100 elsewhere; gives the mean
                cross-entropy.
            input_ids, attention_mask, ...: as :meth:`TupeModel.forward`.
        Shape:
            input_ids, labels (B, L) -> logits (B, L, V).
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
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten().to(logits.device))
        output = MaskedLMOutput(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
        return output if return_dict else output.to_tuple()
