from tupe_fairseq.criterions import (  # noqa: F401
    multiple_choice,
    question_answering,
    sentence_prediction,
    tagging,
)
