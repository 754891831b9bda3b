"""tupe-compare's flags."""

import argparse

from tupe_fairseq.command_flags.checked_compare import check as check
from tupe_fairseq.compare.parse_schemes import FLAGS
from tupe_fairseq.position.known_schemes import SCHEME_NAMES


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-compare",
        description="Pre-train a tupe_roberta with each position encoding and seed, everything "
        "else equal, and write OUT/results.md (validation loss with its spread over the seeds, "
        "the updates to the baseline's final loss, parameters, speed and memory, for each model "
        "size), OUT/results.json, "
        "OUT/loss_by_updates.png and OUT/loss_by_time.png. Each run is a plain fairseq-train "
        "command, which is printed. Finished runs are not repeated, an interrupted one resumes "
        "from its last validation, and schemes, sizes and seeds can be added later.",
        epilog="example: tupe-compare data-bin --output-dir comparison --schemes "
        '"learned; learned --rel-pos; tupe; tupe --rel-pos" --arch tupe_roberta_tiny --seeds 1,2 '
        "--updates 2000 --cpu",
    )
    add = parser.add_argument
    add(
        "data",
        metavar="DATA",
        help="folder made by tupe-prepare-pretrain or fairseq-preprocess; shards separated "
        "by colons",
    )
    add("--output-dir", required=True, metavar="OUT", help="folder for runs and results")
    add(
        "--schemes",
        required=True,
        metavar="LIST",
        help="position encodings separated by semicolons, each followed by its own flags "
        f"({', '.join(flag + ' N' * number for flag, number in FLAGS.items())}); names: "
        f"{', '.join(SCHEME_NAMES)}",
    )
    add("--updates", type=int, required=True, metavar="N", help="number of updates of each run")
    add("--seeds", default="1,2", metavar="LIST", help="fairseq's seeds; default %(default)s")
    add(
        "--baseline",
        metavar="SCHEME",
        help="the scheme that the others are compared with; default: learned, or the "
        "first scheme if learned is not listed",
    )
    add = parser.add_argument_group("training settings, the same for all runs").add_argument
    add(
        "--arch",
        default="tupe_roberta_tiny",
        metavar="LIST",
        help="model sizes, such as tupe_roberta_tiny,tupe_roberta_mini; each gets its own "
        "comparison; default %(default)s; for other sizes use --train-flags",
    )
    add(
        "--batch-size",
        type=int,
        default=16,
        metavar="N",
        help="samples per update; default %(default)s",
    )
    add("--tokens-per-sample", type=int, default=128, metavar="N", help="default %(default)s")
    add(
        "--lr",
        type=float,
        default=1e-3,
        metavar="RATE",
        help="peak learning rate; default %(default)s",
    )
    add("--warmup-updates", type=int, metavar="N", help="default: 5%% of --updates")
    add(
        "--validate-every",
        type=int,
        metavar="N",
        help="updates between validations, which also save the checkpoint to resume from; "
        "default: 5%% of --updates",
    )
    add(
        "--train-flags",
        default="",
        metavar="FLAGS",
        help="further fairseq-train flags, quoted as one argument: --train-flags='--encoder-layers "
        "3 --dropout 0'",
    )
    add = parser.add_argument_group("machine").add_argument
    add("--cpu", action="store_true", help="train on the CPU")
    add("--fp16", action="store_true", help="mixed precision, on GPUs")
    add(
        "--gpus",
        metavar="LIST",
        help="GPU numbers, such as 0,1; each run uses one; default 0",
    )
    add(
        "--parallel",
        type=int,
        metavar="N",
        help="number of concurrent runs; speed and memory are then marked as measured "
        "concurrently; default: one per GPU, 1 on the CPU",
    )
    add(
        "--threads",
        type=int,
        metavar="N",
        help="CPU threads of each run; default: OMP_NUM_THREADS, or the cores divided "
        "by --parallel",
    )
    add(
        "--keep-checkpoints",
        action="store_true",
        help="keep checkpoint_last.pt of the runs that finish in this call (for tupe-plot); "
        "default: only of unfinished runs",
    )
    add(
        "--dry-run",
        action="store_true",
        help="check everything and print the commands, without running them",
    )
    return parser
