"""The reader of untrusted checkpoints: what it returns, and that no code of the file runs."""

import argparse
import collections
import io
import itertools
import os
import pickle
import random
import tarfile
import zipfile

import numpy as np
import pytest
import torch

from tupe_fairseq.checkpoint.checkpoint import CheckpointError, Inert, _load, check_tensors, read
from tupe_fairseq.checkpoint.untrusted_options import checked_options

RAN = "CODE-RAN"  # what a file's code would make in the current folder
OPTIONS = {"arch": "tupe_roberta_tiny", "task": "masked_lm", "encoder_layers": 2, "dropout": 0.1}
SIZES = dict.fromkeys(
    ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads",
     "max_positions"), 2,
)  # fmt: skip


@pytest.fixture(autouse=True)
def current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    allowed = torch.serialization.get_safe_globals()
    yield
    assert not os.path.exists(RAN)
    assert set(torch.serialization.get_safe_globals()) == set(allowed)


def refused(path="x.pt"):
    """The message with which a file is refused."""
    with pytest.raises(CheckpointError) as error:
        checked_options({**SIZES, **read(path)[0]}, str(path))
    message = str(error.value)
    assert str(path) in message and "\n" not in message and len(message) < 450
    assert "weights_only" not in message.replace("weights_only=True", "")  # torch's bad advice
    return message


def state(**changes):
    return {"args": argparse.Namespace(**OPTIONS), "model": {"x": torch.ones(3)}, **changes}


class Call:
    def __init__(self, function=os.mkdir, *args):
        self.call = function, args or (RAN,)

    def __reduce__(self):
        return self.call


# ---- pickles by hand


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def text(value):
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def number(value):
    return pickle.dumps(value, 2)[2:-1]


def tup(*parts):
    return b"(" + b"".join(parts) + b"t"


def sizes(*values):
    return tup(*map(number, values))


def storage(numel=1, kind="FloatStorage", key="0", *, old):
    view = b"N" if old else b""  # the old format has one entry more
    parts = text("storage"), name("torch", kind), text(key), text("cpu"), number(numel), view
    return tup(*parts) + b"Q"


def call(module, function, *args):
    return name(module, function) + tup(*args) + b"R"


NAMESPACE, ORDERED = name("argparse", "Namespace"), name("collections", "OrderedDict")
UTILS = "torch._utils"


def tensor(numel, size, stride, offset=0, *, old, **kind):
    where = storage(numel, **kind, old=old), number(offset), sizes(*size), sizes(*stride)
    return name(UTILS, "_rebuild_tensor_v2") + tup(*where, b"\x89", ORDERED + b")R") + b"R"


def write(value, place="model", *, old, path="x.pt"):
    """A checkpoint with ``value``, pickle opcodes, as an entry of its model or of extra_state."""
    args = NAMESPACE + b")\x81}" + text("arch") + text("tupe_roberta") + b"sb"
    fine = tensor(1, [1], [1], old=old, key="1")
    model = b"}(" + text("fine") + fine + (text("x") + value if place == "model" else b"") + b"u"
    parts = text("args") + args + text("model") + model
    parts += text("extra_state") + value if place == "extra_state" else b""
    pickled = b"\x80\x02}(" + parts + b"u."
    if not old:
        with zipfile.ZipFile(path, "w") as file:
            for entry, content in {"data.pkl": pickled, "version": "3\n"}.items():
                file.writestr(f"a/{entry}", content)
            for key in "01":
                file.writestr(f"a/data/{key}", bytes(4))
        return
    keys = ["1", "0"] if text("storage") in value and text("0") in value else ["1"]
    with open(path, "wb") as file:
        for part in (0x1950A86A20F9469CFC6C, 1001, {}):
            pickle.dump(part, file, protocol=2)
        file.write(pickled)
        pickle.dump(keys, file, protocol=2)
        file.write(((1).to_bytes(8, "little") + bytes(4)) * len(keys))


def one(old):
    return tensor(1, [1], [1], old=old)


