"""Kinds of tasks: what is predicted for a row, a file for each. No other folder knows them."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tupe_fairseq.data.metrics import METRICS
from tupe_fairseq.kinds.base import Kind
from tupe_fairseq.kinds.classification import Classification
from tupe_fairseq.kinds.multilabel import Multilabel
from tupe_fairseq.kinds.regression import Regression
from tupe_fairseq.kinds.tagging import Tagging
from tupe_fairseq.options import flag, violation

Own = TypeVar("Own", bound=type[Kind])

#: all kinds by name, also those of a --user-dir
KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (Classification(), Regression(), Multilabel(), Tagging())
}
#: what former versions trained: kinds, and tasks of fairseq
FORMER = ("qa", "choice", "question_answering", "multiple_choice")
FORMER_ADVICE = (
    "questions and multiple choice are trained by transformers, from a folder of tupe-export: see "
    "examples/export"
)


def register_kind(name: str) -> Callable[[Own], Own]:
    """A decorator for a class of your own, see examples/tasks: ``--kind NAME``."""

    def register(kind: Own) -> Own:
        if name in KINDS or name in FORMER:
            raise ValueError(f"there is a kind of tasks {name!r} already; choose another name")
        if violation(name, str):
            raise ValueError(f"{name!r} cannot name a kind of tasks; give a word")
        if missing := ", ".join(x for x in ("keys", "metrics") if not hasattr(kind, x)):
            raise ValueError(f"the kind {name!r} does not define {missing}; see Kind in {__name__}")
        for metric in kind.metrics:
            if metric not in METRICS:
                problem = (
                    f"the metric {metric!r}, none of {', '.join(METRICS)}; put it into METRICS"
                )
                raise ValueError(f"the kind {name!r} has {problem}")
        kind.name, kind.is_own = name, True
        KINDS[name] = kind()
        return kind

    return register


def get_kind(name: str) -> Kind:
    """Look up a kind by its name."""
    if name in FORMER:
        raise ValueError(f"a task of kind {name}: {FORMER_ADVICE}")
    if name not in KINDS:
        raise ValueError(
            f"a task of kind {name!r}, none of {', '.join(KINDS)}; give the --user-dir that "
            "registers it"
        )
    return KINDS[name]


def switches() -> list[str]:
    """The options of fairseq's tasks that say which kind it is."""
    return ["kind", *(name for kind in KINDS.values() for name in kind.switches)]


def kind_of_options(options: Mapping[str, Any]) -> Kind:
    """What a checkpoint predicts, by the options of its fairseq task."""
    if options.get("kind"):
        kind = get_kind(options["kind"])
        if options["task"] != kind.fairseq_task:
            raise ValueError(f"--kind {kind.name} needs --task {kind.fairseq_task}")
    else:
        *_, kind = (
            kind
            for kind in KINDS.values()
            if all(options.get(name) for name in kind.switches)
            and not kind.is_own
            and (not kind.of_words or options.get("task") == kind.fairseq_task)
        )
    for name in switches()[1:]:
        if options.get(name) and name not in kind.switches:
            raise ValueError(f"{flag(name)} is not for --kind {kind.name}; drop it")
    return kind


def kind_of_head(outputs: int, of_words: bool = False, problem_type: str | None = None) -> Kind:
    """The kind of a head; as in transformers, a single output of texts is a score."""
    kinds = [kind for kind in KINDS.values() if kind.of_words == of_words]
    named = (kind for kind in kinds if kind.problem_type and kind.problem_type == problem_type)
    kind = next(named, kinds[0])
    if kind is kinds[0] and outputs == 1:
        return next((one for one in kinds if not one.has_labels), kind)
    return kind
