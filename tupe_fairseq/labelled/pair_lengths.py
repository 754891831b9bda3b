"""How much two sentences keep when they are too long together."""

import numpy as np


def pair_lengths(first, second, room: int) -> tuple[np.ndarray, np.ndarray]:
    """The lengths after removing tokens from the longer of two sentences one by one.

    As BERT's longest-first truncation; if both are equally long, the second loses the token.

    Args:
        first, second (array of int): the lengths in tokens, of one pair or of many.
        room (int): the tokens that both may have together, 0 or more.
    Returns:
        two arrays: the lengths to keep, whose sum is at most ``room``.
    """
    first, second = np.asarray(first), np.asarray(second)
    # the shorter one keeps everything up to half of the room; an odd token goes to the first
    kept = np.minimum(first, np.maximum(room - second, (room + 1) // 2))
    return kept, np.minimum(second, room - kept)
