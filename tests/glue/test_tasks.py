"""What the paper and the GLUE server fix, written out: nothing here comes from the package's table.

Each line is one of the official files, or has the very columns of one.
"""

import pytest

from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.glue.official import official_files, read_rows

STSB_HEADER = "index genre filename year old_index source1 source2 sentence1 sentence2"
MNLI_HEADER = (
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse "
    "sentence2_parse sentence1 sentence2"
)
PARSES = ["( The rule )", "( It holds )", "(ROOT (NP (DT The) (NN rule)))", "(ROOT (S (NP (PRP It"]
MNLI_PAIR = ("The new rights are nice enough", "Everyone really likes the newest benefits ")

# task, official file, its header (None: it has none), a line, its sentences, its label
FILES = [
    (
        "CoLA", "train.tsv", None, ["gj04", "0", "*", "They drank the pub."],
        ("They drank the pub.",), "0",
    ),
    ("CoLA", "dev.tsv", None, ["gj04", "1", "", "The ship sank."], ("The ship sank.",), "1"),
    ("CoLA", "test.tsv", "index sentence", ["5", "Bill left."], ("Bill left.",), None),
    ("SST-2", "train.tsv", "sentence label", ["a gripping film ", "1"], ("a gripping film ",), "1"),
    ("SST-2", "dev.tsv", "sentence label", ["no plot at all ", "0"], ("no plot at all ",), "0"),
    ("SST-2", "test.tsv", "index sentence", ["0", "uneven ."], ("uneven .",), None),
    (
        "MRPC", "train.tsv", "Quality #1_ID #2_ID #1_String #2_String",
        ["1", "702876", "702977", "He said so .", "So he said ."],
        ("He said so .", "So he said ."), "1",
    ),
    (
        "MRPC", "dev.tsv", "Quality #1_ID #2_ID #1_String #2_String",
        ["0", "1355540", "1355592", "Shares rose .", "The index fell ."],
        ("Shares rose .", "The index fell ."), "0",
    ),
    (
        "MRPC", "test.tsv", "index #1_ID #2_ID #1_String #2_String",
        ["0", "1089874", "1089925", "They will report to So .", "Both report to Mr So ."],
        ("They will report to So .", "Both report to Mr So ."), None,
    ),
    (
        "STS-B", "train.tsv", STSB_HEADER + " score",
        ["0", "main-captions", "MSRvid", "2012test", "0001", "none", "none",
         "A plane is taking off.", "An air plane is taking off.", "5.000"],
        ("A plane is taking off.", "An air plane is taking off."), "5.000",
    ),
    (
        "STS-B", "dev.tsv", STSB_HEADER + " score",
        ["7", "main-news", "headlines", "2015", "0012", "http://a.org", "http://b.org",
         "A man is dancing.", "A man is singing.", "1.250"],
        ("A man is dancing.", "A man is singing."), "1.250",
    ),
    (
        "STS-B", "test.tsv", STSB_HEADER,
        ["0", "main-captions", "MSRvid", "2012test", "0024", "none", "none",
         "A girl styles her hair.", "A girl brushes her hair."],
        ("A girl styles her hair.", "A girl brushes her hair."), None,
    ),
    (
        "QQP", "train.tsv", "id qid1 qid2 question1 question2 is_duplicate",
        ["133273", "213221", "213222", "How is life?", "How do you do?", "0"],
        ("How is life?", "How do you do?"), "0",
    ),
    (
        "QQP", "dev.tsv", "id qid1 qid2 question1 question2 is_duplicate",
        ["201359", "303345", "303346", "Why are things funny?", "What makes a thing funny?", "1"],
        ("Why are things funny?", "What makes a thing funny?"), "1",
    ),
    (
        "QQP", "test.tsv", "id question1 question2", ["0", "Who won?", "Who has won?"],
        ("Who won?", "Who has won?"), None,
    ),
    (
        "MNLI", "train.tsv", MNLI_HEADER + " label1 gold_label",
        ["0", "31193", "31193n", "government", *PARSES, *MNLI_PAIR, "entailment", "neutral"],
        MNLI_PAIR, "neutral",
    ),
    *(
        (
            "MNLI", f"dev_{kind}.tsv",
            MNLI_HEADER + " label1 label2 label3 label4 label5 gold_label",
            ["0", "63735", "63735n", "slate", *PARSES, *MNLI_PAIR, "neutral", "entailment",
             "contradiction", "entailment", "neutral", "entailment"],
            MNLI_PAIR, "entailment",
        )
        for kind in ("matched", "mismatched")
    ),
    *(
        (
            "MNLI", f"test_{kind}.tsv", MNLI_HEADER,
            ["0", "31493", "31493", "travel", *PARSES, *MNLI_PAIR], MNLI_PAIR, None,
        )
        for kind in ("matched", "mismatched")
    ),
    *(
        (
            "QNLI", name, "index question sentence label",
            ["0", "When did the series begin?", "It began in April.", label],
            ("When did the series begin?", "It began in April."), label,
        )
        for name, label in (("train.tsv", "not_entailment"), ("dev.tsv", "entailment"))
    ),
    (
        "QNLI", "test.tsv", "index question sentence", ["0", "What is it?", "It is a seismograph."],
        ("What is it?", "It is a seismograph."), None,
    ),
    *(
        (
            "RTE", name, "index sentence1 sentence2 label",
            ["0", "No weapons were found.", "Weapons were found.", label],
            ("No weapons were found.", "Weapons were found."), label,
        )
        for name, label in (("train.tsv", "not_entailment"), ("dev.tsv", "entailment"))
    ),
    (
        "RTE", "test.tsv", "index sentence1 sentence2", ["0", "She was a witness.", "She spoke."],
        ("She was a witness.", "She spoke."), None,
    ),
    *(
        (
            "WNLI", name, "index sentence1 sentence2 label",
            ["0", "The drain is clogged. It has to be cleaned.", "The drain has to be cleaned.",
             label],
            ("The drain is clogged. It has to be cleaned.", "The drain has to be cleaned."), label,
        )
        for name, label in (("train.tsv", "1"), ("dev.tsv", "0"))
    ),
    (
        "WNLI", "test.tsv", "index sentence1 sentence2", ["0", "Maude saw Dora.", "Dora was seen."],
        ("Maude saw Dora.", "Dora was seen."), None,
    ),
]  # fmt: skip

