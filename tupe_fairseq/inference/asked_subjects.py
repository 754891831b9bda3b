"""What the flags of tupe-plot say of models: their labels, and which heads are shown."""

import os


def labels(paths: list[str]) -> list[str]:
    """A short, unique name for each checkpoint: its folder, its file name, or more of its path.

    Raises:
        ValueError: if a file is given twice.
    """
    full = [os.path.splitext(os.path.abspath(path))[0].split(os.sep) for path in paths]
    folders, stems = [parts[-2] for parts in full], [parts[-1] for parts in full]
    for names in (folders, stems, [f"{a}/{b}" for a, b in zip(folders, stems)]):
        if all(names) and len(set(names)) == len(names):
            return names
    if len(set(map(tuple, full))) < len(full):
        raise ValueError(f"a checkpoint is listed twice: {' '.join(paths)}")
    return [os.sep.join(parts) for parts in full]


def heads(text: str) -> tuple[int, ...]:
    """Read --heads: numbers from 0 on, separated by commas; in order, each once.

    Raises:
        ValueError: if it has anything else.
    """
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise ValueError(
            f"--heads ({text}) must be comma-separated numbers, such as 0,1,3"
        ) from None
    if found[0] < 0:
        raise ValueError(f"--heads contains {found[0]}; heads are counted from 0")
    return tuple(found)
