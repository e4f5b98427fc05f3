"""What the parts of the campaign share: a seed, a time limit, forked runs that can be killed, a count of cases.

lamina and torch are imported once, and every case is a fork of that process. So a case costs milliseconds, and a kill
can hit any moment of the work instead of the start of Python.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

T = TypeVar("T")
OUT_OF_TIME = None
Head = Literal["none", "masked", "causal"]
"""What a tiny model says words with."""


class Outcome(NamedTuple):
    """How a forked run ended."""

    code: int | None
    """Exit status; negative for a signal, None if it ran out of time."""
    said: str
    """All it printed."""
    seconds: float

    @property
    def traceback(self) -> bool:
        """Whether it showed its user a traceback."""
        return "Traceback (most recent call last)" in self.said


class Campaign:
    """One part of the campaign as it runs."""

    def __init__(
        self,
        part: str,
        folder: Path,
        *,
        seed: int,
        seconds: float,
        full: bool = False,
        corpora: Path | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self.part = part
        self.seed = seed
        self.random = random.Random(f"{seed} {part} {share}")
        self.share = share
        self.seconds = seconds
        self.full = full
        self.corpora = corpora
        """A folder with real corpora, to take files from."""
        self.folder = folder / part
        """An empty folder to work in."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.shared = folder
        """A folder for what several parts use."""
        self._start = time.monotonic()
        self._log = folder / f"{part}.jsonl"
        self._log.write_text("")
        self.cases = Counter[str]()
        """Kind of case, the words before the first colon -> how many went well."""
        self.faults: list[str] = []
        """What went wrong."""
        self.notes: list[str] = []
        """Figures for the summary."""

    def count(self, short: int, long: int) -> int:
        """How many cases to try."""
        return long if self.full else short

    def mine(self, items: Sequence[T]) -> Sequence[T]:
        """Of the items, those that belong to this run's share of the part."""
        number, of = self.share
        return items[number::of]

    def left(self) -> float:
        """Seconds until the time limit."""
        return self.seconds - (time.monotonic() - self._start)

    def good(self, case: str) -> None:
        """A case went well."""
        self.cases[case.partition(":")[0]] += 1

    def bad(self, case: str, why: str) -> None:
        """A case showed a fault."""
        self.faults.append(f"{case}: {why[-600:]}")
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"case": case, "why": why}) + "\n")
        print(f"  FAULT {case}: {why[-600:]}", flush=True)

    def judge(self, case: str, fault: str) -> None:
        """A case went well if there is no fault to tell."""
        if fault:
            self.bad(case, fault)
        else:
            self.good(case)

    def note(self, figure: str) -> None:
        """A figure for the summary."""
        self.notes.append(figure)

    def record(self) -> None:
        """Keep the counts beside the log, for `merged`."""
        about = {"part": self.part, "seed": self.seed, "full": self.full, "seconds": time.monotonic() - self._start}
        counts = {"cases": self.cases, "faults": len(self.faults), "notes": self.notes}
        name = f"{self.part}-{self.seed}-{self.share[0]}of{self.share[1]}{'-full' if self.full else ''}.json"
        path = self.shared / name
        path.write_text(json.dumps(about | counts, indent=1), encoding="utf-8")

    def summary(self) -> str:
        """One line: what was tried, and how much of it went wrong."""
        tried = ", ".join(f"{count:,} {kind}" for kind, count in self.cases.items()) or "nothing"
        figures = "".join(f"; {note}" for note in self.notes)
        took = time.monotonic() - self._start
        return f"{self.part}: {len(self.faults)} faults; went well: {tried}{figures} (seed {self.seed}, {took:.0f} s)"

    def forked(
        self,
        work: Callable[[], object],
        *,
        kill_after: float | None = None,
        signal: int = signal.SIGKILL,
        seconds: float = 60.0,
    ) -> Outcome:
        """Run `work()` in a fork of this process, with a signal sent after a while; it is killed after `seconds`."""
        log = self.folder / f".said-{time.monotonic_ns()}"
        sys.stdout.flush()
        sys.stderr.flush()
        start, pid = time.monotonic(), os.fork()
        if pid == 0:
            _child(work, log)
        sent, timed_out, status = kill_after is None, False, 0
        while not timed_out:
            done, status = os.waitpid(pid, os.WNOHANG)
            spent = time.monotonic() - start
            if done:
                break
            if not sent and kill_after is not None and spent >= kill_after:
                os.kill(pid, signal)
                sent = True
            timed_out = spent > seconds
            time.sleep(0.002)
        if timed_out:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        log.unlink(missing_ok=True)
        code = OUT_OF_TIME if timed_out else os.waitstatus_to_exitcode(status)
        return Outcome(code, said, time.monotonic() - start)

    def lamina(
        self,
        *argv: object,
        before: Callable[[], object] | None = None,
        kill_after: float | None = None,
        signal: int = signal.SIGKILL,
        seconds: float = 60.0,
    ) -> Outcome:
        """Run `lamina ARGV...` in a fork; `before()` is called in it first."""

        def work() -> None:
            from lamina.__main__ import main

            if before:
                before()
            sys.argv = ["lamina", *map(str, argv)]
            main()

        return self.forked(work, kill_after=kill_after, signal=signal, seconds=seconds)

    def tiny_corpus(self, train: int = 120, dev: int = 40) -> Path:
        """A folder with a small treebank in splits, a document every five sentences."""
        folder = self.shared / f"corpus-{train}-{dev}"
        folder.mkdir(exist_ok=True)
        for split, count in (("train", train), ("dev", dev), ("test", dev)):
            draw = random.Random(split)
            blocks = [_sentence(draw, f"{split}{n}", new_document=n % 5 == 0) for n in range(count)]
            (folder / f"tiny-{split}.conllu").write_text("\n".join(blocks), encoding="utf-8")
        return folder

    def tiny_model(self, width: int = 64, layers: int = 2, head: Head = "none") -> Path:
        """The folder of a small model with random weights, the same every time: a BERT, or a GPT-2 if it is causal."""
        folder = self.shared / f"model-{width}-{layers}{'' if head == 'none' else f'-{head}'}"
        if not (folder / "config.json").exists():
            made = self.forked(lambda: _make_model(folder, width, layers, head))
            if made.code != 0:
                raise RuntimeError(f"the model could not be made: {made.said}")
        return folder

    @staticmethod
    def tiny_words(draw: random.Random) -> tuple[str, ...]:
        """The words of a sentence that tiny models know: the ADJ NOUN VERB NOUN ."""
        return ("the", draw.choice(_ADJECTIVES), draw.choice(_NOUNS), draw.choice(_VERBS), draw.choice(_NOUNS), ".")


