from tupe_fairseq.criterions import sentence_prediction, tagging  # noqa: F401
