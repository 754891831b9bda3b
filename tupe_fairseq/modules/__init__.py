"""The Transformer: attention, feed-forward layers, masks. The position bias is passed in."""

from tupe_fairseq.modules.dropout import dropout
from tupe_fairseq.modules.input_checks import check_embeddings, check_mask
from tupe_fairseq.modules.shared_bias import SharedBias
from tupe_fairseq.modules.tupe_encoder_layer import TupeEncoderLayer
from tupe_fairseq.modules.tupe_multihead_attention import TupeMultiheadAttention

__all__ = [
    "SharedBias",
    "TupeEncoderLayer",
    "TupeMultiheadAttention",
    "check_embeddings",
    "check_mask",
    "dropout",
]
