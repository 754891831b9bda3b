"""A tag for each word of a sentence."""

import logging
import os
from collections import Counter, defaultdict

from tupe_fairseq.data.dictionary import PAD, UNK
from tupe_fairseq.data.metrics import are_entities
from tupe_fairseq.data.rows import RowError, words_of
from tupe_fairseq.kinds.base import Kind, Metrics, label_ids

logger = logging.getLogger(__name__)

BIO, IOB1 = "BIO", "IOB1"


class Tagging(Kind):
    """Softmax and cross-entropy at the first token of each word; long sentences are split.

    Tags of entities are BIO, BIOES or BILOU. IOB1, where B-x begins an entity only right after
    another x, becomes BIO.
    """

    name = "tagging"
    help = "a tag for each word"
    flags = ("labels",)
    of_words = many = True
    metrics = ("accuracy", "entity_f1")
    task_name = hub_task = "token_tagging"
    logs_accuracy, pools = True, False
    keys = ("tags",)
    figure = "confusion"
    transformers_class, pipeline = "ForTokenClassification", "token-classification"

    def read_texts(self, values):
        return words_of(values[0])

    def split(self, cell, separator):
        return words_of(cell)

    def check_label(self, label, words):
        if not len(label) == len(words) > 0:
            problem = f"has {len(label)} tags for {len(words)} words"
            raise RowError(problem, "unequal words and tags" if label or words else "no words")

    def normalizer(self, rows, given):
        scheme = _scheme(rows)
        return as_bio if scheme == IOB1 and not given else super().normalizer(rows, given)

    def normalizer_of(self, labels):
        # if the task was trained with BIO, or with IOB1 turned into BIO
        needed = {"B" + tag[1:] for tag in labels if tag[0] == "I"}
        is_bio = needed <= {*labels} and {tag[0] for tag in labels} <= {*"BIO"}
        return as_bio if are_entities(labels) and is_bio else super().normalizer_of(labels)

    def metrics_of(self, labels):
        if are_entities(labels):
            return Metrics(("entity_f1", "accuracy"), "entity_f1")
        return Metrics(("accuracy",), "accuracy")

    def key(self, texts):
        return tuple(texts)

    def strata(self, rows):
        return [()] * len(rows)

    def encode(self, task, rows, number, tokenizer, folder, split, workers):
        """The token ids of sentences.

        label/SPLIT gets the tag of a word at its first token and <pad> at the others. If tags are
        unknown, they are <unk>, which still shows where words begin.
        """
        from tupe_fairseq.data.indexed import IndexedWriter

        ids = label_ids(task)
        with IndexedWriter(os.path.join(folder, "label", split), 4 + len(ids)) as writer:
            for row, words in enumerate(rows.texts):
                of_words = tokenizer.encode_words(words)
                labels = rows.labels[row] if rows.labels else [None] * len(words)
                padded = (
                    [ids.get(x, UNK), *[PAD] * (len(w) - 1)] for x, w in zip(labels, of_words)
                )
                writer.write([[tag for tags in padded for tag in tags]])
                yield [i for ids_of_word in of_words for i in ids_of_word]

    def write_labels(self, task, labels, folder, split):
        """They are written with the words."""

    def from_numbers(self, rows, task):
        return [row[row >= 0] for row in rows]

    def is_trained_by(self, options):
        return options.get("task") == self.task_name

    def train_flags(self):
        return ["--kind", self.name] if self.is_own else []

    def values(self, decided, shares, task):
        return (self.spell([decided], task)[0],)

    def all_probabilities(self, shares, task):
        """A dict for each word."""
        return [dict(zip(task.labels, x.tolist())) for x in shares]

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


def _scheme(rows):
    """The scheme of the tags (BIO, ...), or None if they are not entities."""
    seen = Counter(tag for tags in rows for tag in tags)
    if not are_entities(seen):
        logger.info("the tags are not entities (BIO, BIOES, BILOU): accuracy is measured")
        return None
    others = sum(tags != as_bio(tags) for tags in rows)
    first = {tag[0] for tag in seen}
    scheme = "BIOES" if first & {*"ES"} else "BILOU" if first & {*"LU"} else IOB1 if others else BIO
    logger.info("the tags are %s: F1 of entities is measured", scheme)
    if scheme == IOB1:
        logger.info("rows with an entity that begins with I-: %d", others)
    return scheme
