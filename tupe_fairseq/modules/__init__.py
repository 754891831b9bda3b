"""The Transformer: content, residuals, masks.  It receives the position bias ready-made."""

from tupe_fairseq.modules.dropout import dropout
from tupe_fairseq.modules.tupe_encoder_layer import TupeEncoderLayer
from tupe_fairseq.modules.tupe_multihead_attention import TupeMultiheadAttention

__all__ = ["TupeEncoderLayer", "TupeMultiheadAttention", "dropout"]
