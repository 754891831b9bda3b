"""Self-attention with one position bias for the whole batch, in several implementations.

Each is a pure function of one signature, and all compute the same::

    attend(q, k, v, attn_bias, padding, *, scaling, dropout)

    dropout(softmax(scaling * q k^T + attn_bias)) v, for each head

Args:
    q, k, v (Tensor): queries, keys and values.
    attn_bias (Bias, optional): added to the scores, at least float32; gets one gradient for the
        batch.
    padding (Padding, optional): which tokens are padding; None if there are none.
    scaling (float): factor on the content scores.
    dropout (float): dropout probability of the attention probabilities; 0 outside training.
Shape:
    q, k, v (B, L, H, K), or (N, H, K) with packed padding; attn_bias (H, L, L), rows are queries
    -> as q.  Values at padded tokens are undefined.
"""

from tupe_fairseq.attention.bias import Bias
from tupe_fairseq.attention.choice import IMPLEMENTATIONS, NAMES, check_name, choose, takes_factors
from tupe_fairseq.attention.eager import attention_probabilities
from tupe_fairseq.attention.keep_mask import HAS_NUMPY, KeepMask
from tupe_fairseq.attention.packed_documents import Documents
from tupe_fairseq.attention.padding import Padding
from tupe_fairseq.attention.recorded import is_recorded
from tupe_fairseq.attention.split_qkv import split_qkv
from tupe_fairseq.attention.unpacked import in_parts

__all__ = [
    "HAS_NUMPY",
    "Bias",
    "Documents",
    "IMPLEMENTATIONS",
    "NAMES",
    "KeepMask",
    "Padding",
    "attention_probabilities",
    "takes_factors",
    "check_name",
    "choose",
    "in_parts",
    "is_recorded",
    "split_qkv",
]
