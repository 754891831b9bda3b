"""Position encodings, apart from any Transformer: torch only.

Only the files of this folder know where a token stands.  :func:`build_position_encoding` makes
a scheme of the ``CATALOGUE``; each is a :class:`PositionEncoding`, whose ``forward_input`` and
``forward_attn`` serve any attention.  Nothing is loaded before one of them is asked for: the help
of a command takes names and options from files here that do without torch.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tupe_fairseq.position.offered import *  # noqa: F403


def __getattr__(name):
    if not name.startswith("_"):
        # not "from", which would ask here for it first
        import tupe_fairseq.position.offered as offered

        if name in offered.__all__:
            return getattr(offered, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
