"""Sound files of every format, and how a reader's answer to a file is judged."""

from __future__ import annotations

import json
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.caching import from_line, to_line
from lamina.corpora.corpus import in_units
from lamina.corpora.detection import detect
from lamina.corpora.formats.catalogue import FORMATS, Format, get_format
from lamina.corpora.reading import Fault, FaultKinds
from lamina.errors import CorpusError, LaminaError
from lamina.types import Text

LIMIT = 5.0
"""Seconds that reading a small file may take."""
_HEAD = 3000
"""Bytes taken from a real file."""


class Seed(NamedTuple):
    """A sound corpus: one file, or several that belong together."""

    format: str
    files: dict[str, bytes]
    """Path -> content; the first one is read."""

    def write(self, folder: Path) -> Path:
        """Write the files below a folder; returns the one to read."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder / next(iter(self.files))


class TooSlow(BaseException):
    """Reading took longer than its limit."""


@contextmanager
def limited(seconds: float = LIMIT) -> Iterator[None]:
    """Stop the block after so many seconds of computing, with `TooSlow`; on the clock it may take six times as long.

    So a busy machine does not make slow what is not, and waiting for something that never comes has an end.
    """

    def stop(*_: object) -> None:
        raise TooSlow

    timers = {signal.ITIMER_PROF: (signal.SIGPROF, seconds), signal.ITIMER_REAL: (signal.SIGALRM, 6 * seconds)}
    before = {number: signal.signal(number, stop) for number, _ in timers.values()}
    for timer, (_, limit) in timers.items():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def judged(
    path: Path,
    form: Format,
    *,
    twice: bool = False,
    seconds: float = LIMIT,
    watched: AbstractContextManager[None] | None = None,
) -> str:
    """What is wrong with how a file is read; empty if nothing is.

    Checking reports faults and loading stops at the first one, both tell the same story, every text is whole, and no
    exception but lamina's own is raised. `twice`: the same file gives the same texts and faults again. `watched` is
    entered while the file is checked, not while that is compared with loading.
    """
    return outcome(lambda: _told_differently(path, form, twice, watched or nullcontext()), seconds)


def outcome(work: Callable[[], str | None], seconds: float = LIMIT) -> str:
    """What is wrong according to `work`, or because it raised an exception or took too long; empty if nothing is."""
    start = time.monotonic()
    try:
        with limited(seconds):
            return work() or ""
    except LaminaError:
        return ""
    except TooSlow:
        return f"not done after {time.monotonic() - start:.0f} s"
    except Exception:
        return traceback.format_exc()


def _told_differently(path: Path, form: Format, twice: bool, watched: AbstractContextManager[None]) -> str:
    faults: list[Fault] = []
    kinds = FaultKinds()

    def report(fault: Fault) -> None:
        str(fault)
        kinds.add(fault)
        faults.append(fault)

    with watched:
        checked = list(form.read(path, report))
        with suppress(CorpusError):
            detect(path)
    loaded, refused = _loaded(path, form)
    if bool(faults) != refused:
        return f"checking reports {len(faults)} faults, loading {'stops' if refused else 'reads on'}"
    if not faults and loaded != checked:
        return "loading gives other texts than checking"
    if len(list(kinds.lines())) > len(faults) + 1:
        return "the summary of faults is longer than the list of them"
    if odd := next((odd for text in checked if (odd := _oddity(text))), ""):
        return odd
    list(in_units(islice(checked, 50), "document"))
    if twice:
        again: list[Fault] = []
        if list(form.read(path, again.append)) != checked or again != faults:
            return "read again, it gives other texts or faults"
    return ""


def _loaded(path: Path, form: Format) -> tuple[list[Text], bool]:
    """The texts up to the first fault, and whether there was one."""
    texts: list[Text] = []
    try:
        texts.extend(form.read(path))
    except CorpusError:
        return texts, True
    return texts, False


def _oddity(text: Text) -> str:
    """What about a text would break whatever reads it next."""
    names = [text.id, *text.words, *text.edges, *([] if text.doc is None else [text.doc])]
    edges = [edge for found in text.edges.values() for edge in found]
    names += [label for edge in edges for label in (*edge.labels, *(edge.rated or ()))]
    if not all(isinstance(name, str) for name in names) or not all(text.words):
        return f"text {text.id!r} has a word or a name that is empty or no string"
    "".join(names).encode()
    if from_line(to_line(text)) != text:
        return f"text {text.id!r} is not the same after it was cached"
    return ""


_ROW = "{}\t{}\t{}\t{}\tX\t_\t{}\t{}\t_\t{}\n"
_TREEBANK = (
    "# newdoc id = d1\n# global.Entity = eid-etype-head\n# sent_id = d1-1\n# text = Dogs bark at Rome\n"
    + _ROW.format(1, "Dogs", "dog", "NOUN", 2, "nsubj", "Entity=(e1-animal-1)")
    + _ROW.format("2-3", "barkat", "_", "_", "_", "_", "_").replace("\tX\t", "\t_\t")
    + _ROW.format(2, "bark", "bark", "VERB", 0, "root", "_")
    + _ROW.format("2.1", "to", "_", "_", "_", "_", "_").replace("\tX\t", "\t_\t")
    + _ROW.format(3, "at", "at", "ADP", 4, "case", "_")
    + _ROW.format(4, "Rome", "Rome", "PROPN", 2, "obl", "Entity=(e2[1/2]-place-1)|SpaceAfter=No")
    + "\n# sent_id = d1-2\n"
    + _ROW.format(1, "No", "no", "INTJ", 0, "root", "_")
    + "\n"
)
_CONLLULEX = (
    "# newdoc id = r-1\n# sent_id = r-1-01\n"
    "1\tGet\tget\tVERB\tVB\t_\t0\troot\t_\t_\t1:1\tV.VPC.full\tget up\tv.motion\t_\t_\t_\t_\tB\n"
    "2\tup\tup\tADP\tRP\t_\t1\tcompound\t_\t_\t1:2\t_\t_\t_\t_\t_\t_\t_\tI_\n"
    "3\tin\tin\tADP\tIN\t_\t4\tcase\t_\t_\t_\tP\tin\tp.Locus\tp.Locus\t_\t_\t_\tO-P\n"
    "4\ttown\ttown\tNOUN\tNN\t_\t1\tobl\t_\t_\t_\tN\ttown\tn.LOCATION\t_\t_\t_\t_\tO-N\n\n"
)
_ONTONOTES = (
    "#begin document (bc/x); part 000\n"
    "bc/x 0 0 Rome NNP (TOP(S(NP*) - - - Sp (GPE) (ARG0*) (3)\n"
    "bc/x 0 1 fell VBD (VP*) fall 01 1 Sp * (V*) -\n"
    "bc/x 0 2 . . *)) - - - Sp * * (3)\n\n#end document\n"
)
_TREES = "( (S (NP (NNS Dogs)) (VP (VBP bark))) )\n(ROOT (S (NP-SBJ (-NONE- *T*-1))\n  (VP (VB go)) (. -LRB-)))\n"
_SENSES = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE SimpleWsdDoc SYSTEM "simple-wsd-doc.dtd">
<SimpleWsdDoc name="/a/b.txt">
  <word text="a" break_level="NO_BREAK"/>
  <word text="b.txt" break_level="NO_BREAK"/>
  <word text="Banks" lemma="bank" pos="NOUN" sense="/dictionary/sense/x/m_1.001" break_level="SENTENCE_BREAK"/>
  <word text="don&#39;t" break_level="LINE_BREAK"/>
</SimpleWsdDoc>
"""
_COARSE = {
    "mole/train.data.txt": "1\ta mole digs\n0\tmole of gas\n",
    "mole/train.gold.txt": "0\n1\n",
    "mole/classes_map.txt": '{"0": "mole_mole_(animal)", "1": "mole_mole_(unit)"}',
}
_GAP = (
    "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
    "dev-1\tAnn met Bob, and she left.\tshe\t17\tAnn\t0\tTRUE\tBob\t8\tFALSE\thttp://x/Ann\n"
)
_SEMEVAL = '1\t"The <e1>fire</e1> caused <e2>damage</e2>."\nCause-Effect(e1,e2)\nComment: none\n\n'
_SEMEVAL += '2\t"A <e2>box</e2> of <e1>tea</e1>."\nOther\nComment:\n\n'
_STORY = "1 Mary went home.\n2 John went to sea.\n3 Where is Mary? \thome\t1\n1 A cat sat.\n2 Where is it?\tsea\t1\n"
_QA = {"id": "q1", "question": "Who left?", "answers": [{"text": "Bob Ray", "answer_start": 0}]}
_QA2 = {"id": 7, "question": "When?", "is_impossible": True, "answers": []}
_SQUAD = {"data": [{"title": "T", "paragraphs": [{"context": "Bob Ray left. It rained!", "qas": [_QA, _QA2]}]}]}
_HOTPOT = [
    {
        "_id": "h1",
        "question": "Who went to Rome?",
        "answer": "Bob",
        "supporting_facts": [["A", 0], ["B", 1]],
        "context": [["A", ["Bob went.", " He saw it."]], ["B", ["Rome is big.", "It is old."]]],
    },
    {
        "id": "h2",
        "question": "Is it?",
        "answer": "big",
        "supporting_facts": {"title": ["B"], "sent_id": [0]},
        "context": {"title": ["B"], "sentences": [["Rome is big."]]},
    },
]
_EDGE = {
    "text": "Dogs bark",
    "targets": [
        {"span1": [0, 1], "span2": [1, 2], "label": "nsubj"},
        {"span1": [0, 2], "label": ["a", "b"], "info": {"rated": ["a", "b", "c"], "value": 0.5}},
    ],
    "info": {"id": "e1", "annotation": "dep", "doc": "d", "segments": [[0, 1], [1, 2]], "words": ["Dogs", "bark"]},
}
_SPANS = {"text": "Dogs bark", "entities": [{"start": 0, "end": 4, "label": "ANIMAL"}], "label": "a"}
_MENTIONS = (
    "MENTION\tT1\t0\t0\t0\t0\tAda\tPER\tPROP\nMENTION\tT2\t1\t0\t1\t0\tShe\tPER\tPRON\n"
    "COREF\tT1\tAda-1\nCOP\tT1\tT2\nQUOTE\tQ1\t0\t1\t1\t1\tleft . She ran\nATTRIB\tQ1\tAda-1\n"
)
_STANDOFF = (
    "T1\tPer 0 3\tAda\nT2\tOrg 11 14\tIBM\nT3\tJoin 4 10\tjoined\nT4\tPer 22 25;26 29\tShe ran\n"
    "E1\tJoin:T3 Who:T1\nR1\tIn Arg1:T1 Arg2:T2\nA1\tAlive T1\n*\tAlias T1 T4\n#1\tNote T1\tx\nN1\tRef T1 Q:1\tAda\n"
)
_PREDICATES = "1\tAda\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\tA0\n2\tcame\t_\tVERB\t_\t_\t0\troot\tY\tcome.01\t_\n"
_STREUSLE = {
    "sent_id": "r-1-02",
    "tokens": ["Go", "to", "town"],
    "exprs": [[0, 1, "V", "v.motion", None], [1, 2, "P", "p.Goal", "p.Goal"], [2, 3, "N", "n.LOCATION", None]],
}
_PROPBANK = {
    "sent_id": "s1",
    "tokens": ["Dogs", "bark", "."],
    "pos": ["NNS", "VBP", "."],
    "parse": ["(TOP(S(NP*)", "(VP*)", "*))"],
    "props": [{"pred": 1, "roleset": "bark.01", "args": [["ARG0", 0, 1], ["V", 1, 2]]}],
}
_UDS_JSONL = {
    "uds_id": "u1",
    "sent_id": "w-1-01",
    "tokens": ["Dogs", "bark", "now"],
    "edges": [
        {"pred": 1, "arg_head": 0, "arg_span": [0, 1], "props": {"awareness": [1.2, 1.0], "volition": [-1, 0.5]}}
    ],
    "noun_supersense": [[0, ["animal"]]],
    "factuality": [[1, 1.25, 1.0]],
}
_RATED = {"awareness": {"value": 1.2, "confidence": 1.0}, "volition": {"value": -0.5, "confidence": 0.5}}
_GRAPH = {
    "directed": True,
    "nodes": [
        {"id": "g-syntax-0", "domain": "root", "type": "root", "position": 0},
        {"id": "g-syntax-1", "domain": "syntax", "position": 1, "form": "Dogs", "upos": "NOUN", "xpos": "NNS"},
        {"id": "g-syntax-2", "domain": "syntax", "position": 2, "form": "bark", "upos": "VERB", "xpos": "VBP"},
        {"id": "g-pred-2", "domain": "semantics", "factuality": {"factual": {"value": 1.1, "confidence": 1.0}}},
        {"id": "g-arg-1", "domain": "semantics", "wordsense": {"supersense-noun.animal": {"value": 1.0}}},
    ],
    "adjacency": [
        [{"id": "g-syntax-2", "domain": "syntax", "type": "dependency", "deprel": "root"}],
        [],
        [{"id": "g-syntax-1", "domain": "syntax", "type": "dependency", "deprel": "nsubj"}],
        [
            {"id": "g-syntax-2", "domain": "interface", "type": "head"},
            {"id": "g-arg-1", "domain": "semantics", "type": "dependency", "protoroles": _RATED},
        ],
        [{"id": "g-syntax-1", "domain": "interface", "type": "head"}],
    ],
}


