"""Every analysis as a small command, with the models, corpora and results it needs."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from faults.campaign import Campaign

_FEW = ("--samples", 10)


class SmallCommand(NamedTuple):
    """One analysis, asked of a tiny model."""

    name: str
    words: Sequence[object]
    """The command, without the places it writes to."""
    stores: bool = True
    """Whether it keeps activations."""

    def at(self, place: Path) -> list[object]:
        """The command with its store and its result in a folder."""
        store = ["--store", place / "store"] if self.stores else []
        return [*self.words, *store, "--out", place / "out"]


class SmallCommands:
    """What commands need, made once per campaign."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._folder = campaign.shared / "needed"
        self._folder.mkdir(exist_ok=True)

    @cached_property
    def all(self) -> list[SmallCommand]:
        """Every analysis, in the order of the report.

        A new analysis without an entry here is a fault of the campaign: `check_complete` tells it.
        """
        masked, causal = self._campaign.tiny_model(width=16), self._campaign.tiny_model(width=16, head="causal")
        spoken = self._campaign.tiny_model(width=16, head="masked")
        texts = self._campaign.tiny_corpus(60, 20)
        bank = ("--corpus", texts)
        loss = ("--target", "loss", "--items", 6, "--no-twin")
        probing = ("--task", "pos", "--seeds", 1, "--samples", 20, "--no-twin")
        learning = ("--max-steps", 6, "--batch", 8)
        return [
            SmallCommand("geometry", ("geometry", masked, *bank, *_FEW, "--no-twin")),
            SmallCommand("dimensions", ("dimensions", masked, *bank, *_FEW, "--no-twin")),
            SmallCommand("probe", ("probe", masked, *bank, *probing)),
            SmallCommand("choose", ("choose", masked, "--corpus", self.labelled, "--task", "supersense", *_FEW)),
            SmallCommand("trace", ("trace", self._probed, "dogs see the boats .", "--model", masked), stores=False),
            SmallCommand(
                "order",
                (
                    "order",
                    masked,
                    "--corpus",
                    self._long,
                    "--task",
                    "index",
                    "--items",
                    30,
                    "--seeds",
                    1,
                    "--steps",
                    20,
                    *_FEW,
                    "--no-twin",
                ),
            ),
            SmallCommand(
                "structure",
                (
                    "structure",
                    masked,
                    *bank,
                    "--rank",
                    2,
                    "--layer",
                    1,
                    *_FEW,
                    "--attention",
                    0,
                    "--no-twin",
                    "--no-control",
                ),
            ),
            SmallCommand("agreement", ("agreement", self._probed, self._probed_again, *_FEW), stores=False),
            SmallCommand("grow", ("grow", self._series, "--ask", "geometry", *bank, *_FEW)),
            SmallCommand(
                "numbers",
                ("numbers", masked, "--task", "decoding", "--form", "integers", "--items", 20, *_FEW, "--no-twin"),
            ),
            SmallCommand("retrieval", ("retrieval", masked, "--pairs", self._translations, *_FEW, "--no-twin")),
            SmallCommand("compare", ("compare", self._probed, self._probed_again, *_FEW), stores=False),
            SmallCommand("attention", ("attention", masked, *bank, *_FEW)),
            SmallCommand("attention_distance", ("attention-distance", masked, *bank, *_FEW)),
            SmallCommand("heads", ("heads", masked, *bank, *_FEW)),
            SmallCommand("headmap", ("headmap", masked, *bank, *_FEW)),
            SmallCommand("corefheads", ("corefheads", masked, "--corpus", self._chains, *_FEW)),
            SmallCommand("parse", ("parse", masked, *bank, "--vectors", "model", *_FEW)),
            SmallCommand("look", ("look", masked, "dogs see the boats ."), stores=False),
            SmallCommand(
                "contextualize",
                ("contextualize", masked, "--corpus", self._classes, "--vectors", "none", "--context-sizes", 1, *_FEW),
            ),
            SmallCommand("neighbours", ("neighbours", masked, "--word", "dogs", *bank, "--vectors", "none")),
            SmallCommand(
                "senses",
                (
                    "senses",
                    masked,
                    "--corpus",
                    self.labelled,
                    "--moved",
                    2,
                    "--clustered",
                    1,
                    "--vectors",
                    "none",
                    "--no-twin",
                    *_FEW,
                ),
            ),
            SmallCommand("windows", ("windows", masked, "--data", texts, "--windows", 0, *learning), stores=False),
            SmallCommand("surprisal", ("surprisal", causal, *bank, "--limit", 10, "--order", 2, *_FEW, "--no-twin")),
            SmallCommand("pairs", ("pairs", spoken, "--suite", self._pairs, "--ngrams", "none", *_FEW, "--no-twin")),
            SmallCommand("cloze", ("cloze", causal, "--suite", self._cloze, *_FEW, "--no-twin")),
            SmallCommand("perturb", ("perturb", causal, *bank, *loss, "--how", "shuffled", *_FEW)),
            SmallCommand(
                "lens", ("lens", causal, *bank, "--positions", 30, "--learned", 60, "--steps", 2, *_FEW, "--no-twin")
            ),
            SmallCommand(
                "probe_vs_lens",
                ("probe-vs-lens", causal, *bank, "--facts", "none", "--words", 40, "--learn", 60, *_FEW),
            ),
            SmallCommand("ablate", ("ablate", causal, *bank, *loss, *_FEW)),
            SmallCommand("prune", ("prune", causal, *bank, *loss, "--step", 4, "--draws", 1, *_FEW)),
            SmallCommand(
                "erase",
                ("erase", causal, *bank, *loss, "--learn", 100, "--words", 40, "--draws", 5, "--layer", 1, *_FEW),
            ),
            SmallCommand(
                "restore", ("restore", self._tuned, "--points", 2, "--items", 8, "--learn", 8, *_FEW), stores=False
            ),
            SmallCommand("patch", ("patch", causal, "--suite", self._pairs, "--items", 3, "--layer", 1, *_FEW)),
            SmallCommand(
                "roles",
                (
                    "roles",
                    self._planted / "model",
                    "--corpus",
                    self._planted / "bank",
                    "--suite",
                    "none",
                    "--items",
                    10,
                    "--no-twin",
                    *_FEW,
                ),
            ),
            SmallCommand("finetune", ("finetune", masked, "--task", "pos", "--data", texts, *learning), stores=False),
            SmallCommand(
                "token_map",
                ("token-map", masked, "--question", "who see the dogs ?", "--context", "the cats see the dogs ."),
                stores=False,
            ),
            SmallCommand("phases", ("phases", self._tuned, "--data", "stories", "--first", 6, "--clustered", 2, *_FEW)),
            SmallCommand("diff", ("diff", masked, spoken, *bank, *_FEW, "--no-twin")),
            SmallCommand("correspondence", ("correspondence", masked, spoken, *bank, *_FEW), stores=False),
        ]

    def named(self, *names: str) -> list[SmallCommand]:
        """Those analyses."""
        return [command for command in self.all if command.name in names]

    def check_complete(self) -> str:
        """What analyses are missing; nothing if none is."""
        from lamina.analyses import ANALYSES

        missing = {path.partition(":")[2] for path in ANALYSES} - {command.name for command in self.all}
        return ", ".join(sorted(missing))

    def _made(self, *words: object, name: str) -> Path:
        from faults.kills import short_training

        out = self._folder / name
        if not out.exists():
            done = self._campaign.lamina(*words, "--out", out, before=short_training, seconds=600)
            if done.code != 0:
                raise RuntimeError(f"{name} could not be made: {done.said}")
        return out

    @cached_property
    def _probed(self) -> Path:
        return self._probing(16, "probed")

    @cached_property
    def _probed_again(self) -> Path:
        return self._probing(32, "probed-again")

    def _probing(self, width: int, name: str) -> Path:
        few = ("--task", "pos", "--task", "dep", "--seeds", 1, "--samples", 20, "--probes", "cumulative,layer")
        model, corpus = self._campaign.tiny_model(width=width), self._campaign.tiny_corpus(60, 20)
        store = ("--store", self._folder / "store")
        return self._made("probe", model, "--corpus", corpus, *few, *store, name=name)

    @cached_property
    def _tuned(self) -> Path:
        model = self._campaign.tiny_model(width=16)
        learning = ("--task", "babi", "--babi-tasks", "1", "--max-steps", 4, "--batch", 4)
        return self._made("finetune", model, "--data", "stories", *learning, name="tuned")

    @cached_property
    def _planted(self) -> Path:
        """A language in which one head of a model finds the subject, and that model."""
        folder = self._folder / "planted"
        if not folder.exists():
            made = self._campaign.forked(lambda: _plant_language(folder))
            if made.code != 0:
                raise RuntimeError(f"the planted language could not be made: {made.said}")
        return folder

    @cached_property
    def _long(self) -> Path:
        """A treebank of sentences with two clauses."""
        folder = self._folder / "long"
        if not folder.exists():
            folder.mkdir()
            for split, count in (("train", 120), ("dev", 60)):
                draw = random.Random(f"long {split}")
                rows = []
                for number in range(count):
                    words = (*self._campaign.tiny_words(draw)[:5], *self._campaign.tiny_words(draw))
                    heads = (3, 3, 4, 0, 4, 8, 8, 9, 4, 9, 4)
                    rows.append(f"# newdoc id = {split}{number // 3}\n# sent_id = {split}{number}")
                    for at, (word, head) in enumerate(zip(words, heads, strict=True), start=1):
                        tag = "VERB" if at in (4, 9) else "PUNCT" if at == 11 else "NOUN"
                        rows.append(f"{at}\t{word}\t{word}\t{tag}\t_\t_\t{head}\t{'dep' if head else 'root'}\t_\t_")
                    rows[-1] += "\n"
                (folder / f"long-{split}.conllu").write_text("\n".join(rows) + "\n")
        return folder

    @cached_property
    def labelled(self) -> Path:
        """Sentences whose first noun has a supersense that the verb decides."""
        return self._edges("supersense", lambda words: [(2, 3, "animal" if words[3] < "l" else "thing")])

    @cached_property
    def _chains(self) -> Path:
        """Sentences in which both nouns are mentions of one thing."""
        return self._edges("chains", lambda _: [(2, 3, "1"), (4, 5, "1")])

    def _edges(self, annotation: str, targets: Callable[[Sequence[str]], list[tuple[int, int, str]]]) -> Path:
        folder = self._folder / annotation
        if not folder.exists():
            folder.mkdir()
            for split, count in (("train", 60), ("dev", 24)):
                draw = random.Random(f"{annotation} {split}")
                records = []
                for number in range(count):
                    words = self._campaign.tiny_words(draw)
                    marks = [{"span1": [start, end], "label": label} for start, end, label in targets(words)]
                    about = {"annotation": annotation, "id": f"{split}-{number}", "doc": f"{split}-{number // 3}"}
                    records.append(json.dumps({"text": " ".join(words), "targets": marks, "info": about}))
                (folder / f"{annotation}-{split}.jsonl").write_text("\n".join(records) + "\n")
        return folder

    @cached_property
    def _classes(self) -> Path:
        path = self._folder / "classes.txt"
        lines = [f"the @dog{n}@-animal see and @city{n}@-place take ." for n in range(20)] * 2
        path.write_text("\n".join(lines) + "\n")
        return path

    @cached_property
    def _pairs(self) -> Path:
        path = self._folder / "pairs.tsv"
        nouns = ("dogs", "cats", "boats", "keys")
        path.write_text("good\tbad\n" + "".join(f"the {noun} see .\tthe {noun} the .\n" for noun in nouns))
        return path

    @cached_property
    def _series(self) -> Path:
        folder = self._folder / "series"
        for step in (10, 20):
            shutil.copytree(self._campaign.tiny_model(width=16), folder / f"step{step}")
        return folder

    @cached_property
    def _translations(self) -> Path:
        path = self._folder / "translations.tsv"
        nouns = ("dogs", "cats", "boats", "keys")
        rows = [f"the old {one} see the {other}\tsee the {one} {other}\n" for one in nouns for other in nouns]
        path.write_text("english\tother\n" + "".join(rows))
        return path

    @cached_property
    def _cloze(self) -> Path:
        path = self._folder / "cloze.tsv"
        nouns = ("dogs", "cats", "boats", "keys")
        path.write_text("text\tanswer\n" + "".join(f"the old {noun} see the ___\tdogs\n" for noun in nouns))
        return path


def _plant_language(folder: Path) -> None:
    from tests.language_models import save
    from tests.planted_language import planted
    from tests.planted_treebank import conllu, treebank

    (folder / "bank").mkdir(parents=True)
    for seed, (split, many) in enumerate((("train", 120), ("dev", 40))):
        (folder / "bank" / f"planted-{split}.conllu").write_text(conllu(treebank(seed, many)), encoding="utf-8")
    save(planted(0), folder / "model")
