"""What ties the encoder to fairseq; importing this needs fairseq."""

import importlib.util

if importlib.util.find_spec("fairseq") is None:
    raise ImportError(
        "this part of tupe_fairseq needs fairseq, which is not installed; install the tested build "
        "with: pip install 'tupe_fairseq[fairseq]' (in a clone: pip install -e '.[fairseq]'). "
        "Any other build that imports as fairseq will do as well"
    )
