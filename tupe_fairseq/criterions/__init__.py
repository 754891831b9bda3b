from tupe_fairseq.criterions import question_answering, sentence_prediction, tagging  # noqa: F401
