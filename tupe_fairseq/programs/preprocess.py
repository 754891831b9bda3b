"""fairseq-preprocess as a function, to be called in a child process."""

import logging
import os
from typing import List

import torch
from fairseq import options
from fairseq_cli import preprocess


def run_preprocess(words: List[str]) -> None:
    """Run fairseq-preprocess silently.

    Its output is discarded for the rest of the process, so call it in a child process.

    Args:
        words (list of str): its arguments.
    Raises:
        ValueError: if it fails, a full disk included.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    try:
        preprocess.main(options.get_preprocessing_parser().parse_args(words))
    except SystemExit as error:
        raise ValueError(f"fairseq-preprocess refused its arguments: {words}") from error
    except Exception as error:
        raise ValueError(f"fairseq-preprocess failed: {error}") from error
