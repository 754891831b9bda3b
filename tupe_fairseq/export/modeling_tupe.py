"""TUPE for transformers: a Transformer encoder whose positions are untied from its words.

Source: Ke, He and Liu 2021, https://arxiv.org/abs/2006.15595, and for other position encodings the
papers named at their classes. MIT License, Copyright (c) 2026 The tupe_fairseq authors.

Shapes: B sequences of L tokens, N in all without padding, D model width, H heads of width K.
"""

import torch.nn.functional as F
import transformers.modeling_outputs as outputs
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import can_return_tuple

from tupe_fairseq.attention.base import Attention, EagerAttention, SdpaAttention
from tupe_fairseq.attention.sequences import Sequences
from tupe_fairseq.export.configuration_tupe import TupeConfig
from tupe_fairseq.modules.heads import POOLINGS
from tupe_fairseq.modules.transformer import ACTIVATIONS, EncoderStack, TupeMultiheadAttention
from tupe_fairseq.options import POSITION_ENCODINGS

ATTENTION: dict[str, type[Attention]] = {"eager": EagerAttention, "sdpa": SdpaAttention}


def chosen(config: TupeConfig, option: str, names) -> str:
    """The value of an option that has names to choose from."""
    value = getattr(config, option)
    if value not in names:
        raise ValueError(f"{option} {value!r} is not one of {', '.join(names)}")
    return value


class TupeSelfAttention(TupeMultiheadAttention):
    """With one ``nn.Linear`` for queries, keys and values, which LoRA finds."""

    def make_projections(self, dim: int) -> None:
        self.in_proj, self.out_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def reset_parameters(self) -> None:
        """It has none itself."""

    def project(self, x: Tensor) -> Tensor:
        return self.in_proj(x)


class TupeStack(EncoderStack):
    """The layers, with the attention that transformers' ``attn_implementation`` names."""

    attention_module = TupeSelfAttention

    def __init__(self, config: TupeConfig):
        chosen(config, "hidden_act", ACTIVATIONS)
        name = chosen(config, "position_encoding", POSITION_ENCODINGS)
        super().__init__(config, POSITION_ENCODINGS[name])

    def forward(self, x: Tensor, padding: Tensor | None, return_all_hiddens: bool, weights):
        """The arguments are those of :meth:`encode`; ``padding`` is bool (B, L)."""
        least = self.least_padding(x) if weights is None else 2.0
        sequences = Sequences(tuple(x.shape[:2]), x.device, padding, least_padding=least)
        return self.encode(x, sequences, return_all_hiddens, weights=weights)

    def attention_class(self, sequences: Sequences, x: Tensor) -> type[Attention]:
        name = self.config._attn_implementation
        if name not in ATTENTION:
            why = "would lose the positions, a bias of the attention scores"
            raise ValueError(f"attn_implementation {name!r} {why}; choose 'sdpa' or 'eager'")
        return ATTENTION[name]


class TupePreTrainedModel(PreTrainedModel):
    """Initialization, loading and saving; see ``PreTrainedModel``."""

    config_class = TupeConfig
    base_model_prefix = "tupe"
    _keys_to_ignore_on_load_unexpected = [r"^(lm_head|classifier|qa_outputs)\."]  # other heads
    supports_gradient_checkpointing = True
    _no_split_modules = ["TupeStack"]  # its layers share a bias, which stays on one device
    _supports_sdpa = True
    accepts_loss_kwargs = False  # or Trainer leaves it to the loss to count accumulated batches

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True

    def _init_weights(self, module: nn.Module) -> None:
        """BERT's: N(0, ``initializer_range``); biases and the embedding of padding are zero."""
        if all(getattr(x, "_is_hf_initialized", False) for x in module.parameters(recurse=False)):
            return
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
            if getattr(module, "padding_idx", None) is not None:
                nn.init.zeros_(module.weight[module.padding_idx])
        elif hasattr(module, "reset_parameters"):  # a LayerNorm, or of a position encoding
            module.reset_parameters()


class TupeModel(TupePreTrainedModel):
    """Hidden states from token ids. Position 0 is [CLS]; padding is on the right."""

    _auto_class = "AutoModel"

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.encoder = TupeStack(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None,
        output_attentions=None, output_hidden_states=None, **kwargs,
    ):  # fmt: skip
        """0 in ``attention_mask`` (B, L) is padding, on the right; unchecked in a traced model."""
        unknown = [name for name, value in kwargs.items() if value is not None]
        if unknown:
            raise TypeError(
                f"the model takes no {', '.join(unknown)}: it has one type of tokens, counts their "
                "positions itself, and masks no heads"
            )
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        mask = self.mask_of(input_ids, attention_mask)
        if x.size(1) == 0:
            raise ValueError("the sequences are empty; each needs at least 1 token")
        if mask is not None and mask.shape != x.shape[:2]:
            raise ValueError(
                f"attention_mask is {tuple(mask.shape)}, but must be (B, L), {tuple(x.shape[:2])}"
            )
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        padding, weights = None if mask is None else ~mask, [] if output_attentions else None
        out = self.encoder(x, padding, bool(output_hidden_states), weights)
        x, hidden_states = out if output_hidden_states else (out, None)
        if hidden_states and self.config.normalize_before:
            hidden_states[-1] = x
        return outputs.BaseModelOutput(
            last_hidden_state=x,
            hidden_states=hidden_states and tuple(hidden_states),
            attentions=weights and tuple(weights),
        )

    def mask_of(self, input_ids, attention_mask) -> Tensor | None:
        """True where there is a token, (B, L)."""
        if attention_mask is not None:
            return attention_mask != 0
        return None if input_ids is None else input_ids != self.config.pad_token_id


