"""What fairseq loads with --user-dir: parts of the model, and GLUE's task and criterion."""

import tupe_fairseq.require_fairseq  # noqa: F401
