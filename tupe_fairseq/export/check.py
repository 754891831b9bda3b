"""Checks that a folder, loaded with transformers, computes the same as the checkpoint."""

import contextlib
import itertools
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import torch
from torch import Tensor

from tupe_fairseq.data.dictionary import EOS, PAD, UNK
from tupe_fairseq.export.write_folder import CODE

#: the largest difference of a logit that is allowed
LIMIT = 1e-4
_BATCH = 8
#: of different lengths, with characters that are hard to tokenize
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
    encode: Callable[..., list[int]],
    logits: dict[str, Callable[[Tensor], Tensor]],
    vocab_size: int,
    max_positions: int,
) -> dict[str, float]:
    """Compare the token ids of ``TEXTS`` and of pairs, and the logits of padded batches.

    One more text joins all the others, and is as long as the model takes. Longer inputs are cut.

    Args:
        encode: the checkpoint's token ids for one or two texts.
        logits: for each Auto class of transformers, the checkpoint's logits for token ids (B, L);
            the largest difference of each is returned.
        vocab_size: the checkpoint's; ids beyond it are extra tokens, unknown to the checkpoint.
    """
    import transformers

    options, library = {"local_files_only": True}, load_code(folder)
    prefix = "Roberta" if library is transformers else "Tupe"
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder, **options)
    together = " ".join(TEXTS)
    together += f" {together}" * (max_positions // len(encode(together)))
    sequences = _same_ids(tokenizer, [*TEXTS, together], encode, vocab_size)
    sequences = [
        ids if len(ids) <= max_positions else [*ids[: max_positions - 1], EOS] for ids in sequences
    ]
    differences = {}
    for name, expected_logits in logits.items():
        model_class = getattr(library, name.replace("AutoModel", prefix))
        model = model_class.from_pretrained(folder, **options).float().eval()
        differences[name] = 0.0
        for start in range(0, len(sequences), _BATCH):
            rows = map(torch.tensor, sequences[start : start + _BATCH])
            ids = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=PAD)
            expected = expected_logits(ids.masked_fill(ids >= vocab_size, UNK)).float()
            actual = model(input_ids=ids, attention_mask=ids.ne(PAD).long()).logits
            if name == "AutoModelForMaskedLM":
                actual = actual[..., :vocab_size]
            difference = (actual - expected).abs()
            if difference.dim() == 3:  # padding does not matter
                difference = difference[ids.ne(PAD)]
            largest = difference.max().item()
            if not largest <= LIMIT:  # also true for NaN
                raise ValueError(
                    f"the logits of {name} differ from the checkpoint's by {largest:.1e}; "
                    f"the limit is {LIMIT:.0e}"
                )
            differences[name] = max(differences[name], largest)
    return differences


def load_code(folder: str) -> ModuleType:
    """The module with the classes of a folder: its modeling_tupe.py, or transformers."""
    import transformers

    if not os.path.isfile(os.path.join(folder, CODE[-1])):
        return transformers
    # by transformers it would be copied to a cache, and by import compiled to files in the folder
    package = f"{__name__}.folder{len(sys.modules)}"
    sys.modules[package] = ModuleType(package)
    for file in CODE:
        path, name = os.path.join(folder, file), f"{package}.{file.removesuffix('.py')}"
        sys.modules[name] = module = ModuleType(name)
        module.__file__, module.__package__ = path, package
        with open(path, encoding="utf-8") as text:
            exec(compile(text.read(), path, "exec"), vars(module))
    return module


def _same_ids(tokenizer, texts, encode, vocab_size: int) -> list[list[int]]:
    """The folder's token ids of the texts. Raises if those of texts or pairs differ."""
    second = [*texts[1:], *texts[:1]]
    single = tokenizer(list(texts), verbose=False)["input_ids"]
    pairs = tokenizer(list(texts), second, verbose=False)["input_ids"]
    for actual, inputs in zip((*single, *pairs), (*zip(texts), *zip(texts, second))):
        known = [token if token < vocab_size else UNK for token in actual]
        expected = encode(*inputs)
        if known != expected and not _are_equally_likely(tokenizer, known, expected):
            both = itertools.zip_longest(known, expected, fillvalue=EOS)
            number, ids = next((n, pair) for n, pair in enumerate(both) if pair[0] != pair[1])
            of_folder, of_checkpoint = tokenizer.convert_ids_to_tokens(ids)
            raise ValueError(
                f"token {number} of {inputs[0][:60]!r} is {of_folder!r} in the folder's tokenizer, "
                f"but {of_checkpoint!r} in the checkpoint's vocabulary"
            )
    return single


def _are_equally_likely(tokenizer, *both: list[int]) -> bool:
    """Whether two segmentations differ only where SentencePiece, which adds in float32, sees a tie.

    The folder's tokenizer adds the log probabilities of a word in float64.
    """
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    if model["type"] != "Unigram":
        return False
    texts, sums = [], []
    for ids in both:
        tokens, scores = zip(*(model["vocab"][token] for token in ids))
        texts.append("".join(tokens))
        # the log probability up to the end of each token
        sums.append(dict(zip(itertools.accumulate(map(len, tokens)), itertools.accumulate(scores))))
    one, other = sums
    gaps = [(one[end] - other[end], one[end]) for end in sorted({*one} & {*other})]
    # where the segmentations differ, some 16 additions are rounded to 24 bits
    tied = (abs(b - a) <= 2**-20 * abs(total) for (a, _), (b, total) in itertools.pairwise(gaps))
    return texts[0] == texts[1] and all(tied)


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Without the warnings of transformers, and of torch.onnx that torchvision is missing."""
    import transformers  # noqa: F401 (sets the level of its logger)

    loggers = [logging.getLogger(name) for name in ("transformers", "torch.onnx")]
    levels = [one.level for one in loggers]
    try:
        for one in loggers:
            one.setLevel(logging.ERROR)
        yield
    finally:
        for one, level in zip(loggers, levels):
            one.setLevel(level)
