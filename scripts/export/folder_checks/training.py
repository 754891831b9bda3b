"""Training a folder's model with transformers."""

import tempfile

import torch
from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

from folder_checks.subject import Skip, within


def _gradients(model, batch, labels):
    model.zero_grad()
    torch.manual_seed(1)
    model(**batch, labels=labels).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def checkpointing(subject):
    """Gradients with dropout are the same when activations are recomputed."""
    model = subject.load("AutoModelForMaskedLM").train()
    batch = dict(subject.batch())
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    before = _gradients(model, batch, labels)
    differences = []
    for reentrant in (False, True):
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        assert model.is_gradient_checkpointing, "not enabled"
        after = _gradients(model, batch, labels)
        assert before.keys() == after.keys(), set(before) ^ set(after)
        differences += [(after[name] - grad).abs().max() for name, grad in before.items()]
    model.gradient_checkpointing_disable()
    return within(differences, 1e-6) + f" in {len(before)} gradients"


def attentions_agree(subject):
    """Gradients by eager and sdpa, without dropout."""
    found = []
    batch = dict(subject.batch())
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    for name in ("eager", "sdpa"):
        model = subject.load("AutoModelForMaskedLM", attn_implementation=name)
        found.append(_gradients(model, batch, labels))
    first, *others = found
    differences = [
        (other[name] - grad).abs().max() / grad.abs().max().clamp(min=1e-3)
        for other in others for name, grad in first.items()
    ]  # fmt: skip
    return within(differences)


def trainer(subject):
    """Masked LM by Trainer: learns, evaluates, and a resumed run ends with the same weights."""
    if not isinstance(subject.lines[0], str):
        raise Skip("a model of pairs")
    rows = [subject.tokenizer(line, truncation=True) for line in subject.lines[: subject.few]]
    with tempfile.TemporaryDirectory() as place:
        straight = _trained(subject, rows, f"{place}/a", 6)
        _trained(subject, rows, f"{place}/b", 6, stop=3)
        resumed = _trained(subject, rows, f"{place}/b", 6, resume=f"{place}/b/checkpoint-3")
        # not by Adam, which makes the rounding of gradients near 0 large
        slow = {"optim": "sgd", "learning_rate": 0.1}
        stored = _trained(subject, rows, f"{place}/c", 6, **slow)
        recomputed = _trained(subject, rows, f"{place}/d", 6, gradient_checkpointing=True, **slow)
        before, after = straight.started, straight.evaluate()["eval_loss"]
    assert after < before, f"the loss goes from {before:.3f} to {after:.3f}"
    pairs = ((straight, resumed, "resumed"), (stored, recomputed, "with gradient checkpointing"))
    for one, other, what in pairs:
        weights = one.model.state_dict()
        for name, tensor in other.model.state_dict().items():
            difference = (tensor - weights[name]).abs().max()
            assert difference <= 1e-5, f"{what}, {name} differs by {difference:.2g}"
    return f"loss {before:.2f} to {after:.2f} in 6 updates, resumed the same"


def _trained(subject, rows, place, updates, stop=None, resume=None, **options):
    """A Trainer after a masked-LM training without dropout; ``started``: its loss before."""
    collator = DataCollatorForLanguageModeling(subject.tokenizer, mlm_probability=0.3, seed=1)
    masked = [dict(zip(("input_ids", "labels"), _masked(collator, row))) for row in rows]
    arguments = TrainingArguments(
        output_dir=place, max_steps=updates, per_device_train_batch_size=16, save_steps=3,
        save_strategy="steps", report_to=[], disable_tqdm=True, seed=1, logging_strategy="no",
        use_cpu=True, dataloader_pin_memory=False, **{"learning_rate": 3e-3, **options},
    )  # fmt: skip
    model = subject.load(
        "AutoModelForMaskedLM", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    made = Trainer(
        model=model, args=arguments, train_dataset=masked, eval_dataset=masked,
        data_collator=lambda rows: _padded(subject, rows), processing_class=subject.tokenizer,
    )  # fmt: skip
    made.started = made.evaluate()["eval_loss"]
    if stop is not None:
        made.add_callback(_stop_at(stop))
    made.train(resume_from_checkpoint=resume)
    return made


def _masked(collator, row):
    batch = collator([row])
    return batch["input_ids"][0], batch["labels"][0]


def _padded(subject, rows):
    batch = subject.tokenizer.pad(
        [{"input_ids": row["input_ids"]} for row in rows], return_tensors="pt"
    )
    labels = torch.full_like(batch["input_ids"], -100)
    for number, row in enumerate(rows):
        labels[number, : len(row["labels"])] = row["labels"]
    return {**batch, "labels": labels}


def _stop_at(step):
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step >= step

    return Stop()
