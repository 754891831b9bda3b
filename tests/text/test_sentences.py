"""Sentences are those of the library sentence_splitter, of whatever line."""

import pickle

import pytest
from sentence_splitter import SentenceSplitter

from helpers.drawn import drawn
from helpers.drawn import strategies as st
from tupe_fairseq.text.sentences import LineSentences

_PARTS = [
    *"   ..?!'\"()[]%-,_aBé7", "Mr.", "No.", "e.g.", "U.S.", "etc.)", "...", " A", " (A", "« B",
    "“D", "”", "¿", "¡", "日", "ß", "X.", "art. 5", "pp. 3", "\t", "\u3000", "\u2028", " » C",
]  # fmt: skip
LINES = st.lists(st.sampled_from(_PARTS), max_size=25).map("".join)
CLEAN = LINES.map(lambda line: " ".join(line.split()))


@pytest.fixture(scope="module", params=["en", "de"])
def both(request):
    return LineSentences(request.param), SentenceSplitter(language=request.param)


@drawn(250, line=CLEAN | LINES | st.text(st.sampled_from(". ?!)('\"Aa1"), max_size=20))
def test_as_the_library_splits_it(both, line):
    ours, theirs = both
    assert ours.split(line) == list(filter(None, theirs.split(line)))


def test_again_and_in_another_process():
    ours = LineSentences("en")
    line = "Mr. X said: no. Yes! He (Mr. X) did. (Oh.) 'So?' Well... We see."
    expected = SentenceSplitter(language="en").split(line)
    assert len(expected) > 4
    for splitter in (ours, ours, pickle.loads(pickle.dumps(ours))):
        assert splitter.split(line) == expected
