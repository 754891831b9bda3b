"""Writes the ONNX files of a model folder, and compares them with its model."""

import os
import warnings

import onnx  # noqa: F401 (torch.onnx needs it)
import onnxruntime
import onnxscript  # noqa: F401 (and this)
import torch
from torch import Tensor, nn

from tupe_fairseq.export.check import LIMIT, load_code
from tupe_fairseq.files import read_json

INPUTS = ("input_ids", "attention_mask")
HIDDEN = "last_hidden_state"


class Outputs(nn.Module):
    """A model as a function of input ids and attention mask to a tuple of outputs."""

    def __init__(self, model: nn.Module, names: list[str]):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        out = self.model(input_ids, attention_mask=attention_mask, output_hidden_states=True)
        return tuple(out.hidden_states[-1] if x == HIDDEN else out[x] for x in self.names)


@torch.no_grad()
def export_onnx(folder: str) -> dict[str, float]:
    """Write ``onnx/model.onnx``, and for a masked LM ``onnx/model_masked_lm.onnx``.

    Returns for each the largest difference between its outputs and those of the folder's model.
    """
    architecture = read_json(os.path.join(folder, "config.json"))["architectures"][0]
    prefix, _, task = architecture.partition("For")
    # file -> suffix of the exported class, and its outputs
    files = {"onnx/model.onnx": (f"For{task}", ["logits", HIDDEN])}
    if task == "MaskedLM":
        files = {"onnx/model.onnx": ("Model", [HIDDEN])}
        files["onnx/model_masked_lm.onnx"] = "ForMaskedLM", ["logits"]
    library = load_code(folder)
    os.makedirs(os.path.join(folder, "onnx"))
    differences = {}
    options = {"local_files_only": True, "attn_implementation": "eager"}
    for name, (class_name, of_file) in files.items():
        model = getattr(library, prefix + class_name).from_pretrained(folder, **options)
        module, path = Outputs(model.float(), of_file).eval(), os.path.join(folder, name)
        write_file(module, path)
        differences[name] = difference = largest_difference(module, path)
        if not difference <= LIMIT:  # also true for NaN
            raise ValueError(f"{name} differs from the model by {difference:.1e}; limit {LIMIT}")
    return differences


def write_file(module: Outputs, path: str) -> None:
    """Write a model for batches of any size and length."""
    input_ids = torch.full((2, 5), module.model.config.eos_token_id)
    attention_mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]])
    sizes = {0: "batch", 1: "length"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's warnings about its own code
        program = torch.onnx.export(
            module,
            (input_ids, attention_mask),
            dynamo=True,
            input_names=INPUTS,
            output_names=module.names,
            dynamic_shapes=(sizes, sizes),
            verbose=False,
        )
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # removes stack traces, which have local paths
    program.save(path)


def largest_difference(module: Outputs, path: str) -> float:
    """The largest difference at any real token, in padded batches of several shapes."""
    config = module.model.config
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(1)
    # RoBERTa does not use its first two positions
    longest = config.max_position_embeddings - (2 if config.model_type == "roberta" else 0)
    differences = []
    for lengths in ([1], [longest], [2, 1], [1, longest, longest // 3], [longest // 2] * 9):
        is_real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        ids = torch.randint(config.vocab_size, is_real.shape, generator=generator)
        ids[ids == config.pad_token_id] = config.eos_token_id
        ids[~is_real] = config.pad_token_id
        inputs = dict(zip(INPUTS, (ids, is_real.long()), strict=True))
        computed = session.run(module.names, {name: x.numpy() for name, x in inputs.items()})
        for expected, array in zip(module(**inputs), computed, strict=True):
            difference = (expected - torch.from_numpy(array)).abs()
            differences.append(difference[is_real] if expected.dim() == 3 else difference)
    return torch.cat([x.flatten() for x in differences]).max().item()  # NaN if any is
