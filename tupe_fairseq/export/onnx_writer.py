"""Writes the ONNX files of a model folder, and compares them with its model.

Run as a file: ``python onnx_writer.py FOLDER OUT``.  Prints one line in JSON.
"""

import importlib.util
import json
import os
import sys
import time

#: packages that it needs, but for torch
NEEDED = ("transformers", "onnx", "onnxscript", "onnxruntime")
#: what says that something is exported, so that nothing depends on the sizes of the batch at hand
OLDEST_TORCH = (2, 7)
INPUTS = ("input_ids", "attention_mask")
HIDDEN = "last_hidden_state"
# protobuf, and so a file, holds 2 GiB; beyond, weights stand in a second file
LARGEST = 2**31 - 2**26

#: model type -> what its architectures begin with
PREFIXES = {"tupe": "Tupe", "roberta": "Roberta"}
#: how an architecture ends -> its class in transformers, and file -> the outputs in it
FILES = {
    "Model": ("AutoModel", {"model": [HIDDEN]}),
    "ForMaskedLM": ("AutoModelForMaskedLM", {"model": [HIDDEN], "model_masked_lm": ["logits"]}),
    "ForSequenceClassification": (
        "AutoModelForSequenceClassification",
        {"model": ["logits", HIDDEN]},
    ),
    "ForTokenClassification": ("AutoModelForTokenClassification", {"model": ["logits", HIDDEN]}),
    "ForQuestionAnswering": (
        "AutoModelForQuestionAnswering",
        {"model": ["start_logits", "end_logits", HIDDEN]},
    ),
}


def main() -> None:
    """Print ``{"files": ...}``, ``{"missing": [packages]}`` or ``{"error": text}``."""
    folder, out = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    sys.path.pop(0)  # this file's folder
    try:
        check_torch()
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        answer = {"missing": missing} if missing else {"files": write_files(folder, out)}
    except Exception as error:  # whatever the folder or a library leads to
        answer = {"error": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(answer) + "\n")


def check_torch():
    import torch

    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise RuntimeError(f"it needs torch {oldest} or later, and this is {torch.__version__}")


def write_files(folder, out):
    """{file: {"outputs", "difference", "seconds", "size"}}"""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    is_ours = config["model_type"] == "tupe"
    architecture = str((config.get("architectures") or [None])[0])
    prefix = PREFIXES.get(config["model_type"], "?")
    if not (architecture.startswith(prefix) and architecture[len(prefix) :] in FILES):
        raise ValueError(f"config.json has the architecture {architecture}, which is not known")

    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    auto_class, wanted = FILES[architecture[len(prefix) :]]
    auto_class = getattr(transformers, auto_class)
    model, baked = (
        auto_class.from_pretrained(folder, trust_remote_code=is_ours, local_files_only=True)
        .float()
        .eval()
        for _ in range(2)
    )
    written = {}
    with torch.no_grad():
        if is_ours:
            bake(baked.base_model.encoder, config["max_position_embeddings"])
        begin = time.perf_counter()
        # tracing takes most of the time, and one trace serves all files
        every = list(dict.fromkeys(sum(wanted.values(), [])))
        program = trace(with_outputs(baked, every), every)
        values = {value.name: value for value in program.model.graph.outputs}
        # what one file leaves out is gone for the next
        for name, outputs in sorted(wanted.items(), key=lambda item: HIDDEN in item[1]):
            path = os.path.join(out, f"{name}.onnx")
            save(program, [values[output] for output in outputs], path)
            seconds = time.perf_counter() - begin
            size = sum(os.path.getsize(os.path.join(out, x)) for x in os.listdir(out))
            written[f"{name}.onnx"] = {
                "outputs": outputs,
                "difference": largest_difference(with_outputs(model, outputs), outputs, path),
                "seconds": seconds,
                "size": size - sum(file["size"] for file in written.values()),
            }
            begin = time.perf_counter()
    return {f"{name}.onnx": written[f"{name}.onnx"] for name in wanted}


def with_outputs(model, names):
    """The model as a module from input_ids and attention_mask to the outputs of these names."""
    import torch

    class Outputs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model.base_model if names == [HIDDEN] else model

        def forward(self, input_ids, attention_mask):
            out = self.model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                output_hidden_states=HIDDEN in names,
                return_dict=True,
            )
            # the last is that after the last LayerNorm
            return tuple(out.hidden_states[-1] if name == HIDDEN else out[name] for name in names)

    return Outputs().eval()


