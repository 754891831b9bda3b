"""The model card of a folder, from the template model_card.md."""

import importlib.resources
from typing import Any

from tupe_fairseq.export.names import HEAD_KINDS, ROBERTA, Head
from tupe_fairseq.options import POSITION_OPTIONS, flag
from tupe_fairseq.version import __version__


def model_card(config: dict[str, Any], head: Head | None, report: dict[str, Any], **facts) -> str:
    """The text of README.md.

    Args:
        config: the content of config.json.
        report: the report.json of the data, or empty.
        facts: the template's other variables.
    """
    import jinja2

    template = importlib.resources.files(__package__).joinpath("model_card.md").read_text("utf-8")
    environment = jinja2.Environment(
        trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.ChainableUndefined
    )
    return environment.from_string(template).render(
        config=config,
        head=head,
        report=report,
        pipeline=HEAD_KINDS[head.kind].pipeline if head else "fill-mask",
        encoding=encoding(config),
        trust="" if config["model_type"] == ROBERTA else ", trust_remote_code=True",
        version=__version__,
        **facts,
    )


def encoding(config: dict[str, Any]) -> str:
    """The position encoding in words."""
    name = config.get("position_encoding", "learned")
    set_options = {option: config[option] for option in POSITION_OPTIONS if config.get(option)}
    options = [flag(k) if v is True else f"{flag(k)} {v}" for k, v in set_options.items()]
    words = ", ".join([f"the position encoding {name}", *options])
    return f"TUPE-{'R' if config.get('rel_pos') else 'A'} ({words})" if name == "tupe" else words
