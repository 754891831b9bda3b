from tupe_fairseq.tasks import masked_lm, sentence_prediction, tagging  # noqa: F401
