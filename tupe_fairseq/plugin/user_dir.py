"""Being found by fairseq's --user-dir under every name of the same folder."""

import os
from typing import List

import fairseq


def know_own_spellings(package_path: List[str]) -> None:
    """Add to a package's ``__path__`` the other ways in which fairseq spells its folder.

    ``--user-dir NAME`` is looked up beside fairseq as ``.../fairseq/../NAME``, and fairseq then
    compares this text with the ``__path__`` of the module of that name: if the package was
    imported before, it must know the spelling, or fairseq says "not globally unique".  A folder
    that is another copy of the package stays unknown: two copies in one process are an error.

    Args:
        package_path (list of str): the package's ``__path__``, changed in place.
    """
    here = os.path.realpath(package_path[0])
    beside_fairseq = os.path.join(
        os.path.dirname(fairseq.__file__), "..", os.path.basename(package_path[0])
    )
    for spelling in (beside_fairseq, here):
        if os.path.realpath(spelling) == here and spelling not in package_path:
            package_path.append(spelling)
