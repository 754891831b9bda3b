"""What torch.load may rebuild from a fairseq checkpoint with weights_only=True left on."""

import argparse

import torch


def allow_fairseq_checkpoints() -> None:
    """Allow the one type beyond torch's own that fairseq checkpoints hold.

    ``argparse.Namespace`` is a bag of attributes: rebuilding one runs no code.  Everything else
    stays refused.  Before torch 2.4 there is no such list, and fairseq unpickles freely.
    """
    if hasattr(torch.serialization, "add_safe_globals"):
        torch.serialization.add_safe_globals([argparse.Namespace])
