"""Checks that a folder, as transformers loads it, computes what the checkpoint does."""

import atexit
import functools
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tupe_fairseq.data.dictionary import EOS, PAD, UNK

#: the largest difference of a logit
LIMIT = 1e-4
_BATCH = 8
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
    "ALL CAPITALS, then camelCase, snake_case and x = f(y) + 2 * z;",
    "東京は日本の首都です。",
    "Москва - столица России.",
    "A smile \U0001f600, a heart \u2764\ufe0f, two people \U0001f469\u200d\U0001f467.",
    "Words   apart,\tand a tab; caf\u00e9 and cafe\u0301 look the same.",
    " Space before,\na line\r\n \u3000end,\x0band space behind. ",
    "In\u00advis\u200bible\u2060: \u202eabc\u202c, nul\x00, de\x7fl, \x85next\ufffd.",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "? ! ... -- ;",
)
TEXTS = (*SENTENCES, *(" ".join(SENTENCES[:n] * 4) for n in (2, 5, 9)))


@torch.no_grad()
def check_folder(
    folder: str,
    texts: Sequence[str],
    encode: Callable[..., list[int]],
    logits: dict[str, Callable[[Tensor], Tensor]],
    vocab_size: int,
    max_positions: int,
) -> dict[str, float]:
    """Compare token ids, singly and as pairs, and logits in padded batches.

    One more text, of all the others, is as long as the model takes; what is longer is cut.

    Args:
        encode: the checkpoint's ids of one text or two.
        logits: for each Auto class of transformers, the checkpoint's logits of token ids (B, L);
            the largest difference of each comes back.
        vocab_size: of the checkpoint; the folder takes what is beyond for further unknown tokens.
    """
    options = {"trust_remote_code": True, "local_files_only": True}
    transformers = import_transformers()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
    together = " ".join(texts)
    together += f" {together}" * (max_positions // len(encode(together)))
    sequences = _same_ids(tokenizer, [*texts, together], encode, vocab_size)
    sequences = [
        ids if len(ids) <= max_positions else [*ids[: max_positions - 1], EOS] for ids in sequences
    ]
    differences = {}
    for name, expected_logits in logits.items():
        model = getattr(transformers, name).from_pretrained(folder, **options).float().eval()
        differences[name] = 0.0
        for start in range(0, len(sequences), _BATCH):
            rows = map(torch.tensor, sequences[start : start + _BATCH])
            ids = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=PAD)
            expected = expected_logits(ids.masked_fill(ids >= vocab_size, UNK)).float()
            one = (slice(None), None) if name == "AutoModelForMultipleChoice" else slice(None)
            out = model(input_ids=ids[one], attention_mask=ids.ne(PAD).long()[one])
            is_qa = name == "AutoModelForQuestionAnswering"
            actual = torch.stack([out.start_logits, out.end_logits], -1) if is_qa else out.logits
            if name == "AutoModelForMaskedLM":
                actual = actual[..., :vocab_size]
            difference = (actual - expected).abs()
            if difference.dim() == 3:  # padding has no meaning
                difference = difference[ids.ne(PAD)]
            largest = difference.max().item()
            if not largest <= LIMIT:  # NaN is not
                raise ValueError(
                    f"the logits of {name} differ from the checkpoint's by {largest:.1e}; "
                    f"the limit is {LIMIT:.0e}"
                )
            differences[name] = max(differences[name], largest)
    return differences


def _same_ids(tokenizer, texts, encode, vocab_size: int) -> list[list[int]]:
    """The folder's ids of the texts, which are the checkpoint's, as are those of pairs."""
    second = [*texts[1:], *texts[:1]]
    single = tokenizer(list(texts), verbose=False)["input_ids"]
    pairs = tokenizer(list(texts), second, verbose=False)["input_ids"]
    for actual, inputs in zip((*single, *pairs), (*zip(texts), *zip(texts, second))):
        known = [token if token < vocab_size else UNK for token in actual]
        expected = encode(*inputs)
        if known != expected and not _are_equally_likely(tokenizer, known, expected):
            both = itertools.zip_longest(known, expected, fillvalue=EOS)
            number, ids = next((n, pair) for n, pair in enumerate(both) if pair[0] != pair[1])
            ours, theirs = tokenizer.convert_ids_to_tokens(ids)
            raise ValueError(
                f"token {number} of {inputs[0][:60]!r} is {ours!r} by the folder's tokenizer, but "
                f"{theirs!r} by the checkpoint's vocabulary"
            )
    return single


def _are_equally_likely(tokenizer, *both: list[int]) -> bool:
    """Whether two segmentations differ only where SentencePiece, which adds in float32, sees none.

    The folder's tokenizer adds the log probabilities of a word in float64.
    """
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    if model["type"] != "Unigram":
        return False
    texts, sums = [], []
    for ids in both:
        tokens, scores = zip(*(model["vocab"][token] for token in ids))
        texts.append("".join(tokens))
        # the sum at the end of each token
        sums.append(dict(zip(itertools.accumulate(map(len, tokens)), itertools.accumulate(scores))))
    ours, theirs = sums
    gaps = [(ours[end] - theirs[end], ours[end]) for end in sorted({*ours} & {*theirs})]
    # where they part, some 16 additions are rounded to 24 bits
    tied = (abs(b - a) <= 2**-20 * abs(total) for (a, _), (b, total) in itertools.pairwise(gaps))
    return texts[0] == texts[1] and all(tied)


@functools.cache
def import_transformers():
    """The library, which copies a folder's code to a cache: here to one of its own."""
    cache = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, cache, ignore_errors=True)
    os.environ["HF_MODULES_CACHE"] = cache
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers
