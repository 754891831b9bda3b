"""The rows of one split of a task, as they were read and before they are encoded."""

from collections import Counter
from collections import Counter as CounterType
from collections.abc import Sequence
from dataclasses import dataclass, field

#: The length at which a text is cut before it is encoded: far beyond any max_positions, since a
#: broken file can hold megabytes in one line.
MAX_CHARACTERS = 100_000
#: a class or a score as it is written; of multilabel and tagging, the labels or the tags
Label = str | tuple[str, ...]


def as_tuple(label: Label) -> tuple[str, ...]:
    """All labels of a row, of any kind of task."""
    return (label,) if isinstance(label, str) else label


@dataclass
class TaskRows:
    """The rows of one file, or of a part of it.

    Args:
        texts (list of tuples of str): the sentence, or the two sentences, of each row; of tagging,
            its words.
        labels (list of Label): of each row; empty for a test set without labels.
        index (list of str): the numbers of a test set's rows; otherwise empty.
        read (int): rows in the file, without the header.
        dropped (Counter): rows dropped, by reason.
        warnings (Counter): rows kept despite a problem, by problem.
        cut (set of int): the kept rows with a text cut at MAX_CHARACTERS.
    """

    texts: list[tuple[str, ...]] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    index: list[str] = field(default_factory=list)
    read: int = 0
    dropped: CounterType[str] = field(default_factory=Counter)
    warnings: CounterType[str] = field(default_factory=Counter)
    cut: set[int] = field(default_factory=set)

    def add_texts(self, texts: Sequence[str], are_words: bool = False) -> None:
        """Add the texts of a row, or its words; what is unusual about them is counted."""
        if any(len(text) > MAX_CHARACTERS for text in texts):
            self.warnings[f"cut at {MAX_CHARACTERS} characters"] += 1
            self.cut.add(len(self.texts))
        # a sentence is empty if all its words are, a pair if one of the two is
        if not (any if are_words else all)(text.strip() for text in texts):
            self.warnings["empty text"] += 1
        self.texts.append(tuple(text[:MAX_CHARACTERS] for text in texts))
