"""The options of a TUPE model, as transformers keeps them in config.json.

Source: Ke, He and Liu 2021, https://arxiv.org/abs/2006.15595.
"""

from transformers import PretrainedConfig

#: what transformers' Auto classes load for this model
AUTO_MAP = {
    "AutoConfig": "configuration_tupe.TupeConfig",
    "AutoModel": "modeling_tupe.TupeModel",
    "AutoModelForMaskedLM": "modeling_tupe.TupeForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_tupe.TupeForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_tupe.TupeForTokenClassification",
    "AutoModelForQuestionAnswering": "modeling_tupe.TupeForQuestionAnswering",
}


class TupeConfig(PretrainedConfig):
    """The options of the TUPE models; the defaults are the base size, TUPE-A.

    Args:
        vocab_size (int): rows of the word embedding.
        hidden_size (int): model width.
        num_hidden_layers (int): encoder layers.
        num_attention_heads (int): attention heads of a layer; divides ``hidden_size``.
        intermediate_size (int): inner width of the feed-forward networks.
        max_position_embeddings (int): the longest sequence; a limit for the position encodings
            with a table of positions, for the others at most a unit of length.
        hidden_act (str): activation of feed-forward networks and LM head: gelu, gelu_accurate,
            linear, relu or tanh.
        hidden_dropout_prob, attention_probs_dropout_prob, activation_dropout (float): dropout
            probabilities of the embedding and the residual branches, of the attention
            probabilities, and after the activation.
        classifier_dropout (float, optional): that of the task heads; ``hidden_dropout_prob`` if
            None.
        pooler_activation (str): activation of the head for sequence classification.
        classifier_pooling (str): what that head gets: cls, the hidden state of the first token, or
            mean, that of all tokens.
        normalize_before (bool): pre-LN, with one more LayerNorm after the last layer.
        position_encoding (str): tupe, learned, sinusoidal, none, transformer-xl, enformer, rope,
            alibi, shaw or disentangled.
        rel_pos (bool): add the bucketed relative bias, as TUPE-R does; for tupe, learned,
            sinusoidal, none and disentangled.
        rel_pos_buckets, max_rel_pos (int, optional): number of its buckets, and the distance from
            which there is one bucket per direction; ``max_rel_pos`` also for shaw.
        tie_cls (bool): treat [CLS] as an ordinary position; for tupe.
        untie_cls (bool): give [CLS] position scores of its own; for alibi, and with ``rel_pos``.
        symmetric_basis (bool): the distance counts, its sign does not; for enformer.
        position_each_layer (bool): add the position vectors again before every layer; for learned
            and sinusoidal.
        initializer_range (float): standard deviation of new weights.
        pad_token_id, bos_token_id, eos_token_id, mask_token_id (int): the special tokens.
        tie_word_embeddings (bool): the LM head shares the matrix of the word embedding.
        classification_head_name (str, optional): the name of the head in fairseq's checkpoint.
        vocabulary_version (int, optional): a hash of fairseq's dictionary.
        tupe_fairseq_version (str, optional): the version that exported the model.
        kwargs: what every ``PretrainedConfig`` takes.
    """

    model_type = "tupe"
    # a model that is saved takes this file along
    _auto_class = "AutoConfig"

    def __init__(
        self,
        vocab_size: int = 32768,
        hidden_size: int = 768,
        num_hidden_layers: int = 12,
        num_attention_heads: int = 12,
        intermediate_size: int = 3072,
        max_position_embeddings: int = 512,
        hidden_act: str = "gelu",
        hidden_dropout_prob: float = 0.1,
        attention_probs_dropout_prob: float = 0.1,
        activation_dropout: float = 0.0,
        classifier_dropout: float | None = None,
        pooler_activation: str = "tanh",
        classifier_pooling: str = "cls",
        normalize_before: bool = False,
        position_encoding: str = "tupe",
        rel_pos: bool = False,
        rel_pos_buckets: int | None = None,
        max_rel_pos: int | None = None,
        tie_cls: bool = False,
        untie_cls: bool = False,
        symmetric_basis: bool = False,
        position_each_layer: bool = False,
        initializer_range: float = 0.02,
        pad_token_id: int = 1,
        bos_token_id: int = 0,
        eos_token_id: int = 2,
        mask_token_id: int | None = None,
        tie_word_embeddings: bool = True,
        classification_head_name: str | None = None,
        vocabulary_version: int | None = None,
        tupe_fairseq_version: str | None = None,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.max_position_embeddings = max_position_embeddings
        self.hidden_act = hidden_act
        self.hidden_dropout_prob = hidden_dropout_prob
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.activation_dropout = activation_dropout
        self.classifier_dropout = classifier_dropout
        self.pooler_activation = pooler_activation
        self.classifier_pooling = classifier_pooling
        self.normalize_before = normalize_before
        self.position_encoding = position_encoding
        self.rel_pos = rel_pos
        self.rel_pos_buckets = rel_pos_buckets
        self.max_rel_pos = max_rel_pos
        self.tie_cls = tie_cls
        self.untie_cls = untie_cls
        self.symmetric_basis = symmetric_basis
        self.position_each_layer = position_each_layer
        self.initializer_range = initializer_range
        self.mask_token_id = mask_token_id
        self.classification_head_name = classification_head_name
        self.vocabulary_version = vocabulary_version
        self.tupe_fairseq_version = tupe_fairseq_version
        kwargs["auto_map"] = {**AUTO_MAP, **(kwargs.get("auto_map") or {})}
        super().__init__(
            pad_token_id=pad_token_id,
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
            tie_word_embeddings=tie_word_embeddings,
            **kwargs,
        )

    @property
    def head_dropout(self) -> float:
        return (
            self.hidden_dropout_prob if self.classifier_dropout is None else self.classifier_dropout
        )
