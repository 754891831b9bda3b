"""The options of a TUPE model, as transformers keeps them in config.json.

Source: Ke, He and Liu 2021, https://arxiv.org/abs/2006.15595.
"""

from transformers import PretrainedConfig

#: what transformers' Auto classes load for this model
AUTO_MAP = {
    "AutoConfig": "configuration_tupe.TupeConfig",
    "AutoModel": "modeling_tupe.TupeModel",
    "AutoModelForPreTraining": "modeling_tupe.TupeForMaskedLM",
    "AutoModelForMaskedLM": "modeling_tupe.TupeForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_tupe.TupeForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_tupe.TupeForTokenClassification",
    "AutoModelForQuestionAnswering": "modeling_tupe.TupeForQuestionAnswering",
    "AutoModelForMultipleChoice": "modeling_tupe.TupeForMultipleChoice",
}

#: the options of position encodings
POSITION_OPTIONS = {
    # T5's bias, as TUPE-R adds it; for tupe, learned, sinusoidal, none and disentangled
    "rel_pos": False,
    "rel_pos_buckets": None,  # also for deberta
    "max_rel_pos": None,  # the distance from which on there is one bucket; also for shaw, deberta
    "tie_cls": False,  # [CLS] is an ordinary position; for tupe
    "untie_cls": False,  # [CLS] has position scores of its own; for alibi, and with rel_pos
    "symmetric_basis": False,  # the sign of the distance does not count; for enformer
    "position_each_layer": False,  # position vectors before every layer; learned and sinusoidal
    "rope_base": None,
    "rope_share": None,  # of the pairs that rope rotates
    "one_way_heads": False,  # half of the heads see no later keys, the others no earlier ones
}

#: all options, with the defaults of the base size, TUPE-A
DEFAULTS = {
    "vocab_size": 32768,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,  # divides hidden_size
    "intermediate_size": 3072,  # inner width of the feed-forward networks
    "max_position_embeddings": 512,  # the limit of a table of positions; else a unit of length
    "hidden_act": "gelu",  # also of the LM head: gelu, gelu_accurate, linear, relu or tanh
    "hidden_dropout_prob": 0.1,  # of the embedding and the residual branches
    "attention_probs_dropout_prob": 0.1,
    "activation_dropout": 0.0,
    "classifier_dropout": None,  # of the task heads; hidden_dropout_prob if None
    "pooler_activation": "tanh",  # of the head for sequence classification
    "classifier_pooling": "cls",  # what it gets: cls, the first token's hidden state, or mean
    "normalize_before": False,  # pre-LN, with one more LayerNorm after the last layer
    "position_encoding": "tupe",  # or another name of POSITION_ENCODINGS in modeling_tupe.py
    **POSITION_OPTIONS,
    "initializer_range": 0.02,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "mask_token_id": None,
    "tie_word_embeddings": True,  # the LM head shares the matrix of the word embedding
    "classification_head_name": None,  # in fairseq's checkpoint
    "vocabulary_version": None,  # a hash of fairseq's dictionary
    "tupe_fairseq_version": None,  # what exported the model
}


class TupeConfig(PretrainedConfig):
    """The options of the TUPE models, ``DEFAULTS``."""

    model_type = "tupe"
    attribute_map = {  # the names that the encoder uses
        "embed_dim": "hidden_size", "ffn_embed_dim": "intermediate_size",
        "num_layers": "num_hidden_layers", "num_heads": "num_attention_heads",
        "max_positions": "max_position_embeddings", "activation_fn": "hidden_act",
        "dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob",
    }  # fmt: skip
    _auto_class = "AutoConfig"  # a model that is saved takes this file along

    def __init__(self, **kwargs):
        kwargs["auto_map"] = {**AUTO_MAP, **(kwargs.get("auto_map") or {})}
        super().__init__(**{**DEFAULTS, **kwargs})

    @property
    def head_dropout(self) -> float:
        dropout = self.classifier_dropout
        return self.hidden_dropout_prob if dropout is None else dropout

    @property
    def position_options(self) -> dict:
        """The options of the position encoding that are given."""
        options = {name: getattr(self, name) for name in POSITION_OPTIONS}
        return {name: value for name, value in options.items() if value not in (None, False)}