OLD = pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
STATE = b"}" + text("poisoned") + b"\x88s"
ENCODE, T = name("_codecs", "encode"), tensor
REFUSED = {  # refused in either place; the functions get `old`
    "os.mkdir": lambda old: call("os", "mkdir", text(RAN)),
    "eval": lambda old: call("builtins", "eval", text(f"open('{RAN}','w')")),
    "bytes of a file": lambda old: call("torch.storage", "_load_from_bytes", text("x")),
    "inst": lambda old: b"(" + text(RAN) + b"ios\nmkdir\n",
    "stack_global": lambda old: text("os") + text("mkdir") + b"\x93" + tup(text(RAN)) + b"R",
    "a class changed": lambda old: NAMESPACE + STATE + b"b",
    "a tensor changed": lambda old: one(old) + STATE + b"b",
    "an object called": lambda old: NAMESPACE + b")\x81)R",
    # allowed by torch, not here
    "hooks": lambda old: (
        call("torch.nn.parameter", "Parameter", one(old)) + tup(b"\x88", b"N", b"}") + b"b"
    ),
    "attributes": lambda old: (
        call("torch._tensor", "_rebuild_from_type_v2", NAMESPACE, NAMESPACE, b")", STATE)
    ),
    "meta": lambda old: (
        call(UTILS, "_rebuild_meta_tensor_no_storage", name("torch", "float32"), sizes(2**40),
             sizes(1), b"\x89")
    ),
    "sparse": lambda old: call(UTILS, "_rebuild_sparse_tensor", b"N", b"N"),
    # tensors that claim more data than there is
    "more than there are": lambda old: T(1, [2], [1], old=old),
    "storage of 2^40": lambda old: T(2**40, [1], [1], old=old),
    "another type": lambda old: T(1, [1], [1], kind="DoubleStorage", old=old),
    "set_ far": lambda old: (
        one(old) + tup(storage(old=old), number(2**40), sizes(1), sizes(1)) + b"b"
    ),
}  # fmt: skip
IN_MODEL = {  # harmless, but not weights
    "a number": lambda old: number(1),
    "an object with arguments": lambda old: NAMESPACE + tup(text("a")) + b"R",
    "its class": lambda old: NAMESPACE + b")\x81}" + text("__class__") + ORDERED + b"sb",
    "itself": lambda old: NAMESPACE + b")\x81q\x05}" + text("_val") + b"h\x05sb",
    "rot13": lambda old: ENCODE + tup(text("a"), text("rot13")) + b"R",
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_instructions_that_are_refused(what):
    for place, old in itertools.product(["model", "extra_state"], [False, True]):
        write(REFUSED[what](old), place, old=old)
        refused()
    for kind in (argparse.Namespace, collections.OrderedDict, Inert):
        assert not hasattr(kind, "poisoned")


@OLD
@pytest.mark.parametrize("what", IN_MODEL)
def test_what_is_inert_and_no_weight(what, old):
    write(IN_MODEL[what](old), "model", old=old)
    refused()
    write(IN_MODEL[what](old), "extra_state", old=old)  # is not read
    assert list(read("x.pt")[1]) == ["fine"]


@OLD
def test_a_call_in_every_place(old):
    places = {
        "key": lambda bad: bad.update({Call(): 1}),
        "option": lambda bad: setattr(bad["args"], "a", Call()),
        "tensor": lambda bad: bad["model"].update(x=Call()),
        "deep": lambda bad: bad.update(extra_state=[{"a": (1, [Call()])}]),
    }
    for name in ("args", "cfg", "model", "optimizer_history", "extra_state", "new"):
        places[name] = lambda bad, name=name: bad.update({name: Call()})
    for put in places.values():
        bad = state()
        put(bad)
        torch.save(bad, "x.pt", _use_new_zipfile_serialization=not old)
        assert "which no checkpoint needs" in refused()


@OLD
def test_what_fairseq_writes(old):
    weight = torch.randn(4, 3)
    model = collections.OrderedDict(
        a=weight, b=weight, c=weight.t(), d=torch.ones(2, dtype=torch.bfloat16),
        e=torch.nn.Parameter(weight[1:]), version=torch.tensor(7),
    )  # fmt: skip
    model._metadata = {"": {"version": 1}}
    extra = {"best": np.float64(0.25), "seen": [np.float32(0.5), np.int64(3), np.bool_(True)]}
    history = [{"num_updates": 30, "lr_scheduler_state": {"best": None}}]
    torch.save(state(model=model, extra_state=extra, optimizer_history=history), "x.pt",
               _use_new_zipfile_serialization=not old)  # fmt: skip
    options, tensors, updates = read("x.pt")
    assert options == {**OPTIONS} and updates == 30
    assert all(tensors[key].equal(value.detach()) for key, value in model.items())
    assert {type(value) for value in tensors.values()} == {torch.Tensor}


def test_what_is_no_checkpoint():
    sparse = state(model={"x": torch.eye(2).to_sparse()})
    for odd in ([1], None, torch.ones(2), {"args": 1}, {"model": {}}, sparse):
        torch.save(odd, "x.pt")
        refused()


def test_the_pickle_that_is_checked_is_the_one_that_torch_loads():
    """Its reader ignores the case of names; which of two it takes depends on their places."""
    entries = {}
    for pickled, x in (("data.pkl", torch.ones(8)), ("DATA.PKL", torch.eye(2).to_sparse())):
        torch.save(state(model={"x": x}), "x.pt")
        with zipfile.ZipFile("x.pt") as archive:
            names = [name.partition("/")[2] for name in archive.namelist()]
            content = {name: archive.read(f"x/{name}") for name in names}
        entries[pickled] = content.pop("data.pkl")
        entries.update(content)
    outcomes = set()
    for place in range(len(entries)):
        order = [name for name in entries if name != "DATA.PKL"]
        order.insert(place, "DATA.PKL")
        with zipfile.ZipFile("x.pt", "w") as archive:
            for name in order:
                archive.writestr(f"x/{name}", entries[name])
        try:
            outcomes.add(read("x.pt")[1]["x"].layout)
        except CheckpointError as error:
            outcomes.add(str(error).split()[-5])
    assert outcomes == {torch.strided, "torch._utils._rebuild_sparse_tensor,"}
    with pytest.raises(CheckpointError, match="x is torch.sparse_coo, not dense"):
        check_tensors({"x": torch.eye(2).to_sparse()}, "x.pt")


def test_other_packages_may_not_allow_more():
    torch.save(state(extra_state=Call(os.mkdir, RAN)), "x.pt")
    with torch.serialization.safe_globals([(os.mkdir, "posix.mkdir"), Call]):
        refused()


def test_numpys_types_are_not_built_from_the_file():
    """A real dtype would take flags from the file, with which numpy.scalar reads other memory."""
    dtype = name("numpy", "dtype") + tup(text("f8"), b"\x89", b"\x88") + b"R"
    dtype += tup(number(3), text("<"), b"NNN", number(8), number(8), number(5)) + b"b"
    data = ENCODE + tup(text("A" * 8), text("latin1")) + b"R"
    scalar = name("numpy._core.multiarray", "scalar") + tup(dtype, data) + b"R"
    write(b"}" + text("best") + scalar + b"s", "extra_state", old=False)
    assert _load("x.pt")["extra_state"]["best"] == np.frombuffer(b"A" * 8)[0]


# ---- damaged files


@OLD
def test_cut_or_a_bit_flipped_anywhere(old):
    torch.save(state(), "x.pt", _use_new_zipfile_serialization=not old)
    content, right = open("x.pt", "rb").read(), read("x.pt")[1]["x"]
    for place in range(0, len(content), 7):
        open("x.pt", "wb").write(content[:place])
        refused()
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        open("x.pt", "wb").write(changed)
        try:
            found = read("x.pt")[1]["x"]
        except CheckpointError:
            continue
        assert old or found.equal(right)  # the old one has no checksums


def test_any_instructions():
    draw = random.Random(1)
    parts = [*(bytes([code]) for code in b".(N)]}0129abdeilopqrstu\x81\x85"), b"h\x00", b"q\x00"]
    parts += [NAMESPACE, ORDERED, ENCODE, text(RAN), text("latin1"), number(2**31), one(False)]
    parts += [name("os", "mkdir"), name("numpy", "dtype")]
    for _ in range(250):
        instructions = b"".join(draw.choices(parts, k=draw.randrange(12)))
        write(instructions, draw.choice(["model", "extra_state"]), old=False)
        try:
            assert set(map(type, read("x.pt")[1].values())) <= {torch.Tensor}
        except CheckpointError:
            pass


def test_no_file():
    os.mkfifo("pipe")
    for path in (".", "pipe", "/dev/zero", "absent"):
        with pytest.raises(FileNotFoundError, match=f"{path} does not exist, or is not a file"):
            read(path)


def test_other_files():
    for content in (b"", bytes(5000), b"text\n" * 99, b"PK\x03\x04" + bytes(99)):
        open("x.pt", "wb").write(content)
        refused()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), "x.pt")
    refused()
    pickle.dump(Call(), open("x.pt", "wb"))
    refused()
    with tarfile.open("x.pt", "w") as file:
        content = pickle.dumps(Call())
        info = tarfile.TarInfo("storages")
        info.size = len(content)
        file.addfile(info, io.BytesIO(content))
    refused()
    torch.save(Call(), "a.pt", _use_new_zipfile_serialization=False)
    torch.save(state(), "b.pt")  # an archive after a pickle
    open("x.pt", "wb").write(open("a.pt", "rb").read() + open("b.pt", "rb").read())
    refused()


def test_deep_nesting():
    write(b"]" * 10**5 + b"a" * (10**5 - 1), "extra_state", old=False)
    read("x.pt")
