"""The span of a text that answers a question."""

from typing import Optional, Tuple, Union

import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_outputs import QuestionAnsweringModelOutput

from tupe_fairseq.export.remote.configuration_tupe import TupeConfig
from tupe_fairseq.export.remote.pretrained_model import TupePreTrainedModel
from tupe_fairseq.export.remote.tupe_model import TupeModel


class TupeForQuestionAnswering(TupePreTrainedModel):
    """TUPE with two scores on every token: that the answer begins there, and that it ends there.

    Args:
        config (TupeConfig): the options.
    Shape:
        input_ids (B, L) -> start_logits and end_logits (B, L).
    Raises:
        ValueError: as :class:`TupeModel`.
    """

    _auto_class = "AutoModelForQuestionAnswering"
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.", r"^classifier\."]

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    def forward(
        self,
        input_ids: Optional[Tensor] = None,
        attention_mask: Optional[Tensor] = None,
        inputs_embeds: Optional[Tensor] = None,
        start_positions: Optional[Tensor] = None,
        end_positions: Optional[Tensor] = None,
        output_attentions: Optional[bool] = None,
        output_hidden_states: Optional[bool] = None,
        return_dict: Optional[bool] = None,
    ) -> Union[Tuple, QuestionAnsweringModelOutput]:
        """The two scores of each token, and with positions the mean of their losses.

        Args:
            start_positions, end_positions (Tensor, optional): where answers begin and end; beyond
                the sequence for an answer that it does not hold, which has no loss.
            input_ids, attention_mask, ...: as :meth:`TupeModel.forward`.
        Shape:
            input_ids (B, L), start_positions, end_positions (B) -> two times (B, L).
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
        start_logits, end_logits = self.qa_outputs(outputs.last_hidden_state).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            length = start_logits.size(1)
            losses = [
                F.cross_entropy(
                    logits.float(),
                    positions.flatten().to(logits.device).clamp(0, length),
                    ignore_index=length,
                )
                for logits, positions in (
                    (start_logits, start_positions),
                    (end_logits, end_positions),
                )
            ]
            loss = (losses[0] + losses[1]) / 2
        output = QuestionAnsweringModelOutput(
            loss=loss,
            start_logits=start_logits,
            end_logits=end_logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
        return output if return_dict else output.to_tuple()
