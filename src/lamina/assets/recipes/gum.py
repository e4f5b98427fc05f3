"""GUM, the genres whose texts are free to share: all layers (`gum_open`), and OntoGUM's coreference (`ontogum`).

GUM's annotations are CC BY 4.0; its texts have licences of their own. Left out are the genres whose texts may not be
used commercially (essay, fiction, letter, podcast, whow), reddit, whose words are masked, conversation, whose licence
is stated in two ways, and GENTLE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from lamina.assets.origins import OriginFiles, read_manifest
from lamina.assets.recipes import CorpusRecipe, Derive, DerivedFile
from lamina.assets.sources import Card
from lamina.errors import AssetError

GUM = read_manifest("gum")
_LICENCE = "CC BY 4.0; texts CC BY, CC BY-SA or public domain"
_DEP, _CONST, _CHAINS, _CHAINS_GUM = (
    "dep/*.conllu",
    "const/*.ptb",
    "coref/ontogum/conll/*.conll",
    "coref/gum/conll/*.conll",
)
_SPLIT_COUNTS = {"splits/train.txt": 117, "splits/dev.txt": 18, "splits/test.txt": 18}
_MISC_KEYS = ("SpaceAfter=", "Entity=", "Bridge=", "SplitAnte=", "CorrectForm=")
_COMMENTS = ("# meta::summary", "# meta::salientEntities", "# s_prominence", "# transition", "# newpar_block")
_CHANGES = (
    "9 of 16 genres; in dep/, MISC keeps SpaceAfter, Entity, Bridge, SplitAnte and CorrectForm alone, and the comments "
    "on summaries, salience and transitions are removed; the other files as published"
)


def without_discourse(conllu: str) -> str:
    """A CoNLL-U file without GUM's discourse annotation, which is most of its size.

    Example:
        >>> without_discourse("# transition = null\\n1\\tGo\\tgo\\tVERB\\tVB\\t_\\t0\\troot\\t_\\tMSeg=go|XML=<p>\\n")
        '1\\tGo\\tgo\\tVERB\\tVB\\t_\\t0\\troot\\t_\\t_\\n'
    """
    return "".join(_without_keys(line) for line in conllu.splitlines(keepends=True) if not line.startswith(_COMMENTS))


def _without_keys(line: str) -> str:
    if line.startswith("#") or line.count("\t") != 9:
        return line
    columns, _, misc = line.rstrip("\n").rpartition("\t")
    fields = [field for field in misc.split("|") if field.startswith(_MISC_KEYS)]
    return f"{columns}\t{'|'.join(fields) or '_'}\n"


def documents_of(splits: str) -> dict[str, list[str]]:
    """Split -> its documents, from GUM's `splits.md`.

    Example:
        >>> documents_of("## dev\\n\\n  * GUM_bio_byron\\n\\n## test\\n\\n  * GUM_bio_dvorak\\n")
        {'dev': ['GUM_bio_byron'], 'test': ['GUM_bio_dvorak']}
    """
    splits_found: dict[str, list[str]] = {}
    documents: list[str] = []
    for line in splits.splitlines():
        if heading := re.fullmatch(r"## (\w+)\s*", line):
            documents = splits_found.setdefault(heading[1], [])
        elif item := re.fullmatch(r"\s*\* (\w+)\s*", line):
            documents.append(item[1])
    return splits_found


def _sentences(text: str) -> Mapping[str, int]:
    rows = [line for line in text.splitlines() if re.match(r"[0-9]+\t", line)]
    return {"sentences": sum(line.startswith("1\t") for line in rows), "tokens": len(rows)}


def _trees(text: str) -> Mapping[str, int]:
    return {"trees": sum(line.startswith("(") for line in text.splitlines())}


def _mentions(text: str) -> Mapping[str, int]:
    cells = [line.split("\t")[-1] for line in text.splitlines() if not line.startswith("#")]
    return {"mentions": sum(cell.count("(") for cell in cells)}


_COUNTED: Mapping[str, Callable[[str], Mapping[str, int]]] = {
    "dep": _sentences,
    "const": _trees,
    "coref": _mentions,
}


def derive_layers(*layers: str) -> Derive:
    """A derivation of the files in some folders, of `splits/` and of the licence."""

    def derive(files: Mapping[str, OriginFiles]) -> Iterator[DerivedFile]:
        (origin,) = files.values()
        documents = set()
        for path in origin.paths:
            layer = path.partition("/")[0]
            if path.startswith(layers):
                text = without_discourse(origin.text(path)) if layer == "dep" else origin.text(path)
                documents.add(path.rpartition("/")[2].partition(".")[0])
                yield DerivedFile(path, text.encode(), _COUNTED[layer](text))
        yield DerivedFile("LICENSE.txt", origin.read("LICENSE.txt"), {})
        yield from _lists(documents_of(origin.text("splits.md")), documents)

    return derive


def _lists(splits: Mapping[str, list[str]], documents: set[str]) -> Iterator[DerivedFile]:
    for split in ("train", "dev", "test"):
        listed = [document for document in splits.get(split, []) if document in documents]
        documents = documents - set(listed)
        yield DerivedFile(
            f"splits/{split}.txt", "".join(f"{name}\n" for name in listed).encode(), {"documents": len(listed)}
        )
    if documents:
        raise AssetError(f"splits.md of {GUM.repo} does not list {min(documents)}")


def _recipe(counts: Mapping[str, Mapping[str, int]]) -> CorpusRecipe:
    lists = {path: {"documents": count} for path, count in _SPLIT_COUNTS.items()}
    layers = tuple(pattern.partition("*")[0] for pattern in counts)
    return CorpusRecipe(
        (GUM.only(*counts, "splits.md", "LICENSE.txt"),),
        derive_layers(*layers),
        counts={**counts, **lists, "LICENSE.txt": {}},
        licence=_LICENCE,
        changes=_CHANGES,
    )


_DEP_COUNTS = {"files": 153, "sentences": 7_368, "tokens": 148_618}
_CHAIN_COUNTS = {"files": 153, "mentions": 18_496}

OPEN = Card(
    "gum_open",
    "corpus",
    "GUM, the 9 genres with open texts: constituents, dependencies, POS, entities, coreference",
    _LICENCE,
    (_DEP, _CONST, _CHAINS_GUM, _CHAINS, "splits/*.txt"),
    20_775_247,
    (
        _recipe(
            {
                _DEP: _DEP_COUNTS,
                _CONST: {"files": 153, "trees": 7_368},
                _CHAINS_GUM: {"files": 153},
                _CHAINS: _CHAIN_COUNTS,
            }
        ),
    ),
    origin=GUM.page,
)

ONTOGUM = Card(
    "ontogum",
    "corpus",
    "OntoGUM: GUM's coreference in the OntoNotes scheme, the 9 genres with open texts",
    _LICENCE,
    (_DEP, _CHAINS, "splits/*.txt"),
    14_000_000,
    (_recipe({_DEP: _DEP_COUNTS, _CHAINS: _CHAIN_COUNTS}),),
    note="The same documents and chains as gum_open, without its other layers.",
    origin=GUM.page,
)