class TupeLMHead(nn.Module):
    def __init__(self, config: TupeConfig):
        super().__init__()
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.layer_norm(self.activation(self.dense(x))))


class TupeForMaskedLM(TupePreTrainedModel):
    _auto_class = "AutoModelForMaskedLM"
    _tied_weights_keys = {"lm_head.decoder.weight": "tupe.embed_tokens.weight"}

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.lm_head = TupeLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head.decoder = new_embeddings

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None, **kwargs
    ):
        """``labels`` (B, L) are -100 where no word is to be predicted."""
        out = self.tupe(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        logits, loss = self.lm_head(out.last_hidden_state), None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return outputs.MaskedLMOutput(loss, logits, out.hidden_states, out.attentions)


class TupeClassificationHead(nn.Module):
    """fairseq's: a hidden layer on the first token, or with ``classifier_pooling`` mean on all."""

    def __init__(self, config: TupeConfig, classes: int | None = None):
        super().__init__()
        self.pooling = chosen(config, "classifier_pooling", POOLINGS)
        self.activation = ACTIVATIONS[chosen(config, "pooler_activation", ACTIVATIONS)]
        self.dropout = nn.Dropout(config.head_dropout)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.out_proj = nn.Linear(config.hidden_size, classes or config.num_labels)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        mask = x.new_ones(x.shape[:2]) if mask is None else mask
        x = POOLINGS[self.pooling](x, mask).to(x.dtype)
        return self.out_proj(self.dropout(self.activation(self.dense(self.dropout(x)))))


class TupeForSequenceClassification(TupePreTrainedModel):
    _auto_class = "AutoModelForSequenceClassification"

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.tupe = TupeModel(config)
        self.classifier = TupeClassificationHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None, **kwargs
    ):
        """``labels``: (B) classes or scores, or (B, num_labels) for independent labels."""
        out = self.tupe(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        mask = self.tupe.mask_of(input_ids, attention_mask)
        logits, loss = self.classifier(out.last_hidden_state, mask), None
        if labels is not None:
            values = {"pooled_logits": logits.float(), "labels": labels}
            loss = self.loss_function(**values, config=self.config)
        return outputs.SequenceClassifierOutput(loss, logits, out.hidden_states, out.attentions)


class TupeForMultipleChoice(TupePreTrainedModel):
    _auto_class = "AutoModelForMultipleChoice"

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.classifier = TupeClassificationHead(config, classes=1)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None, **kwargs
    ):
        """Ids (B, C, L) or ``inputs_embeds`` (B, C, L, D); ``labels`` (B): the right candidates."""
        inputs = (input_ids, attention_mask, inputs_embeds)
        flat = [None if x is None else x.flatten(0, 1) for x in inputs]
        out = self.tupe(*flat, return_dict=True, **kwargs)
        scores = self.classifier(out.last_hidden_state, self.tupe.mask_of(*flat[:2]))
        candidates = (input_ids if inputs_embeds is None else inputs_embeds).size(1)
        logits, loss = scores.view(-1, candidates), None
        if labels is not None:
            loss = F.cross_entropy(logits.float(), labels.flatten())
        return outputs.MultipleChoiceModelOutput(loss, logits, out.hidden_states, out.attentions)


class TupeForTokenClassification(TupePreTrainedModel):
    _auto_class = "AutoModelForTokenClassification"

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.tupe = TupeModel(config)
        self.dropout = nn.Dropout(config.head_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None, **kwargs
    ):
        """``labels`` (B, L) are -100 for tokens without a label."""
        out = self.tupe(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        logits, loss = self.classifier(self.dropout(out.last_hidden_state)), None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        return outputs.TokenClassifierOutput(loss, logits, out.hidden_states, out.attentions)


class TupeForQuestionAnswering(TupePreTrainedModel):
    _auto_class = "AutoModelForQuestionAnswering"

    def __init__(self, config: TupeConfig):
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, start_positions=None,
        end_positions=None, **kwargs,
    ):  # fmt: skip
        """Positions (B) beyond the sequence have no loss."""
        out = self.tupe(input_ids, attention_mask, inputs_embeds, return_dict=True, **kwargs)
        start, end = self.qa_outputs(out.last_hidden_state).unbind(-1)
        loss = self.loss_function(start.float(), end.float(), start_positions, end_positions)
        states = out.hidden_states, out.attentions
        return outputs.QuestionAnsweringModelOutput(loss, start, end, *states)
