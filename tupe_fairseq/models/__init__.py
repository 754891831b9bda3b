from tupe_fairseq.models import tupe_roberta  # noqa: F401
