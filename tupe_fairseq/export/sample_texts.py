"""Sentences on which a folder is compared with its checkpoint, unless others are given."""

#: the largest difference of a logit on them, or on others that are given
LIMIT = 1e-4
#: of different lengths, with what splits words in odd ways
SENTENCES = (
    "Yes.",
    "The cat sat on the mat.",
    "Nobody knows why the old lighthouse was painted blue in the first place.",
    'She asked: "Are you coming, or aren\'t you?"',
    "In 1969, about 600,000,000 people watched the landing (on July 20th, at 20:17 UTC).",
    "An e-mail to jane.doe@example.com came back with error 550, see https://example.com/help?id=7.",
    "It costs $3.50, i.e. 4% more than last week's price.",
    "Der Fluß führt über Brücken, auf denen Bäume wachsen.",
    "L'été dernier, ils sont allés à la mer - sans leur chien.",
    "Mr. Brown's co-workers didn't re-read the so-called \"final\" draft.",
    "ALL CAPITALS, then camelCase, snake_case and x = f(y) + 2 * z;",
    "東京は日本の首都です。",
    "Москва - столица России.",
    "A smile \U0001f600, a heart \u2764\ufe0f, two people \U0001f469\u200d\U0001f467.",
    "Words   apart,\tand a tab; caf\u00e9 and cafe\u0301 look the same.",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "? ! ... -- ;",
    "The committee that the members whom the voters elected had chosen met on Tuesday, discussed "
    "for hours what nobody had read, and adjourned without a decision.",
    "When the rain stopped, the children ran outside, jumped over the puddles, and shouted so loud "
    "that the neighbours, asleep since noon, opened their windows one after the other.",
    "Water boils at 100 degrees Celsius at sea level.",
)


def default_texts() -> list[str]:
    """The sentences, and longer texts of several of them: what is too long is cut later."""
    joined = [" ".join(SENTENCES[:n] * 4) for n in (2, 5, 9, len(SENTENCES))]
    return [*SENTENCES, *joined]
