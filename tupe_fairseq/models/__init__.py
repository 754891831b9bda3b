from tupe_fairseq.models import (  # noqa: F401
    tupe_roberta,
    tupe_transformer,
    tupe_transformer_lm,
)
