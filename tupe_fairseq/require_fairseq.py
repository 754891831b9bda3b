"""Importing this module imports fairseq, or says what to install if it is missing."""

import importlib.util

if importlib.util.find_spec("fairseq") is None:
    raise ImportError(
        "this part of tupe_fairseq needs fairseq, which is not installed; install the tested build "
        "with: pip install 'tupe_fairseq[fairseq]' (in a clone: pip install -e '.[fairseq]'). "
        "Any other build that imports as fairseq works too"
    )

# Parts that build on fairseq import it here first: the package then registers all of them, which
# must not happen while one of them is half imported.
import fairseq  # noqa: E402, F401
