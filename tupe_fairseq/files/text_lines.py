"""Reads the lines of a text file as fairseq does."""

import os


def read_lines(path: str, named: str) -> list[str]:
    """The lines of a file in UTF-8; only a newline ends one.

    Args:
        path (str): the file.
        named (str): what messages call it.
    Raises:
        OSError: if it is missing or no plain file.
        ValueError: if it is not in UTF-8.
    """
    if not os.path.isfile(path):
        reason = "is not a file" if os.path.exists(path) else "does not exist"
        raise FileNotFoundError(f"{named} {reason}")
    with open(path, encoding="utf-8") as file:
        try:
            return [line.rstrip("\n") for line in file]
        except UnicodeDecodeError as error:
            raise ValueError(f"{named} is not a text file in UTF-8") from error
