from tupe_fairseq.criterions import (  # noqa: F401
    question_answering,
    sentence_prediction,
    tagging,
)
