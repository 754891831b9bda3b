"""Small versions of GLUE's official files with their oddities, and the data for fine-tuning."""

import sentencepiece

from helpers.glue_data import ROWS, random_rows, write_bin, write_data, write_task
from helpers.running import call_program
from helpers.training import UP_TO_64, pretrain
from tupe_fairseq.data.dictionary import write_dictionary
from tupe_fairseq.data.subwords import SentencePiece
from tupe_fairseq.data.text_files import clean_line
from tupe_fairseq.files import write_json
from tupe_fairseq.labelled.glue import GLUE_TASKS
from tupe_fairseq.labelled.task import TaskRows

HEADERS = {
    "CoLA": "",
    "SST-2": "sentence label",
    "MRPC": "Quality #1_ID #2_ID #1_String #2_String",
    "STS-B": "index genre filename year old_index source1 source2 sentence1 sentence2 score",
    "QQP": "id qid1 qid2 question1 question2 is_duplicate",
    "MNLI": "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse "
    "sentence1_parse sentence2_parse sentence1 sentence2 label1 gold_label",
    "QNLI": "index question sentence label",
    "RTE": "index sentence1 sentence2 label",
    "WNLI": "index sentence1 sentence2 label",
}
DEV_HEADERS = {"MNLI": HEADERS["MNLI"].replace("label1", "label1 label2 label3 label4 label5")}
TEST_HEADERS = {
    "CoLA": "index sentence",
    "SST-2": "index sentence",
    "MRPC": "index #1_ID #2_ID #1_String #2_String",
    "STS-B": HEADERS["STS-B"].replace(" score", ""),
    "QQP": "id question1 question2",
    "MNLI": HEADERS["MNLI"].replace(" label1 gold_label", ""),
    "QNLI": "index question sentence",
    "RTE": "index sentence1 sentence2",
    "WNLI": "index sentence1 sentence2",
}

# Written into the first rows of every file; each would confuse a reader of CSV files.
ODD_TEXTS = (
    'She said "no.',
    '"Quoted" and \'quoted\', then ""',
    "a next line\u0085inside, a line separator\u2028too",
    "vertical\x0btab and form\x0cfeed",
    "",
    "Caf\u00e9, na\u00efve \u2013 CAPITALS.",
)
SUBJECTS = ("The cat", "A dog", "Every bird", "No fish", "My friend")
VERBS = ("likes", "sees", "forgot", "will eat", "has never met")
OBJECTS = ("the house", "an old tree", "nobody", "two apples", "the sea")


