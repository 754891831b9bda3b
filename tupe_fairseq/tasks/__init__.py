from tupe_fairseq.tasks import decoding, masked_lm, sentence_prediction, tagging  # noqa: F401
