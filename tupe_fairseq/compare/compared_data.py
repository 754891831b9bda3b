"""What distinguishes the data of a comparison from others."""

import os
from typing import Any

from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import DICTIONARY


def fingerprint(data: str) -> dict[str, Any]:
    """What distinguishes these data from others."""
    folders: list[str] = data.split(":")
    return {
        DICTIONARY: file_sha256(os.path.join(folders[0], DICTIONARY)),
        "valid.bin": file_sha256(os.path.join(folders[0], "valid.bin")),
        "train.bin": [file_sha256(os.path.join(folder, "train.bin")) for folder in folders],
    }
