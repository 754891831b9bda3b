"""The same model in other forms: saved again, half precision, compiled, resized, quantised."""

import copy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from folder_checks.subject import Skip, within

LOAD = """
import sys
import torch, transformers
auto, folder, ids, out = sys.argv[1:]
tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = getattr(transformers, auto).from_pretrained(folder, trust_remote_code=True).eval()
with torch.no_grad():
    torch.save(model(**torch.load(ids)).to_tuple()[0], out)
"""


def _auto(subject):
    return "AutoModelForSequenceClassification" if subject.has_head else "AutoModelForMaskedLM"


@torch.no_grad()
def saved_again(subject):
    """save_pretrained from a copy that is gone then, loaded by two processes at once."""
    with tempfile.TemporaryDirectory() as place:
        first, second = Path(place, "first"), Path(place, "second")
        shutil.copytree(subject.folder, first)
        moved = copy.copy(subject)
        moved.folder = str(first)
        model = moved.load(_auto(subject))
        batch = dict(subject.batch())
        expected = model(**batch)[0]
        model.save_pretrained(second)
        type(subject.tokenizer).from_pretrained(first).save_pretrained(second)
        shutil.rmtree(first)
        torch.save(batch, Path(place, "ids.pt"))
        words = [sys.executable, "-c", LOAD, _auto(subject), second, Path(place, "ids.pt")]
        processes = [
            subprocess.Popen(
                [*map(str, words), f"{place}/{n}.pt"], stderr=subprocess.PIPE, text=True
            )
            for n in range(2)
        ]
        for process in processes:
            _, said = process.communicate()
            assert process.returncode == 0, said[-2000:]
        given = [torch.load(f"{place}/{n}.pt") for n in range(2)]
        assert all(torch.equal(x, expected) for x in given), "other numbers after saving"
        names = sorted(path.name for path in second.iterdir())
    return f"identical, from {len(names)} files"


@torch.no_grad()
def half(subject):
    """bfloat16: runs, and near."""
    model = subject.load("AutoModel", dtype=torch.bfloat16)
    assert model.dtype == torch.bfloat16, model.dtype
    batch = subject.batch()
    mask = batch["attention_mask"].bool()
    given = model(**batch).last_hidden_state
    assert given.dtype == torch.bfloat16, given.dtype
    expected = torch.cat([subject.features(n) for n in range(len(mask))])
    # 8 bits of mantissa through some layers
    return within([(given[mask].float() - expected).square().mean().sqrt()], 0.05) + " (mean)"


@torch.no_grad()
def compiled(subject):
    """torch.compile, on batches of two lengths."""
    model = subject.load("AutoModel")
    other = torch.compile(model)
    differences = []
    for numbers, batch in list(subject.batches(64))[:2]:
        hidden = other(**batch).last_hidden_state
        for row, number in enumerate(numbers):
            expected = subject.features(number)
            differences.append((hidden[row, : len(expected)] - expected).abs().max())
    return within(differences)


@torch.no_grad()
def resized(subject):
    """resize_token_embeddings keeps the numbers of the old words, and ties the new ones."""
    model = subject.load("AutoModelForMaskedLM")
    batch = subject.batch()
    mask = batch["attention_mask"].bool()
    before = model(**batch).logits[mask]
    size = subject.config.vocab_size
    model.resize_token_embeddings(size + 7)
    after = model(**batch).logits[mask]
    assert after.shape[-1] == size + 7 and model.config.vocab_size == size + 7, after.shape
    new = torch.full_like(batch["input_ids"], size + 6)
    assert model(new).logits.isfinite().all(), "new words"
    if subject.config.tie_word_embeddings:
        tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
        assert tied, "no longer tied"
    with tempfile.TemporaryDirectory() as place:
        model.save_pretrained(place)
        again = copy.copy(subject)
        again.folder = place
        reloaded = again.load("AutoModelForMaskedLM")
        assert torch.equal(reloaded(**batch).logits[mask], after), "other numbers after saving"
    return within([(after[:, :size] - before).abs().max()])


@torch.no_grad()
def quantised(subject):
    """torch's dynamic int8: runs, and near."""
    try:
        from torch.ao.quantization import quantize_dynamic
    except ImportError:
        raise Skip("this torch has no torch.ao.quantization") from None
    model = quantize_dynamic(subject.load("AutoModel"), {torch.nn.Linear}, torch.qint8)
    batch = subject.batch()
    mask = batch["attention_mask"].bool()
    expected = torch.cat([subject.features(n) for n in range(len(mask))])
    given = model(**batch).last_hidden_state[mask]
    return within([(given - expected).square().mean().sqrt()], 0.1) + " (mean)"


@torch.no_grad()
def device_map(subject):
    """Loading by accelerate, from the meta device."""
    try:
        import accelerate  # noqa: F401
    except ImportError:
        raise Skip("accelerate is not installed") from None
    batch = subject.batch()
    expected = subject.load("AutoModel")(**batch).last_hidden_state
    given = subject.load("AutoModel", device_map="auto")(**batch).last_hidden_state
    return within([(given - expected).abs().max()], 0)