def _lines(*records: object) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def _gum() -> dict[str, str]:
    words = ["Dogs", "bark", "at", "Rome", "No"]
    trees = "(ROOT (S (NP (NNS Dogs)) (VP (VBP bark) (PP (IN at) (NP (NNP Rome))))))\n(ROOT (INTJ (UH No)))\n"
    marks = {"ontogum": ["(1)", "_", "(2", "2)", "_"], "gum": ["(animal-1)", "_", "_", "(place-2-Rome)", "_"]}
    coref = {
        f"coref/{scheme}/conll/d1.conll": "# begin document d1\n"
        + "".join(f"{at}\t{word}\t{mark}\n" for at, (word, mark) in enumerate(zip(words, column, strict=True)))
        + "# end document\n"
        for scheme, column in marks.items()
    }
    return {"dep/d1.conllu": _TREEBANK, "const/d1.ptb": trees, **coref}


def made_seeds() -> list[Seed]:
    """Small sound corpora, at least one of each format."""
    uds = json.dumps({"metadata": {}, "data": {"ewt-1": _GRAPH}})
    ids = json.dumps({"ewt-1": {"sentence_id": "s-1", "document_id": "d-1"}})
    written: list[tuple[str, dict[str, str]]] = [
        ("gum", _gum()),
        ("uds", {"uds-dev.json": uds, "ud_ids.json": ids}),
        ("uds_jsonl", {"x.jsonl": _lines(_UDS_JSONL, _UDS_JSONL)}),
        ("streusle", {"x.jsonl": _lines(_STREUSLE, _STREUSLE)}),
        ("streusle", {"x.conllulex": _CONLLULEX}),
        ("propbank", {"x.jsonl": _lines(_PROPBANK)}),
        ("edge_jsonl", {"x.jsonl": _lines(_EDGE, _EDGE | {"info": {}})}),
        ("squad", {"x.json": json.dumps(_SQUAD, indent=1)}),
        ("hotpot", {"x.json": json.dumps(_HOTPOT)}),
        ("simple_wsd", {"x.xml": _SENSES}),
        ("coarse_wsd", _COARSE),
        ("coarse_wsd", {"x.tsv": "club\tclub_club\t2\tA garden club .\n"}),
        ("litbank", {"x.ann": _MENTIONS, "x.txt": "Ada left .\nShe ran .\n"}),
        ("brat", {"x.ann": _STANDOFF, "x.txt": "Ada joined IBM-Labs.\r\nShe ran.\n"}),
        ("babi", {"qa1_x_train.txt": _STORY, "qa1_x_test.txt": _STORY}),
        ("fasttext", {"x.txt": "__label__a Dogs bark.\n__label__b __label__c Cats, mew.\n"}),
        ("trec", {"x.txt": "HUM:ind Who was it ?\nDESC:manner How does it go ?\nHUM:ind Who was it ?\n"}),
        ("gap", {"x.tsv": _GAP}),
        ("glue", {"x.tsv": "sentence1\tsentence2\tlabel\nDogs bark .\tThey do n't .\t1\nA .\tB .\t0\n"}),
        ("table", {"x.csv": 'id;text;stars\n1;"Dogs; they ""bark""\nloud";5\n2;Cats mew;1\n'}),
        ("table", {"x.csv": "Sentence #,Word,Tag\nSentence: 1,Dogs,B-A\n,bark,O\nSentence: 2,Cats,B-A\n"}),
        ("table", {"x.csv": "text,tags\nDogs bark,\"['N', 'V']\"\nCats mew,\"['N', 'V']\"\n"}),
        ("table", {"x.jsonl": _lines(_SPANS, _SPANS | {"label": "b"})}),
        ("table", {"x.json": json.dumps([_SPANS, _SPANS | {"label": None}])}),
        ("parallel", {"x_text.txt": "Dogs bark\nCats mew\n", "x_labels.txt": "0\n1\n", "mapping.txt": "0\tdog\n"}),
        ("semeval", {"x.TXT": _SEMEVAL}),
        ("ontonotes", {"x.v4_gold_conll": _ONTONOTES}),
        ("ontonotes", {"x.conll": "# begin document d\n0\tAda\t(a-1\n1\tleft\ta-1)\n\n2\tWell\t\n# end document\n"}),
        ("conllu", {"x.conllu": _TREEBANK}),
        ("conllu", {"x.cupt": "# global.columns = ID FORM PARSEME:MWE X:Y\n1\tgive\t1:VPC\tB-a\n2\tup\t1;2:x\tI-a\n"}),
        ("conllu", {"x.conllu": _PREDICATES}),
        ("ptb", {"x.mrg": _TREES}),
        ("ner_columns", {"x.iob": "-DOCSTART- O\n\n# sent_id = a\nAda B-PER\nRay I-PER\nin O\n\nRome B-LOC\n"}),
        ("ner_columns", {"x.iob2": "1\tAda\tS-PER\t_\n2\t#\tO\t_\n\n"}),
        ("ner_columns", {"x.tsv": "Ada\tNN\tB-NP\tB-PER\tO\t\nRay\tNN\tI-NP\tI-PER\tB-LOC\t\n\nis\tVB\tO\tO\tO\t\n"}),
        ("ner_columns", {"x.tsv": "rain\tEVENT\nfell\tO\n\n#\tO\n"}),
        (
            "wiki_pse",
            {
                "x.txt": "I saw @new_york@-location and @marie_curie@-person .\nA plain line .\n",
                "train.tsv": "@new_york@\t-location=3\n",
                "test.tsv": "@marie_curie@\t-person=2 -art=1\n",
            },
        ),
        (
            "wsd_framework",
            {
                "senseval2.data.xml": '<?xml version="1.0" encoding="UTF-8" ?>\n<corpus lang="en" source="senseval2">\n'
                '<text id="d000">\n<sentence id="d000.s000">\n<wf lemma="the" pos="DET">The</wf>\n'
                '<instance id="d000.s000.t000" lemma="art" pos="NOUN">art</instance>\n</sentence>\n'
                "</text>\n</corpus>\n",
                "senseval2.gold.key.txt": "d000.s000.t000 art%1:09:00::\n",
            },
        ),
        (
            "plain",
            {"x.txt": " = Dogs = \n\nDogs , they bark ; didn't they ?\n\n = Dogs = \n\nIn the U.S. 2,000 do .\n"},
        ),
    ]
    made = [Seed(form, {name: text.encode() for name, text in files.items()}) for form, files in written]
    if {seed.format for seed in made} != {form.name for form in FORMATS}:
        raise RuntimeError("a format has no sound file in the campaign")
    return made


