"""The Transformer: attention, feed-forward layers, pooling. The position bias is passed in."""

from tupe_fairseq.modules.heads import POOLINGS
from tupe_fairseq.modules.tupe_encoder_layer import TupeEncoderLayer
from tupe_fairseq.modules.tupe_multihead_attention import TupeMultiheadAttention

__all__ = ["POOLINGS", "TupeEncoderLayer", "TupeMultiheadAttention"]
