"""The data folder of a comparison, as it is given."""

import os

from tupe_fairseq.files.names import DICTIONARY


def check_data(data: str) -> str:
    """The data folder as fairseq-train takes it, absolute.

    Args:
        data (str): what tupe-prepare-pretrain or fairseq-preprocess wrote; shards separated by
            colons.
    Raises:
        FileNotFoundError: if a file that masked_lm reads is missing.
    """
    folders = [os.path.abspath(folder) for folder in data.split(":")]
    for number, folder in enumerate(folders):
        # as masked_lm reads them: the first shard's dictionary and valid are used for all
        needed = [DICTIONARY, "valid.bin", "valid.idx"] if number == 0 else []
        for name in (*needed, "train.bin", "train.idx"):
            if not os.path.isfile(os.path.join(folder, name)):
                shards = os.path.isdir(os.path.join(folder, "shard0"))
                raise FileNotFoundError(
                    f"DATA {folder} has no {name}; "
                    + (
                        f"it is split into shards: give {folder}/shard0:{folder}/shard1:..."
                        if shards
                        else "give a folder made by tupe-prepare-pretrain or fairseq-preprocess"
                    )
                )
    return ":".join(folders)
