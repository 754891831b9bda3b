from tupe_fairseq.tasks import (  # noqa: F401
    decoding,
    masked_lm,
    question_answering,
    sentence_prediction,
    tagging,
)