def sentence(number):
    """The numbers below 125 give different sentences."""
    words = SUBJECTS[number % 5], VERBS[number // 5 % 5], OBJECTS[number // 25 % 5]
    return " ".join(words) + "."


def write_glue(folder, names=tuple(GLUE_TASKS)):
    """Write FOLDER/TASK/*.tsv; returns the valid rows of each task and split."""
    return {name: _write_task(folder / name, GLUE_TASKS[name]) for name in names}


def _write_task(folder, task):
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for split, file in task.files.items():
        kind = split.rstrip("1")
        lines, found[split] = _lines(task, kind)
        content = ("\r\n" if task.name == "SST-2" else "\n").join(lines)
        if task.name != "WNLI":  # one file without a final line feed
            content += "\n"
        # a BOM, as in the official file
        mark = "\ufeff" if task.name == "MRPC" and kind != "test" else ""
        (folder / file).write_bytes((mark + content).encode("utf-8"))
    return found


def _lines(task, kind):
    headers = {"train": HEADERS, "valid": {**HEADERS, **DEV_HEADERS}, "test": TEST_HEADERS}
    header = headers[kind][task.name].split()
    lines = ["\t".join(header)] if header else []
    columns = (kind == "test" and task.test_columns) or task.columns
    found = TaskRows()
    for number in range(ROWS[kind]):
        texts = [sentence(number + 7 * column) for column in range(len(columns))]
        if number < len(ODD_TEXTS):
            texts[number % len(texts)] = ODD_TEXTS[number]
        fields = [str(number), *(f"f{column}" for column in range(1, len(header) or 4))]
        for column, text in zip(columns, texts):
            fields[column - 1] = text
        found.texts.append(tuple(texts))
        if kind == "test":
            found.index.append(str(number))
        else:
            if not task.labels:
                label = f"{number % 26 / 5:.3f}"
            else:
                label = task.labels[number * 5 % 7 % len(task.labels)]
            place = (kind == "valid" and task.dev_label) or task.label
            fields[place - 1] = label
            found.labels.append(label)
        lines.append("\t".join(fields))
    broken = []
    if task.name == "QQP" and kind != "test":
        broken = ["77\t8\t9\tA question that", "goes on here?\tAnother one?\t0"]
        broken += ["78\t8\t9\tOne\ttab\ttoo many\t1"]
    if task.name == "MNLI" and kind != "test":
        fields[place - 1] = "-"
        broken = ["\t".join(fields)]
    lines[3:3] = broken
    found.dropped["broken"] = len(broken)
    return lines, found


def write_pretrain_dir(folder, vocab_size=110):
    """A folder like those of tupe-prepare-pretrain, whose vocabulary covers the files above."""
    folder.mkdir(parents=True)
    texts = [sentence(number) for number in range(125)] + list(ODD_TEXTS[:4] + ODD_TEXTS[5:])
    texts = list(map(clean_line, texts + [text.lower() for text in texts]))
    model = folder / "sentencepiece.bpe.model"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(folder / "sentencepiece.bpe"),
        vocab_size=vocab_size, model_type="bpe", character_coverage=1.0,
        normalization_rule_name="identity", unk_id=3, bos_id=0, pad_id=1, eos_id=2,
        user_defined_symbols=["<mask>"], minloglevel=2, num_threads=1,
    )  # fmt: skip
    (folder / "sentencepiece.bpe.vocab").unlink()
    write_dictionary(str(folder / "dict.txt"), SentencePiece(str(model)).words())
    write_json(str(folder / "vocabulary.json"), {"kind": "sentencepiece", "clean": True})
    write_json(str(folder / "report.json"), {})
    return folder


def prepare_glue(official, tasks, pretrain_dir, out, *flags):
    command = ["--glue-dir", official, "--tasks", tasks, "--vocabulary", pretrain_dir]
    command += ["--output-dir", out, "--workers", "1", *flags]
    return call_program("prepare-glue", command)


def make_chain(folder):
    """Write dir (a vocabulary), checkpoint_last.pt (pre-trained with it) and out/TASK.

    CoLA comes from tupe-prepare-glue; MNLI and STS-B are written as it does, to save time.
    """
    vocabulary, out = write_pretrain_dir(folder / "dir"), folder / "out"
    lines = (vocabulary / "dict.txt").read_text().splitlines()
    words = [[4 + (7 * row + place) % len(lines) for place in range(9)] for row in range(40)]
    for split in ("train", "valid"):
        write_bin(vocabulary / split, [[*row, 2] for row in words])
    size = ["--encoder-embed-dim", 32, "--encoder-attention-heads", 4]  # smaller ones learn nothing
    pretrain(vocabulary, folder, "--rel-pos", "--max-update", 2, *UP_TO_64, *size)
    (folder / "glue" / "CoLA").mkdir(parents=True)
    for split, file in GLUE_TASKS["CoLA"].files.items():
        rows = [] if split != "test" else ["index\tsentence"]
        for number in range(ROWS[split]):
            # to be learned: class 1 is for birds and fish; every ninth label is wrong
            text = sentence(number)
            label = int(("bird" in text or "fish" in text) != (number % 9 == 8))
            rows.append(f"{number}\t{text}" if split == "test" else f"x\t{label}\tx\t{text}")
        (folder / "glue" / "CoLA" / file).write_text("\n".join(rows) + "\n")
    code, text = prepare_glue(folder / "glue", "CoLA", vocabulary, out)
    assert code == 0, text
    splits = {split: ROWS[split.rstrip("1")] for split in GLUE_TASKS["MNLI"].files}
    write_task(out / "MNLI", "MNLI", random_rows("MNLI", len(lines), splits), lines)
    scores = {split: [row % 26 / 5 for row in range(ROWS[split])] for split in ("train", "valid")}
    write_data(out / "STS-B", "STS-B", {**scores, "test": [None] * ROWS["test"]}, lines=lines)
    return folder
