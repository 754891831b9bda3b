"""A tag for each word of a sentence."""

import logging
from collections import defaultdict

from tupe_fairseq.data.dictionary import PAD, SPECIAL_TOKENS, UNK
from tupe_fairseq.data.metrics import are_entities
from tupe_fairseq.data.row_formats import RowError
from tupe_fairseq.data.rows import words_of
from tupe_fairseq.kinds.base import Kind, label_ids

logger = logging.getLogger(__name__)


class Tagging(Kind):
    """Softmax and cross-entropy at the first token of each word; long sentences are split.

    Tags of entities are BIO, BIOES or BILOU. IOB1, where B-x begins an entity only right after
    another x, becomes BIO.
    """

    name = "tagging"
    help = "a tag for each word"
    flags = ("labels",)
    of_words = many = True
    metrics = ("entity_f1", "accuracy")
    fairseq_task = converted_task = "token_tagging"
    keys = ("tags",)
    figure = "confusion"
    transformers_class, pipeline = "ForTokenClassification", "token-classification"

    def read_texts(self, values):
        return words_of(values[0])

    def split(self, cell, separator):
        return words_of(cell)

    def read_label(self, cell, words, separator, known):
        label = super().read_label(cell, words, separator, known)
        if not len(label) == len(words) > 0:
            problem = f"has {len(label)} tags for {len(words)} words"
            raise RowError(problem, "unequal words and tags" if label or words else "no words")
        return label

    def normalizer(self, labels, rows=()):
        labels = set(labels) or {tag for tags in rows for tag in as_bio(tags)}
        begin = {"B" + tag[1:] for tag in labels if tag[0] == "I"}
        is_bio = are_entities(labels) and {tag[0] for tag in labels} <= {*"BIO"}
        if labels and is_bio and begin <= labels:
            return as_bio
        return super().normalizer(labels, rows)

    def find_labels(self, options, rows, column):
        labels = super().find_labels(options, rows, column)
        first = {tag[0] for tag in labels}
        scheme = "BIOES" if first & {*"ES"} else "BILOU" if first & {*"LU"} else "BIO"
        if are_entities(labels):
            logger.info("the tags are %s: F1 of entities is measured", scheme)
        else:
            logger.info("the tags are not entities (BIO, BIOES, BILOU): accuracy is measured")
        return labels

    def strata(self, rows):
        return [()] * len(rows)

    def write_labels(self, task, labels, path, word_lengths):
        """A word's first token gets its tag, the others <pad>.

        If tags are unknown, they are <unk>, which still shows where words begin.
        """
        from tupe_fairseq.data.indexed import IndexedWriter

        ids = label_ids(task)
        labels = labels or [[None] * len(lengths) for lengths in word_lengths]
        with IndexedWriter(path, len(SPECIAL_TOKENS) + len(ids)) as writer:
            for tags, lengths in zip(labels, word_lengths):
                padded = ([ids.get(tag, UNK), *[PAD] * (n - 1)] for tag, n in zip(tags, lengths))
                writer.write([[symbol for word in padded for symbol in word]])

    def from_numbers(self, rows, num_classes):
        return [row[row >= 0] for row in rows]

    def samples(self, texts, max_positions):
        from tupe_fairseq.data.truncation import split_words

        return split_words(texts, max_positions)

    def measured(self, labels, task):
        return self.spell(labels, task)

    def baseline(self, data):
        """The most frequent tag of each word; of all, if the training set does not have it."""
        import numpy as np

        counts = defaultdict(lambda: np.zeros(data.task.num_classes, int))
        for words, tags in zip(data.texts("train"), data.targets("train")):
            for word, tag in zip(map(tuple, words), tags):
                counts[word][tag] += 1
        most = sum(counts.values()).argmax()

        def predict(split):
            return [
                np.array([counts[w].argmax() if w in counts else most for w in map(tuple, words)])
                for words in data.texts(split)
            ]

        return data.task.labels[most], predict

    def baseline_in_table(self, answer):
        return "each word's most frequent tag"

    def texts_of_error(self, texts, target, prediction):
        """The sentence, with both tags after each wrong word."""
        pairs = zip(words_of(texts[0]), target, prediction)
        return [" ".join(w if a == b else f"{w} [{a}, not {b}]" for w, a, b in pairs)]


def as_bio(tags):
    """IOB1 as BIO."""
    pairs = zip(("O", *tags), tags)
    return tuple(
        f"B{tag[1:]}" if tag[0] == "I" and (before == "O" or before[2:] != tag[2:]) else tag
        for before, tag in pairs
    )
