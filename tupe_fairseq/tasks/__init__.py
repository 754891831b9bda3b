from tupe_fairseq.tasks import (  # noqa: F401
    decoding,
    masked_lm,
    multiple_choice,
    question_answering,
    sentence_prediction,
    tagging,
)
