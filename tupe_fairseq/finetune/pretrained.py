"""Moved to checkpoint/."""

from tupe_fairseq.checkpoint.pretrained import Pretrained, read_pretrained

__all__ = ["Pretrained", "read_pretrained"]
