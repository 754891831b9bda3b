"""Lists on the command line: what is taken is in its limits, and is read the same again."""

from helpers.drawn import drawn
from helpers.drawn import strategies as st
from tupe_fairseq.command_flags.arguments import learning_rates, seeds
from tupe_fairseq.compare.parse_schemes import FLAGS, parse_scheme, parse_schemes
from tupe_fairseq.position import CATALOGUE

NUMBERS = st.integers(1, 10**12)
SCHEMES = st.builds(
    lambda name, flags, number: " ".join(
        [name, *(f"{flag} {number}" if FLAGS[flag] else flag for flag in flags)]
    ),
    st.sampled_from(sorted(CATALOGUE)),
    st.lists(st.sampled_from(sorted(FLAGS)), unique=True),
    NUMBERS,
)
_WORDS = [
    *CATALOGUE, *FLAGS, ";", "@", " ", "'", '"', "\\", "#", "0", "3", "-1", "٣", "\n", "../x",
    "--lr", "\x00", "x" * 99, "9" * 5000,
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(_WORDS), max_size=9).map(" ".join) | st.text(max_size=12)


def refused(read, text, flag):
    """Whether it is, in one line that names the flag."""
    try:
        read(text)
    except ValueError as error:
        assert flag in str(error) and "\n" not in str(error)
        return True
    return False


@drawn(30, texts=st.lists(SCHEMES, min_size=1, max_size=4))
def test_labels_are_read_again(texts):
    labels = list(dict.fromkeys(parse_scheme(text).label for text in texts))
    schemes = list(parse_schemes("; ".join(labels)))
    assert parse_schemes("; ".join(f"{label} @1" for label in labels)) == dict.fromkeys(
        schemes, "1"
    )
    assert [scheme.label for scheme in schemes] == labels
    # one folder for each
    assert len({scheme.folder for scheme in schemes}) == len(labels)
    assert not any("/" in scheme.folder or " " in scheme.folder for scheme in schemes)


@drawn(80, text=TEXTS)
def test_any_text_for_schemes(text):
    if not refused(parse_schemes, text, "--schemes"):
        for scheme in parse_schemes(text):
            assert scheme.name in CATALOGUE and parse_scheme(scheme.label) == scheme


@drawn(
    80, text=st.lists(NUMBERS.map(str), max_size=4).map(",".join) | st.text("0123456789,.-e+_ naif")
)
def test_any_text_for_numbers(text):
    if not refused(seeds, text, "--seeds"):
        assert all(0 < seed < 2**32 for seed in seeds(text))
    if not refused(learning_rates, text, "--lrs"):
        assert all(0 < rate < float("inf") for rate in learning_rates(text))
