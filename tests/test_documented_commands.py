"""The commands that README and docs show are run, on fewer texts than the pages have and a narrower model."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.elmo_folders import save_elmo

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"```(?:bash|sh|console)\n(.*?)```", re.DOTALL)
LESS = {
    "encode": "--limit 30",
    "geometry": "--limit 30",
    "report": "--limit 20 --only geometry",
    "data stats": "--split dev",
    "probe": "--limit 100 --schedule steps=4 --seeds 1 --samples 20",
    "order": "--limit 400 --items 40 --steps 4 --seeds 1 --samples 20 --no-twin",
    "trace": "--samples 20 --shuffles 20",
    "attention": "--limit 30 --samples 20",
    "heads": "--limit 30 --samples 20",
    "corefheads": "--limit 2 --samples 20",
    "parse": "--limit 60 --vectors model --samples 20 --no-twin",
    "headmap": "--limit 20 --samples 20",
    "finetune": "--limit 40 --max-steps 2 --batch 4",
    "windows": "--limit 40 --max-steps 2 --batch 4",
    "phases": "--limit 8 --samples 20 --clustered 2 --no-twin",
    "attention_distance": "--limit 30 --samples 20",
    "diff": "--limit 30 --samples 20 --no-twin",
    "correspondence": "--limit 30 --samples 20 --words 100",
    "contextualize": "--limit 80 --context-sizes 0 --vectors none --samples 20",
    "neighbours": "--limit 30 --vectors none --word the",
    "senses": "--limit 400 --texts 80 --clustered 1 --moved 2 --samples 20 --no-twin",
    "surprisal": "--limit 20 --samples 20 --no-twin",
    "pairs": "--limit 1 --ngrams none --samples 20 --no-twin",
    "cloze": "--limit 1 --samples 20 --no-twin",
    "perturb": "--items 4 --steps 4 --samples 20 --limit 60 --draws 1 --no-twin",
    "ablate": "--items 4 --samples 20 --limit 60 --component block --no-twin",
    "structure": "--limit 200 --texts 30 --rank 4 --layer 3 --attention 4 --learn 60 --samples 20 --no-twin",
    "erase": "--limit 60 --items 4 --learn 200 --words 60 --layer 3 --draws 5 --samples 20 --no-twin",
    "prune": "--items 4 --samples 20 --limit 60 --by top --step 36 --no-twin",
    "restore": "--items 20 --learn 20 --samples 20 --no-twin",
    "lens": "--limit 20 --positions 10 --no-tuned --samples 20 --no-twin",
    "probe-vs-lens": "--limit 60 --words 20 --learn 60 --samples 20 --no-seen --facts none --tasks pos --no-twin",
}
"""What long commands are cut down to; probing needs several documents."""
UNDOES = {("assets", "remove")}
"""What would take something away from whoever runs the tests."""

TREEBANK = """# newdoc id = d1
# sent_id = s1
1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_
2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

# sent_id = s2
1\tCats\tcat\tNOUN\tNNS\t_\t2\tnsubj\t_\t_
2\tsleep\tsleep\tVERB\tVBP\t_\t0\troot\t_\t_
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""


ARCS = """{"text": "Dogs bark", "targets": [{"span1": [0, 1], "span2": [1, 2], "label": "nsubj"}]}
{"text": "Cats sleep", "targets": [{"span1": [0, 1], "span2": [1, 2], "label": "nsubj"}]}
"""


REVIEWS = "review,stars,label\n" + "".join(
    f"Visit number {visit} was {'not bad at all' if visit % 2 else 'the last one'},{1 + visit % 5},{visit % 2}\n"
    for visit in range(60)
)


STUDY = """[study]
name = "small"
models = ["minilm"]
corpora = ["my-treebank.conllu"]
[settings]
samples = 20
[analyses.geometry]
settings = { min_count = 2, twin = false }
data = { split = "all" }
"""


def commands(page: Path, program: str) -> list[list[str]]:
    """The lines of a page's shell blocks that call a program, as words, without comments."""
    lines = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8"))).splitlines()
    found = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.strip()]
    return [words for words in found if words and words[0] == program]


def at_hand(words: tuple[str, ...]) -> bool:
    """Whether its data can be had without the web: from `LAMINA_DATA`, the cache or the package registry."""
    from lamina.assets import cards, local_folder
    from lamina.assets.sources import Registry

    named = [card for name, card in cards().items() if name in words]
    return all(local_folder(card.name) or any(isinstance(each, Registry) for each in card.sources) for card in named)


@pytest.mark.real
@pytest.mark.usefixtures("slim_models", "short_corpora", "hasty_probes")
def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lamina.cli.main import app
    from lamina.framework.registry import names

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAMINA_STORE", str(tmp_path / "store"))
    for name in ("my-treebank.conllu", "my-corpus.conllu"):
        Path(name).write_text(TREEBANK, encoding="utf-8")
    Path("arcs.jsonl").write_text(ARCS, encoding="utf-8")
    Path("reviews.csv").write_text(REVIEWS, encoding="utf-8")
    Path("words.csv").write_text("Sentence #,Word,Tag\nSentence: 1,Oslo,B-geo\n,rains,O\n", encoding="utf-8")
    Path("pairs.tsv").write_text("Dogs bark\tCats mew\t2\nCows moo\tA cow moos\t5\n", encoding="utf-8")
    Path("study.toml").write_text(STUDY, encoding="utf-8")
    save_elmo(Path("models/elmo_fixture"))
    # One folder for all pages, each command once: pages repeat each other, and later commands use earlier results.
    shown = dict.fromkeys(tuple(words) for page in PAGES for words in commands(page, "lamina"))
    absent: set[str] = set()
    for words in shown:
        if words[1:3] in UNDOES or not at_hand(words) or absent.intersection(words):
            # What it would have written is not there for later commands.
            absent.update(out for option, out in pairwise(words) if option == "--out")
            continue
        if words[1] == "compare" and not Path(words[3]).exists():
            # The reader's result of another model.
            shutil.copytree(words[2], words[3])
        # Pages write different results to the same folder; a reader would be told so.
        again = ["--replace"] if "--out" in words and words[1] in (*names(), "report") else []
        less = LESS.get(" ".join(words[1:3]), LESS.get(words[1], "")).split()
        if words[1] in ("probe", "order", "structure", "senses") and "--limit" not in words:
            # Few texts drawn at random are of few documents: some tasks would have no targets to stop by.
            less = ["--first" if word == "--limit" else word for word in less]
        if words[1] == "probe" and "--task" not in words:
            less = [*less, "--task", "pos", "--task", "dep"]
        if words[1] in ("finetune", "windows") and "--seeds" in words:
            less = [*less, "--seeds", "2" if words[1] == "finetune" else "1"]
        if "--first" in words:
            # Pages that state numbers take the first texts.
            less = ["--first" if word == "--limit" else word for word in less]
        # One window is enough; the option can be given again only to add more.
        asked = ["2" if before == "--windows" else word for before, word in pairwise(words)]
        told = CliRunner().invoke(app, [*asked, *less, *again], catch_exceptions=False)
        assert told.exit_code == 0, f"{' '.join(words)}\n{told.output}"


def test_make_knows_its_targets() -> None:
    targets = {words[1] for page in PAGES for words in commands(page, "make")}

    assert targets
    for target in targets:
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True)