def real_seeds(corpora: Path) -> list[Seed]:
    """The beginnings of real files in a folder: the first of each format and folder."""
    found: dict[tuple[str, Path], Seed] = {}
    for path in sorted(path for path in corpora.rglob("*") if path.is_file()):
        with suppress(LaminaError):
            form = detect(path)
            if (form.name, path.parent) not in found and not path.name.startswith(("SOURCE", "LICENSE", "README")):
                content = _beginning(path, form.name)
                found[form.name, path.parent] = Seed(form.name, {path.name: content})
    return [seed for seed in found.values() if seed.format not in ("gum", "uds")]


def _beginning(path: Path, form: str) -> bytes:
    if form == "squad":
        article = json.loads(path.read_bytes())["data"][0]
        paragraph = article["paragraphs"][0]
        short = paragraph | {"qas": paragraph["qas"][:3]}
        return json.dumps({"data": [article | {"paragraphs": [short]}]}).encode()
    if form == "hotpot":
        return json.dumps(json.loads(path.read_bytes())[:1]).encode()
    with path.open("rb") as file:
        head = file.read(_HEAD)
        head += b"" if b"\n" in head else file.readline()
    # After a blank line if there is one, so that no sentence is cut.
    end = head.rfind(b"\n\n") + 2 if b"\n\n" in head else head.rfind(b"\n") + 1
    return head[:end]


def format_of(seed: Seed) -> Format:
    """The format of a seed."""
    return get_format(seed.format)
