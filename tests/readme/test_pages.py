"""What the pages say of names and places is there."""

import re

import pytest

from helpers.running import REPO
from tupe_fairseq.position import CATALOGUE


@pytest.mark.parametrize("readme", ["README.md", "examples/positions/README.md"])
def test_every_position_encoding_has_its_line(readme):
    lines = re.findall(
        r"^\| `([a-z-]+)`", (REPO / readme).read_text(encoding="utf-8"), re.MULTILINE
    )
    # results of some of them may follow
    assert [name for name in dict.fromkeys(lines) if name in CATALOGUE] == list(CATALOGUE)


PAGES = [*REPO.glob("*.md"), *REPO.glob("examples/*/README.md"), *REPO.glob("scripts/*/*.md")]


def anchors(page):
    """The names by which GitHub links to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_links_and_scripts_of_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    for place, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", text):
        target = page.parent / place if place else page
        assert target.exists(), place
        assert not anchor or anchor in anchors(target), f"{place}#{anchor}"
    for script in re.findall(r"^(?:python )?(scripts/\S+)", text, re.MULTILINE):
        assert (REPO / script).exists(), script
