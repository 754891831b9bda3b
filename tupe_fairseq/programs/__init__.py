"""fairseq's programs, run from our commands: their arguments, processes, logs and checkpoints."""

import tupe_fairseq.require_fairseq  # noqa: F401
