"""A name that is listed twice, in a list as long as a stranger's file makes it."""

import pytest

from tupe_fairseq.files.repeated import first_repeated


class Name(str):
    """Counts how often one is compared with another."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize(
    "names, found",
    [("", None), ("abc", None), ("abcb", "b"), ("aab", "a"), ("abba", "b")],
)
def test_the_first_one(names, found):
    assert first_repeated(iter(names)) == found


def test_a_long_list_is_gone_through_once():
    names = [Name(number) for number in range(20_000)]
    Name.compared = 0
    assert first_repeated([*names, Name(19_999)]) == "19999"
    assert Name.compared < 100