NAMES = {"CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI"}
ENTAILMENT = ("entailment", "not_entailment")

# of the paper and of the server: labels in the order of the classes, metrics, what picks a
# checkpoint, epochs, names of the files of predictions
FIXED = {
    "CoLA": (("0", "1"), ("mcc",), "mcc", 10, ["CoLA.tsv"]),
    "SST-2": (("0", "1"), ("accuracy",), "accuracy", 10, ["SST-2.tsv"]),
    "MRPC": (("0", "1"), ("f1", "accuracy"), "acc_and_f1", 10, ["MRPC.tsv"]),
    "STS-B": ((), ("pearson", "spearman"), "pearson_and_spearman", 10, ["STS-B.tsv"]),
    "QQP": (("0", "1"), ("f1", "accuracy"), "acc_and_f1", 5, ["QQP.tsv"]),
    "MNLI": (
        ("contradiction", "entailment", "neutral"), ("accuracy",), "accuracy", 5,
        ["MNLI-m.tsv", "MNLI-mm.tsv"],
    ),
    "QNLI": (ENTAILMENT, ("accuracy",), "accuracy", 5, ["QNLI.tsv"]),
    "RTE": (ENTAILMENT, ("accuracy",), "accuracy", 10, ["RTE.tsv"]),
    "WNLI": (("0", "1"), ("accuracy",), "accuracy", 10, ["WNLI.tsv"]),
}  # fmt: skip


def line_of(words):
    return "\t".join(words) + "\n"


@pytest.mark.parametrize("name, file, header, fields, texts, label", FILES)
def test_columns(name, file, header, fields, texts, label, tmp_path):
    task, folder = GLUE_TASKS[name], tmp_path / name
    folder.mkdir()
    for _, other, *_ in FILES:  # the reader asks for all of a task's
        (folder / other).touch()
    lines = [] if header is None else [line_of(header.split())]
    (folder / file).write_text("".join([*lines, line_of(fields)]))
    paths = official_files(task, str(tmp_path))
    (split,) = (split for split, path in paths.items() if path == str(folder / file))
    rows = read_rows(task, split, paths[split])
    assert rows.texts == [texts] and rows.labels == ([] if label is None else [label])
    assert split.startswith("test") == (label is None)


def test_every_file_of_every_task_has_a_line_here():
    ours = {(name, file) for name, task in GLUE_TASKS.items() for file in task.files.values()}
    assert ours == {(name, file) for name, file, *_ in FILES}
    assert set(GLUE_TASKS) == set(FIXED) == NAMES


@pytest.mark.parametrize("name", FIXED)
def test_what_paper_and_server_fix(name):
    task = GLUE_TASKS[name]
    tests = [split for split in task.files if split.startswith("test")]
    found = (task.labels, task.metrics, task.selection, task.epochs, [*map(task.submission, tests)])
    assert found == FIXED[name]
