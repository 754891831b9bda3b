"""The encoder with its word embedding: hidden states from token ids."""

from typing import Optional, Tuple, Union

from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from tupe_fairseq.export.remote.checkpointed_stack import TupeStack
from tupe_fairseq.export.remote.configuration_tupe import TupeConfig
from tupe_fairseq.export.remote.pretrained_model import TupePreTrainedModel
from tupe_fairseq.position.catalogue import get_position_encoding


class TupeModel(TupePreTrainedModel):
    """TUPE's encoder over token ids.

    Position 0 is that of the first token, ``<s>`` ([CLS]); padding is on the right.

    Args:
        config (TupeConfig): the options.
    Shape:
        input_ids (B, L) -> last_hidden_state (B, L, D); at padding finite and undefined, zero
        with ``config.unpad``.
    Raises:
        ValueError: as :class:`TupePreTrainedModel` and :class:`EncoderStack`.
    """

    _auto_class = "AutoModel"
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.", r"^classifier\.", r"^qa_outputs\."]

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.encoder = TupeStack(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.embed_tokens = value

    def forward(
        self,
        input_ids: Optional[Tensor] = None,
        attention_mask: Optional[Tensor] = None,
        inputs_embeds: Optional[Tensor] = None,
        output_attentions: Optional[bool] = None,
        output_hidden_states: Optional[bool] = None,
        return_dict: Optional[bool] = None,
    ) -> Union[Tuple, BaseModelOutput]:
        """The hidden states of a batch.

        Args:
            input_ids (Tensor): token ids.
            attention_mask (Tensor, optional): 1 = token, 0 = padding, which is on the right; if
                None, ``pad_token_id`` marks padding, and ``inputs_embeds`` have none.
            inputs_embeds (Tensor): word embeddings, in place of ``input_ids``.
            output_attentions (bool): also give ``attentions``, the probabilities of each layer,
                rows are queries, without dropout; computed apart from the pass, so they cost as
                much again.
            output_hidden_states (bool): also give ``hidden_states``: the embedding output, then
                the output of each layer, the last after the final LayerNorm of pre-LN.
            return_dict (bool): False gives a tuple.
        Shape:
            input_ids, attention_mask (B, L), inputs_embeds (B, L, D) -> last_hidden_state and each
            of hidden_states (B, L, D), each of attentions (B, H, L, L).
        Raises:
            ValueError: if both or neither of ``input_ids`` and ``inputs_embeds`` are given, there
                are more tokens than positions, or padding comes first.
        """
        config = self.config
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        if output_attentions is None:
            output_attentions = config.output_attentions
        if output_hidden_states is None:
            output_hidden_states = config.output_hidden_states
        mask = self.key_padding_mask(input_ids, attention_mask)
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        self._check_length(inputs_embeds.size(1))

        with_hiddens = bool(output_hidden_states or output_attentions)
        outputs = self.encoder(inputs_embeds, mask, return_all_hiddens=with_hiddens)
        last, hiddens = outputs if with_hiddens else (outputs, [])
        attentions = None
        if output_attentions:
            padding = self.encoder.checked_padding(inputs_embeds, mask)
            attentions = tuple(self.encoder.weights_of(hiddens, padding))
        output = BaseModelOutput(
            last_hidden_state=last,
            hidden_states=(*hiddens[:-1], last) if output_hidden_states else None,
            attentions=attentions,
        )
        return_dict = config.return_dict if return_dict is None else return_dict
        return output if return_dict else output.to_tuple()

    def key_padding_mask(
        self, input_ids: Optional[Tensor], attention_mask: Optional[Tensor]
    ) -> Optional[Tensor]:
        """What is padding, bool (B, L); None if nothing is. See :meth:`forward`."""
        if attention_mask is not None:
            return attention_mask == 0
        pad = self.config.pad_token_id
        return None if input_ids is None or pad is None else input_ids == pad

    def _check_length(self, length: int) -> None:
        has_table = get_position_encoding(self.config.position_encoding).TABLE is not None
        longest = self.config.max_position_embeddings
        if has_table and length > longest:
            raise ValueError(
                f"the input has {length} tokens, but the model has {longest} positions "
                "(max_position_embeddings); truncate it: tokenizer(..., truncation=True, "
                f"max_length={longest})"
            )
