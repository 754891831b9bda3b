"""Reading fairseq's log of the format json."""

import json
from typing import Any, Dict, Optional


def record_of(line: str, tag: str) -> Optional[Dict[str, Any]]:
    """The numbers of a line such as ``... | valid | {"epoch": 1, "valid_loss": "8.317"}``.

    Args:
        line (str): a line of the log.
        tag (str): ``train_inner`` (every ``--log-interval`` updates), ``train`` or ``valid``.
    Returns:
        dict: name to number, mostly as text; None if the line is no such record.
    """
    _, brace, rest = line.partition(f"| {tag} | {{")
    if not brace:
        return None
    try:
        return json.loads("{" + rest)
    except ValueError:
        return None
