"""The numbers of padded batches, beside those of the hub interface sentence by sentence."""

import torch

from folder_checks.subject import Skip, within


@torch.no_grad()
def tokens(subject):
    """AutoTokenizer gives the reference's ids, of every line there."""
    wrong = []
    for line, ids in zip(subject.lines, subject.reference["ids"]):
        given = subject.tokenizer(*([line] if isinstance(line, str) else line))["input_ids"]
        wrong += [line] if subject.as_dictionary(given) != ids else []
    texts = subject.reference["texts"]
    for start in range(0, len(texts), 1000):
        part = texts[start : start + 1000]
        found = subject.tokenizer(part)["input_ids"]
        ids = subject.reference["text_ids"][start : start + 1000]
        wrong += [
            text for text, ours, theirs in zip(part, found, ids)
            if subject.as_dictionary(ours) != theirs
        ]  # fmt: skip
    assert not wrong, f"{len(wrong)} lines differ, such as {wrong[0]!r}"
    return f"the same ids in {len(subject.lines) + len(texts):,} lines"


@torch.no_grad()
def features(subject, attention, count=None):
    """AutoModel's hidden states at real tokens."""
    model = subject.load("AutoModel", attn_implementation=attention)
    differences = []
    for numbers, batch in subject.batches(count):
        hidden = model(**batch).last_hidden_state
        for row, number in enumerate(numbers):
            expected = subject.features(number)
            differences.append((hidden[row, : len(expected)] - expected).abs().max())
    return within(differences) + f" in {len(differences)} sentences"


@torch.no_grad()
def logits(subject, attention, count=None):
    """AutoModelForMaskedLM's logits at the reference's tokens."""
    model = subject.load("AutoModelForMaskedLM", attn_implementation=attention)
    expected = iter(
        subject.reference["logits"].split([len(p) for p in subject.reference["places"]])
    )
    differences = []
    for numbers, batch in subject.batches(count):
        given = model(**batch).logits
        for row, number in enumerate(numbers):
            at = given[row, subject.reference["places"][number]]
            wanted = next(expected)
            differences.append((at[:, : wanted.size(1)] - wanted).abs().max())
    return within(differences) + f" in {len(differences)} sentences"


@torch.no_grad()
def classes(subject, attention, count=None):
    """AutoModelForSequenceClassification's logits."""
    if not subject.has_head:
        raise Skip("the model has no classification head")
    model = subject.load("AutoModelForSequenceClassification", attn_implementation=attention)
    differences = []
    for numbers, batch in subject.batches(count):
        expected = subject.reference["classes"][numbers]
        differences.append((model(**batch).logits - expected).abs().max())
    return within(differences) + f" in {len(subject.lines)} sentences"


@torch.no_grad()
def order(subject):
    """Whether the order of words matters: nothing is compared where it does not."""
    value = subject.reference["order"]
    if getattr(subject.config, "position_encoding", "") == "none" and not subject.config.rel_pos:
        assert value < 1e-4, "the order of words matters without positions"
        return "no positions"
    assert value > 0.05, f"other word orders change features by {value:.2g} only"
    return f"another order changes features by {value:.2f}"


@torch.no_grad()
def outputs(subject):
    """output_attentions, output_hidden_states, inputs_embeds, and no attention_mask."""
    model = subject.load("AutoModel", attn_implementation="eager")
    batch = subject.batch()
    mask = batch["attention_mask"].bool()
    everything = model(**batch, output_attentions=True, output_hidden_states=True)
    layers = subject.config.num_hidden_layers
    assert len(everything.attentions) == layers, "attentions"
    assert len(everything.hidden_states) == layers + 1, "hidden_states"
    for weights in everything.attentions:
        shape = (len(mask), subject.config.num_attention_heads, mask.size(1), mask.size(1))
        assert weights.shape == shape, weights.shape
        at_padding = weights.masked_fill(mask[:, None, None, :], 0)
        sums = weights.sum(-1).transpose(1, 2)[mask]
        within([at_padding.abs().max(), (sums - 1).abs().max()], 1e-5)
    plain = model(**batch).last_hidden_state[mask]
    embeds = model.get_input_embeddings()(batch["input_ids"])
    by_embeds = model(inputs_embeds=embeds, attention_mask=batch["attention_mask"])
    without_mask = model(batch["input_ids"])
    as_tuple = model(**batch, return_dict=False)
    ways = [everything[0], by_embeds[0], as_tuple[0]]
    if subject.is_ours:  # the library's own models take all tokens for real then
        ways.append(without_mask[0])
    if not getattr(subject.config, "normalize_before", False):
        ways.append(everything.hidden_states[-1])
    return within([(way[mask] - plain).abs().max() for way in ways])


@torch.no_grad()
def one_by_one(subject):
    """A batch of one, an empty text, and lengths beyond a batch's."""
    model = subject.load("AutoModel")
    differences = []
    for number in range(min(8, len(subject.lines))):
        alone = model(**subject.encode([subject.lines[number]])).last_hidden_state[0]
        differences.append((alone - subject.features(number)).abs().max())
    empty = subject.encode(
        ["", subject.lines[0]] if isinstance(subject.lines[0], str) else [("", "a")]
    )
    assert model(**empty).last_hidden_state[empty["attention_mask"].bool()].isfinite().all(), (
        "empty"
    )
    return within(differences)
