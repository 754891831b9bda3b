"""What must end in a clear error, never in numbers without positions."""

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from folder_checks.subject import Skip


def _refused(what, call):
    """The message with which a call fails.

    Raises:
        AssertionError: if it does not fail, or with an error that tells nothing.
    """
    try:
        call()
    except (ValueError, ImportError, TypeError, RuntimeError) as error:
        message = " ".join(str(error).split())
        assert len(message) > 20, f"{what}: the error says only {message!r}"
        return f"{what}: {message}"
    raise AssertionError(f"{what} is accepted")


def _swallowing(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    """An attention that knows nothing of a position bias."""
    raise AssertionError("an attention that drops the bias was called")


@torch.no_grad()
def attention(subject):
    """flash_attention_2, and one that would drop the bias."""
    if not subject.is_ours:
        raise Skip("the library's own model")
    batch = subject.batch()
    said = [
        _refused(
            name, lambda name=name: subject.load("AutoModel", attn_implementation=name)(**batch)
        )
        for name in ("flash_attention_2", "flex_attention", "no_such_attention")
    ]
    ALL_ATTENTION_FUNCTIONS.register("swallowing", _swallowing)

    def swallow():
        model = subject.load("AutoModel", attn_implementation="eager")
        model.set_attn_implementation("swallowing")
        model(**batch)

    said.append(_refused("a registered one", swallow))

    def behind_its_back():
        model = subject.load("AutoModel", attn_implementation="eager")
        model.config._attn_implementation = "swallowing"
        model(**batch)

    said.append(_refused("one set in the config", behind_its_back))
    return said


@torch.no_grad()
def batches(subject):
    """Padding on the left, and more tokens than the model has positions for."""
    if not subject.is_ours:
        raise Skip("the library's own model")
    model = subject.load("AutoModel")
    left = subject.batch()
    left = {name: tensor.flip(1) for name, tensor in left.items()}
    said = [_refused("padding on the left", lambda: model(**left))]
    longest = subject.config.max_position_embeddings
    text = " ".join(["the word"] * longest)
    cut = subject.tokenizer(text, truncation=True, return_tensors="pt")
    assert cut["input_ids"].size(1) == longest, f"truncated to {cut['input_ids'].size(1)}"
    assert model(**cut).last_hidden_state.isfinite().all(), "the longest sentence"
    ends = cut["input_ids"][0, [0, -1]].tolist()
    assert ends == [subject.config.bos_token_id, subject.config.eos_token_id], ends
    too_long = subject.tokenizer(text, return_tensors="pt")
    try:
        model(**too_long)
        said.append("longer than max_position_embeddings: this encoding has no longest")
    except ValueError as error:
        said.append(f"longer than max_position_embeddings: {error}")
    return said
