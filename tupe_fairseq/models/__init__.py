from fairseq import checkpoint_utils

from tupe_fairseq.checkpoint.checkpoint import allowed_for_fairseq
from tupe_fairseq.models import tupe_roberta, tupe_transformer, tupe_transformer_lm  # noqa: F401

# else fairseq could not load its own checkpoints: torch refuses argparse's and numpy's classes
_load = checkpoint_utils.load_checkpoint_to_cpu
checkpoint_utils.load_checkpoint_to_cpu = allowed_for_fairseq()(_load)
