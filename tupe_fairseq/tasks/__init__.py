from tupe_fairseq.tasks import (  # noqa: F401
    decoding,
    masked_lm,
    sentence_prediction,
    tagging,
)
