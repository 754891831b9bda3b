"""Pipelines and sentence-transformers."""

import math

import torch
from transformers import pipeline

from folder_checks.subject import Skip, within


def pipelines(subject):
    """fill-mask, or text-classification beside the reference's classes."""
    options = {"tokenizer": subject.tokenizer, "trust_remote_code": True}
    if not subject.has_head:
        fill = pipeline("fill-mask", model=subject.folder, **options)
        word = subject.tokenizer.mask_token
        found = fill(f"The value of the {word} is an object.")
        assert len(found) == 5 and all(f["score"] > 0 for f in found), found
        best = max(found, key=lambda f: f["score"])
        return f"fill-mask: {best['token_str']!r}"
    classify = pipeline("text-classification", model=subject.folder, top_k=None, **options)
    differences, labels = [], subject.config.id2label
    few = subject.lines[:40]
    texts = [x if isinstance(x, str) else {"text": x[0], "text_pair": x[1]} for x in few]
    for number, given in enumerate(classify(texts, batch_size=8)):
        expected = subject.reference["classes"][number]
        if len(expected) > 1:
            expected = expected.softmax(-1)
        elif subject.config.problem_type != "regression":
            expected = expected.sigmoid()
        scores = {entry["label"]: entry["score"] for entry in given}
        differences += [abs(scores[labels[n]] - p) for n, p in enumerate(expected.tolist())]
    return within(differences) + f", labels {', '.join(labels.values())}"


def heads(subject):
    """The other heads' classes load, run and learn."""
    batch = dict(subject.batch())
    length = batch["input_ids"].shape
    cases = {
        "AutoModelForTokenClassification": {"labels": torch.zeros(length, dtype=torch.long)},
        "AutoModelForQuestionAnswering": {
            "start_positions": torch.ones(length[0], dtype=torch.long),
            "end_positions": torch.ones(length[0], dtype=torch.long),
        },
        "AutoModelForMaskedLM": {"labels": batch["input_ids"]},
    }
    if not subject.has_head:
        labels = torch.zeros(length[0], dtype=torch.long)
        cases["AutoModelForSequenceClassification"] = {"labels": labels}
    losses = []
    for name, labels in cases.items():
        model = subject.load(name)
        loss = model(**batch, **labels).loss
        loss.backward()
        missing = [
            name for name, p in model.named_parameters()
            if p.requires_grad and p.grad is None and "relative_attention_bias" not in name
        ]  # fmt: skip
        assert math.isfinite(loss.item()), name
        assert not missing, f"{name}: no gradient for {missing}"
        losses.append(f"{name[len('AutoModelFor') :]} {loss.item():.2f}")
    return ", ".join(losses)


def sentences(subject):
    """SentenceTransformer: a padded batch as one by one, and as the mean of the reference."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise Skip("sentence-transformers is not installed") from None
    if not subject.is_ours:
        raise Skip("the library's own model")
    if not isinstance(subject.lines[0], str):
        raise Skip("a model of pairs")
    model = SentenceTransformer(subject.folder, trust_remote_code=True, device="cpu")
    few = subject.lines[: subject.few]
    together = torch.from_numpy(model.encode(few, batch_size=32))
    alone = torch.stack([torch.from_numpy(model.encode(line)) for line in few])
    hidden = [subject.features(n) for n in range(len(few))]
    pooled = model[1].pooling_mode if hasattr(model[1], "pooling_mode") else "mean"
    if "cls" in str(pooled):
        expected = torch.stack([x[0] for x in hidden])
    else:
        expected = torch.stack([x.mean(0) for x in hidden])
    within([(together - expected).abs().max()])
    return within([(together - alone).abs().max()], 1e-5) + f" ({pooled})"


def onnx(subject):
    """onnx/model.onnx by onnxruntime, if the folder has one."""
    from pathlib import Path

    path = Path(subject.folder, "onnx", "model.onnx")
    if not path.exists():
        raise Skip("the folder has no onnx/model.onnx")
    try:
        import onnxruntime
    except ImportError:
        raise Skip("onnxruntime is not installed") from None
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [x.name for x in session.get_inputs()]
    (output,) = session.get_outputs()
    assert names == ["input_ids", "attention_mask"], names
    differences = []
    for numbers, batch in subject.batches(subject.few):
        (given,) = session.run(None, {name: batch[name].numpy() for name in names})
        given = torch.from_numpy(given)
        for row, number in enumerate(numbers):
            if output.name == "last_hidden_state":
                expected, at = subject.features(number), given[row]
            elif subject.has_head:
                expected, at = subject.reference["classes"][number], given[row]
            else:
                places = subject.reference["places"]
                start = sum(map(len, places[:number]))
                expected = subject.reference["logits"][start : start + len(places[number])]
                at = given[row, places[number], : expected.size(1)]
            differences.append((at[: len(expected)] - expected).abs().max())
    return within(differences) + f" ({output.name})"
