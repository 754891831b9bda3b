"""Splits text into subwords: SentencePiece, and GPT-2's byte BPE.

Each class has ``split`` (line to subwords), ``join`` (subwords to text) and ``unfit`` (the words of
a dict.txt that are not its subwords). All words of a line but the first are encoded with
``before_word`` in front, which gives a word alone the same subwords as in its line.
"""

import io
import signal
from collections.abc import Iterable, Sequence

from tupe_fairseq.data.dictionary import FILLER, MASK, SPECIAL_TOKENS, UNK
from tupe_fairseq.data.parallel import signal_handler
from tupe_fairseq.data.text_files import read_lines
from tupe_fairseq.files import read_json


class SentencePiece:
    """A SentencePiece model."""

    before_word = ""

    def __init__(self, path: str):
        import sentencepiece
        from sentencepiece.sentencepiece_model_pb2 import ModelProto

        with open(path, "rb") as file:
            content = file.read()
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=content)
            # sentencepiece accepts a truncated file that ends between two fields; this is the last
            if not ModelProto.FromString(content).HasField("normalizer_spec"):
                raise ValueError
            size = self.processor.get_piece_size()
            #: the subword of each id of the model
            self.pieces = [self.processor.id_to_piece(i) for i in range(size)]
        except (RuntimeError, ValueError):  # ValueError: it is not UTF-8
            raise ValueError(f"{path} is not a SentencePiece model") from None
        # fairseq's name for the unknown token, even if the model has another
        self.pieces[self.processor.unk_id()] = SPECIAL_TOKENS[UNK]

    def split_ids(self, lines: Sequence[str]) -> list[list[int]]:
        """The model's own ids of each line, for indexing ``pieces``."""
        return self.processor.encode(list(lines), out_type=int, num_threads=1)

    def split(self, line: str) -> list[str]:
        """The subwords; characters that the model lacks stay as they are, as in spm_encode.

        In fairseq no word contains white space, of which the model may have some left.
        """
        subwords = " ".join(self.processor.encode(line, out_type=str)).split()
        return [SPECIAL_TOKENS[UNK] if x in SPECIAL_TOKENS else x for x in subwords]

    def join(self, subwords: Sequence[str]) -> str:
        return "".join(subwords).replace("\u2581", " ").strip()

    def words(self) -> list[str]:
        """The content of dict.txt: all pieces but fairseq's special tokens."""
        special = {*SPECIAL_TOKENS, MASK}
        control = self.processor.is_control
        return [x for i, x in enumerate(self.pieces) if not (control(i) or x in special)]

    def unfit(self, words: Iterable[str]) -> list[str]:
        """Words without any character of the model do fit: fairseq-preprocess lists them, too."""
        pieces = set(self.words())
        return [word for word in words if word not in pieces and pieces & set(word)]


def learn_sentencepiece(
    lines: Iterable[str],
    vocab_size: int,
    model_type: str,
    character_coverage: float,
    lowercase: bool,
    required_chars: str = "",
) -> bytes:
    """Train a model with fairseq's ids for the special tokens, and with <mask> as a piece."""
    import sentencepiece

    model = io.BytesIO()
    try:
        with signal_handler(signal.SIG_DFL):  # else Ctrl-C has no effect before SentencePiece ends
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines), model_writer=model, vocab_size=vocab_size,
                model_type=model_type, character_coverage=character_coverage,
                normalization_rule_name="nmt_nfkc_cf" if lowercase else "nmt_nfkc",
                bos_id=0, pad_id=1, eos_id=2, unk_id=3, user_defined_symbols=[MASK],
                max_sentence_length=1 << 30,  # bytes; our limit in characters was applied before
                num_threads=8,  # not the number of workers, because the model depends on it
                minloglevel=2,
                # an empty value would be recorded in the model
                **({"required_chars": required_chars} if required_chars else {}),
            )  # fmt: skip
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2].strip() or error
        raise ValueError(f"--vocab-size {vocab_size} does not fit the text: {reason}") from None
    return model.getvalue()


class Gpt2Bpe:
    """GPT-2's byte BPE, like fairseq's ``--bpe gpt2``; dict.txt lists the ids of encoder.json."""

    before_word = " "

    def __init__(self, encoder_json: str, vocab_bpe: str):
        from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode, get_encoder

        ids = read_json(encoder_json)
        if not set(bytes_to_unicode().values()) <= set(ids):
            raise ValueError(f"{encoder_json} is not GPT-2's encoder.json: an id for each piece")
        merged = set()
        for line, merge in enumerate(read_lines(vocab_bpe)[1:], 2):
            if len(merge.split()) != 2 or "".join(merge.split()) not in ids:
                raise ValueError(
                    f"{vocab_bpe}, line {line}: {merge[:80]!r} is not a merge of {encoder_json}"
                )
            merged.add("".join(merge.split()))
        self.ids = {
            str(id)
            for piece, id in ids.items()
            if len(piece) == 1 or piece in merged or piece[:1] in "<[" or FILLER.fullmatch(piece)
        }
        self.encoder = get_encoder(encoder_json, vocab_bpe)

    def split(self, line: str) -> list[str]:
        return list(map(str, self.encoder.encode(line)))

    def join(self, subwords: Sequence[str]) -> str:
        """The text; words that are not ids, such as ``<mask>``, are left out."""
        return self.encoder.decode([int(word) for word in subwords if word.isdigit()])

    def unfit(self, words: Iterable[str]) -> list[str]:
        return [word for word in words if word not in self.ids]