def merged(folders: Sequence[Path]) -> str:
    """The counts of several runs as a table in Markdown: one row per part and kind of case.

    Example:
        >>> import tempfile
        >>> print(merged([Path(tempfile.mkdtemp())]))
        | part | tried | faults | time |
        |---|---|---|---|
    """
    kinds: dict[str, Counter[str]] = {}
    faults, seconds = Counter[str](), Counter[str]()
    for path in sorted(path for folder in folders for path in folder.glob("*-*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        kinds.setdefault(run["part"], Counter()).update(run["cases"])
        faults[run["part"]] += run["faults"]
        seconds[run["part"]] += round(run["seconds"])
    rows = ["| part | tried | faults | time |", "|---|---|---|---|"]
    for part, cases in kinds.items():
        tried = ", ".join(f"{count:,} {kind}" for kind, count in cases.items())
        rows.append(f"| `{part}` | {tried} | {faults[part]} | {seconds[part] / 60:.0f} min |")
    return "\n".join(rows)


def warm() -> None:
    """Import what cases need, before the first fork, and keep to one thread: threads do not survive a fork."""
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    os.environ |= {"LAMINA_OFFLINE": "1", "COLUMNS": "200"}
    import torch
    from transformers import AutoModel, AutoTokenizer, BertModel  # noqa: F401
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping

    import lamina.activations
    import lamina.cli.main
    import lamina.framework
    import lamina.models.running.huggingface

    torch.set_num_threads(1)
    # Compiles hundreds of patterns, half the time of loading a tiny model.
    get_checkpoint_conversion_mapping("bert")
    lamina.framework.all_analyses()


def _child(work: Callable[[], object], log: Path) -> None:
    """Run in the fork, and end it as Python would have ended."""
    import atexit
    import threading

    code = 70
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(out, 1)
        os.dup2(out, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
        atexit._run_exitfuncs()
    finally:
        os._exit(code)


_NOUNS = ("dogs", "cats", "boats", "keys", "people", "letters", "stones", "rivers")
_VERBS = ("see", "take", "find", "like", "follow", "move")
_ADJECTIVES = ("old", "small", "green", "quiet", "late")


def _sentence(draw: random.Random, name: str, *, new_document: bool) -> str:
    """A sentence in CoNLL-U: the ADJ NOUN VERB NOUN ."""
    words = Campaign.tiny_words(draw)
    tags = ("DET", "ADJ", "NOUN", "VERB", "NOUN", "PUNCT")
    heads = ((3, "det"), (3, "amod"), (4, "nsubj"), (0, "root"), (4, "obj"), (4, "punct"))
    lines = [f"# newdoc id = {name}"] if new_document else []
    lines.append(f"# sent_id = {name}")
    for number, (word, tag, (head, relation)) in enumerate(zip(words, tags, heads, strict=True), start=1):
        lines.append("\t".join((str(number), word, word, tag, "_", "_", str(head), relation, "_", "_")))
    return "\n".join(lines) + "\n"


def _make_model(folder: Path, width: int, layers: int, head: Head) -> None:
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        BertModel,
        GPT2Config,
        GPT2LMHeadModel,
        PreTrainedTokenizerFast,
    )

    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", ".", *_NOUNS, *_VERBS, *_ADJECTIVES]
    words += [chr(code) for code in range(33, 127) if chr(code) not in words]
    words += [f"##{chr(code)}" for code in range(97, 123)]
    known = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(known, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", known["[CLS]"]), ("[SEP]", known["[SEP]"])],
    )
    special = {name: f"[{name[:-6].upper()}]" for name in ("pad_token", "unk_token", "cls_token", "sep_token")}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]", model_max_length=128, **special)
    if head == "causal":
        size: dict[str, Any] = {"n_embd": width, "n_layer": layers, "n_head": 4, "n_positions": 128}
        config = GPT2Config(vocab_size=len(words), bos_token_id=2, eos_token_id=3, **size)
        GPT2LMHeadModel(config).save_pretrained(folder)
    else:
        size = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": 4}
        config = BertConfig(vocab_size=len(words), intermediate_size=2 * width, max_position_embeddings=128, **size)
        {"none": BertModel, "masked": BertForMaskedLM}[head](config).save_pretrained(folder)
    fast.save_pretrained(folder)