def bake(encoder, longest):
    """Compute once, for the longest sequence, what depends on positions alone; others take a part.

    Args:
        encoder (TupeStack): the folder's; changed in place.
        longest (int): the longest sequence, in tokens.
    """
    import torch

    class Baked(torch.nn.Module):
        """The position encoding that all layers share."""

        softmax_invariant_rows = ()

        def __init__(self, position):
            super().__init__()
            self.position, self.reads_content = position, position.reads_content
            self.register_buffer("bias", position.position_bias(longest))
            self.register_buffer("added", position.embed(longest))
            self.register_buffer("for_all", position.for_layers(longest))

        def forward(self, length):
            return None if self.bias is None else self.bias[:, :length, :length]

        def embed(self, length):
            return None if self.added is None else self.added[:length]

        def for_layers(self, length):
            return None if self.for_all is None else self.for_all[:, :, :length]

        def content_bias(self, *args):
            return self.position.content_bias(*args)

        def transform(self, *args):
            return self.position.transform(*args)

    class BakedKeys(torch.nn.Module):
        """The keys of a layer for all distances; enformer's functions ONNX does not even have."""

        def __init__(self, position):
            super().__init__()
            features = position.features(torch.arange(1 - longest, longest))
            projection = position.pos_k_proj
            self.register_buffer("keys", projection(features.to(projection.weight.dtype)))

        def forward(self, distances):
            return self.keys[distances.squeeze(-1).long() + longest - 1]

    if encoder.position is not None:
        encoder.position_bias = Baked(encoder.position)
        return
    for layer in encoder.layers:
        position = layer.self_attn.position
        if hasattr(position, "pos_k_proj"):
            position.pos_k_proj = BakedKeys(position)
            position.features = lambda distances: distances.unsqueeze(-1)


def trace(module, outputs):
    """torch's ONNXProgram for any batch and length."""
    import torch

    longest = module.model.config.max_position_embeddings
    input_ids = torch.full((2, min(longest, 5)), module.model.config.eos_token_id)
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, -1] = 0
    sizes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    return torch.onnx.export(
        module,
        (input_ids, attention_mask),
        dynamo=True,
        input_names=list(INPUTS),
        output_names=list(outputs),
        dynamic_shapes=(sizes, sizes),
        verbose=False,
    )


def save(program, outputs, path):
    """Write what leads to these outputs, and take the rest out of the program.

    Args:
        program (torch.onnx.ONNXProgram): changed in place.
        outputs (list of onnxscript.ir.Value): of its graph.
        path (str): the file.
    """
    from onnxscript import ir

    graph = program.model.graph
    graph.outputs[:] = outputs
    ir.passes.common.RemoveUnusedNodesPass()(program.model)
    for node in graph.all_nodes():
        node.metadata_props.clear()  # stack traces, with the paths of this machine
    size = sum(weight.const_value.nbytes for weight in graph.initializers.values())
    program.save(path, external_data=size > LARGEST)


def largest_difference(module, outputs, path):
    """Of any output at any real token, from what onnxruntime computes; in padded batches."""
    import onnxruntime
    import torch

    config = module.model.config
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(1)
    # two ids of RoBERTa's come before the first position
    longest = config.max_position_embeddings - (2 if config.model_type == "roberta" else 0)
    some = [max(longest * n // 16, 1) for n in (5, 1, 3, 2, 4)]
    largest = 0.0
    for lengths in (
        [1],
        [longest],
        [min(longest, 2), 1],
        [1, longest, some[0]],
        some,
        [some[1]] * 9,
    ):
        is_real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        ids = torch.randint(config.vocab_size, is_real.shape, generator=generator)
        ids[ids == config.pad_token_id] = config.eos_token_id
        ids[~is_real] = config.pad_token_id
        inputs = dict(zip(INPUTS, (ids, is_real.long())))
        found = session.run(outputs, {name: x.numpy() for name, x in inputs.items()})
        for name, theirs, ours in zip(outputs, found, module(**inputs)):
            theirs = torch.from_numpy(theirs)
            if theirs.shape != ours.shape:
                raise RuntimeError(f"{name} is {tuple(theirs.shape)}, not {tuple(ours.shape)}")
            difference = (theirs - ours).abs()
            if name != "logits" or theirs.dim() == 3:  # at padding anything may be
                difference = difference[is_real]
            # NaN stays
            largest = max(difference.max().item(), largest, key=lambda x: (x != x, x))
    return largest


if __name__ == "__main__":
    main()
