"""Importing this module says what to install if fairseq is missing."""

import importlib.util

if importlib.util.find_spec("fairseq") is None:
    raise ImportError(
        "this part of tupe_fairseq needs fairseq, which is not installed; install the tested build "
        "with: pip install 'tupe_fairseq[fairseq]' (in a clone: pip install -e '.[fairseq]'). "
        "Any other build that imports as fairseq works too"
    )
