"""What --license and --language may be, which a model card repeats."""

import re

_LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]*", re.ASCII)
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*", re.ASCII)


def checked_license(text: str) -> str:
    """What --license may be: the identifier that model hubs know, such as mit.

    Raises:
        ValueError: if it is none.
    """
    if not _LICENSE.fullmatch(text):
        raise ValueError(f"--license {text!r} is not an identifier such as mit or apache-2.0")
    return text


def checked_languages(text: str) -> list[str]:
    """What --language may be: codes, separated by commas.

    Raises:
        ValueError: if one is none.
    """
    languages = text.split(",")
    for one in languages:
        if not _LANGUAGE.fullmatch(one):
            raise ValueError(f"--language {text!r}: {one!r} is not a code such as en or pt-BR")
    return languages
