"""Malformed files for every reader, question sets, word vectors, weights of an ELMo and odd paths.

A file is well handled if checking lists its faults, loading stops at the first one with a sentence, and neither takes
long or much memory: time grows with the size of a file, not faster.
"""

from __future__ import annotations

import io
import json
import logging
import os
import random
import re
import stat
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from faults.campaign import Campaign
from faults.readers import Seed, format_of, judged, made_seeds, outcome
from lamina.corpora.corpus import View
from lamina.corpora.formats.catalogue import get_format
from lamina.corpora.loading import load_corpus
from lamina.corpora.question_sets import read_questions
from lamina.corpora.reading import Fault
from lamina.errors import LaminaError
from lamina.models.elmo import ElmoOptions, drawn_weights, read_elmo, shapes
from lamina.models.static import read_vectors

_SHORT = 300
"""Inputs that the short form tries."""
_MUCH = 120
"""Bytes of memory per byte of a file: a word of two characters is an object of sixty bytes and a pointer or two."""
_BASE = 20_000_000
"""Bytes of memory that any file may take."""


class Case(NamedTuple):
    """One input, made when it is tried."""

    name: str
    work: Callable[[], str]
    """Returns what is wrong; empty if nothing is."""


def run(campaign: Campaign) -> None:
    """Try inputs in random order: some, or in the long form larger ones until the time is up."""
    parts = (_malformed, _special, _questions, _vectors, _elmos, _paths, _growth, _memory)
    cases = [case for part in parts for case in part(campaign)]
    campaign.random.shuffle(cases)
    tried = 0
    logging.disable(logging.WARNING)
    try:
        for case in cases[: campaign.count(_SHORT, len(cases))]:
            if campaign.left() <= 0:
                break
            campaign.judge(case.name, case.work())
            tried += 1
    finally:
        logging.disable(logging.NOTSET)
    campaign.note(f"{tried:,} of {len(cases):,} inputs tried")


def _malformed(campaign: Campaign) -> Iterator[Case]:
    """What can be wrong with any file, in each file of each format."""
    size, seconds = campaign.count(20_000, 1_000_000), campaign.count(10, 60)
    for seed in made_seeds():
        for name, what in product(seed.files, _SPOILED):
            work = partial(_judged_malformed, campaign.folder / "malformed", seed, name, what, size, seconds)
            yield Case(f"malformed files: {seed.format}, {name}: {what}", work)


def _judged_malformed(folder: Path, seed: Seed, name: str, what: str, size: int, seconds: int) -> str:
    path = _spoiled(seed, name, what, size).write(folder / seed.format)
    return judged(path, format_of(seed), seconds=seconds)


def _spoiled(seed: Seed, name: str, what: str, size: int) -> Seed:
    return Seed(seed.format, seed.files | {name: _SPOILED[what](seed.files[name], size)})


_SPOILED: dict[str, Callable[[bytes, int], bytes]] = {
    "empty": lambda _raw, _size: b"",
    "only line breaks": lambda _raw, size: b"\n" * size,
    "only a byte order mark": lambda _raw, _size: b"\xef\xbb\xbf",
    "a byte order mark": lambda raw, _size: b"\xef\xbb\xbf" + raw,
    "cut": lambda raw, _size: raw[: len(raw) // 2],
    "cut in a character": lambda raw, _size: raw + "é".encode()[:-1],
    "Latin-1": lambda raw, _size: raw.decode().replace("a", "é").encode("latin-1", "replace"),
    "UTF-16": lambda raw, _size: raw.decode().encode("utf-16"),
    "NUL": lambda raw, _size: raw.replace(b" ", b"\0", 5),
    "only NUL": lambda _raw, size: b"\0" * size,
    "CRLF": lambda raw, _size: raw.replace(b"\n", b"\r\n"),
    "CR": lambda raw, _size: raw.replace(b"\n", b"\r"),
    "random bytes": lambda _raw, size: random.Random(size).randbytes(5000),
    "a long line": lambda raw, size: raw.replace(b"\n", b" x" * (size // 2) + b"\n", 1),
    "a long word": lambda raw, size: raw.replace(b"o", b"o" * size, 1),
    "deep lists": lambda _raw, size: b"[" * size + b"]" * size,
    "deep objects": lambda _raw, size: b'{"a":' * size + b"1" + b"}" * size,
    "deep after the first line": lambda raw, size: raw.partition(b"\n")[0] + b"\n" + b"[" * size + b"]" * size,
    "deep within": lambda raw, _size: re.sub(rb"\[", b"[" * 5000, raw, count=1),
    "doubled": lambda raw, _size: raw + raw,
    "long numbers": lambda raw, _size: re.sub(rb"\d+", b"9" * 5000, raw, count=4),
    "every number long": lambda raw, _size: re.sub(rb"\d+", b"9" * 4400, raw),
    "negative numbers": lambda raw, _size: re.sub(rb"\b\d+", rb"-7", raw),
    "large numbers": lambda raw, _size: re.sub(rb"\b\d+", rb"99999999999999999999", raw),
    "numbers with zeros in front": lambda raw, _size: re.sub(rb"\b(\d+)", rb"0\1", raw),
    "odd digits": lambda raw, _size: raw.replace(b"1", "²".encode(), 3).replace(b"2", "\u0661".encode(), 3),
    "unpaired surrogates": lambda raw, _size: raw.replace(b"a", b"\\ud800", 2),
    "tabs for spaces": lambda raw, _size: raw.replace(b" ", b"\t"),
    "spaces for tabs": lambda raw, _size: raw.replace(b"\t", b" "),
    "other white space": lambda raw, _size: raw.replace(b" ", b" \x0b\x0c\x1c", 9),
    "an open quote": lambda raw, size: raw.replace(b"o", b'"o', 1) + b"b\t0\n" * (size // 4),
}


def _special(campaign: Campaign) -> Iterator[Case]:
    """What only one format can have wrong."""
    for name, what, content in _specials(campaign.count(3000, 30_000)):
        work = partial(_judged_special, campaign.folder / "special", name, content, campaign.count(10, 60))
        yield Case(f"malformed files: {name}: {what}", work)


def _judged_special(folder: Path, name: str, content: str, seconds: int) -> str:
    files = {f"x.{'json' if name in ('squad', 'hotpot') else 'txt'}": content}
    if name == "uds":
        files = {"uds-x.json": content, "ud_ids.json": '{"g": {"sentence_id": "s", "document_id": "d"}}'}
    elif "conllulex" in content:
        files = {"x.conllulex": content}
    seed = Seed(name, {path: text.encode("utf-8", "surrogatepass") for path, text in files.items()})
    return judged(seed.write(folder / name), get_format(name), seconds=seconds)


_LAUGHS = (
    '<!DOCTYPE SimpleWsdDoc [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>'
    '<SimpleWsdDoc name="&c;"><word text="&c;" break_level="x"/></SimpleWsdDoc>'
)


def _specials(size: int) -> Iterator[tuple[str, str, str]]:
    row = "{}\t{}\t_\tNOUN\t_\t_\t{}\tdep\t_\t_\n"
    yield "conllu", "cyclic heads", row.format(1, "a", 2) + row.format(2, "b", 1)
    yield "conllu", "a chain", "".join(row.format(n, "w", n + 1 if n < size else 0) for n in range(1, size + 1))
    yield "conllu", "a head of itself", row.format(1, "a", 1)
    yield "conllu", "two roots", row.format(1, "a", 0) + row.format(2, "b", 0)
    yield "conllu", "two spellings of 0", row.format(1, "a", 0) + row.format(2, "b", "00")
    yield "conllu", "one number twice", row.format(1, "a", 0) * 2
    yield "conllu", "a range backwards", "3-1\tx" + "\t_" * 8 + "\n" + row.format(1, "a", 0)
    yield "conllu", "a huge range", "1-999999999\tx" + "\t_" * 8 + "\n" + row.format(1, "a", 0)
    yield "conllu", "no word", row.format(1, "", 0)
    yield "conllu", "spaces in a comment", "# a" + " " * size * 5 + "x\n" + row.format(1, "a", 0)
    yield "conllu", "open mentions", row.format(1, "a", 0)[:-2] + "Entity=" + "(e1-x" * size + "\n"
    yield "ptb", "deep brackets", "(S " * size + "(NN x)" + ")" * size
    yield "ptb", "never closed", "(S " * size
    yield "ptb", "closed too often", "( (S (NN x)))))))))"
    word = "bc/x 0 0 Rome NNP {} - - - Sp * (V*) {}\n"
    around = "#begin document (bc/x); part 000\n{}\n#end document\n"
    yield "ontonotes", "deep brackets", around.format(word.format("(A" * size + "*", "-"))
    yield "ontonotes", "a chain never closed", around.format(word.format("(S*)", "(3"))
    yield "ontonotes", "many chains", around.format(word.format("(S*)", "|".join(f"({n}" for n in range(size))))
    yield "ontonotes", "documents within documents", "#begin document (a); part 000\n" * size
    yield "ner_columns", "tags that continue nothing", "a I-X\nb E-Y\nc S-\nd B-\ne -\n"
    yield "ner_columns", "no blank line", "a O\n" * size * 40
    header = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
    yield "gap", "an offset outside", f"{header}x\tHe met Bob .\tHe\t999999\tBob\t7\tTRUE\tBob\t-3\tFALSE\tu\n"
    yield "gap", "a name without words", f"{header}x\tHe  met .\tHe\t0\t \t2\tTRUE\tmet\t4\tFALSE\tu\n"
    yield "glue", "no header", "a\tb\n1\t2\n"
    yield "glue", "an open quote", 'sentence\tlabel\n"a\t1\n' + "b\t0\n" * size
    yield "semeval", "nested nominals", '1\t"<e1><e2>x</e1></e2>"\nOther\nComment:\n\n'
    yield "semeval", "an open nominal", '1\t"<e1>x"\nOther\n\n'
    yield "trec", "no colon", "DESC How are you ?\n"
    yield "babi", "numbers backwards", "2 Mary went .\n1 Where ?\tx\t7\n"
    yield "babi", "a fact that is not there", "1 Mary went home .\n2 Where is Mary ?\thome\t999999999999\n"
    yield "babi", "the question first", "1 Where is Mary ?\thome\t1\n"
    yield "babi", "a long story", "".join(f"{n} Mary went.\n{n + 1} Where?\tx\t1\n" for n in range(1, size, 2))
    yield "babi", "many answers", "".join(f"1 Mary went.\n2 Where?\tx{n}\t1\n" for n in range(size))
    yield "simple_wsd", "entities within entities", _LAUGHS
    yield "simple_wsd", "a long name", f"<SimpleWsdDoc name='{'a/' * size}'><word text='a' break_level=''/>"
    yield "simple_wsd", "deep elements", "<SimpleWsdDoc>" + "<word text='a' break_level='x'>" * size
    yield "coarse_wsd", "an index outside", "club\tclub_club\t999999999\tA club .\n"
    yield "wiki_pse", "underscores", "@" + "_" * size * 30 + "@-person\n"
    yield "wiki_pse", "at signs", "@" * size * 30 + "-person x\n"
    yield "plain", "combining marks", "\u0301" * size * 10
    yield "plain", "a heading without an end", "= a =" + " " * size * 10 + "b\n"
    multi = "# conllulex\n1-2\tb" + "\t_" * 17 + "\n1\ta" + "\t_" * 4 + "\t{}" + "\t_" * 12 + "\n"
    yield "streusle", "a head outside", multi.format(2)
    yield from _odd_records()
    graph = {"nodes": [{"id": "n", "domain": "syntax", "position": 1, "form": "a", "upos": "X", "xpos": "X"}]}
    for adjacency in ([], [[]], [[{}]], [None], 3, [[{"id": "n", "domain": "interface", "type": "head"}]], [["x"]]):
        yield (
            "uds",
            f"adjacency {adjacency}",
            json.dumps({"metadata": {}, "data": {"g": graph | {"adjacency": adjacency}}}),
        )
    deep = '{"metadata": {}, "data": {"g": {"nodes": ' + "[" * size + "]" * size + ', "adjacency": []}}}'
    yield "uds", "deep lists", deep
    yield "uds", "long numbers", '{"metadata": {}, "data": {"g": {"nodes": ' + "9" * 5000 + "}}}"
    yield "uds", "an infinite number", '{"metadata": {}, "data": {"g": {"nodes": 1e999, "adjacency": []}}}'


def _odd_records() -> Iterator[tuple[str, str, str]]:
    """One field of a JSON record replaced by something odd."""
    sound: dict[str, Any] = {}
    for seed in made_seeds():
        content = next(iter(seed.files.values())).decode()
        if content.startswith(("[", "{")) and seed.format != "uds":
            sound[seed.format] = json.loads(
                content if seed.format in ("squad", "hotpot") else content.partition("\n")[0]
            )
    odd = (None, 3, -1, 0.5, True, "", "x", "\ud800", [], [[]], [None], [0], ["x"], {}, {"a": 1}, 10**400, 1e400)
    for name, record in sound.items():
        for place in _paths_within(record):
            for value in odd:
                yield name, f"{place} is {str(value)[:20]!r}", json.dumps(_replaced(record, place, value))


def _paths_within(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, one in inside:
        yield (*before, key)
        yield from _paths_within(one, (*before, key))


def _replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = _replaced(value[place[0]], place[1:], new)
    return copy


def _questions(campaign: Campaign) -> Iterator[Case]:
    """Question sets with other settings than those of a corpus."""
    size = campaign.count(20_000, 500_000)
    settings: dict[str, list[dict[str, Any]]] = {
        "squad": [{}],
        "hotpot": [{"setting": "support"}, {"max_words": 3}],
        "babi": [{"babi": "classification"}, {"tasks": [1]}, {"babi": "other"}],
        "trec": [{}],
        "glue": [{}],
    }
    for seed in made_seeds():
        for more, what in product(settings.get(seed.format, []), _SPOILED):
            work = partial(_read_questions, campaign.folder / "questions", seed, what, size, more)
            yield Case(f"question sets: {seed.format} {more}: {what}", partial(outcome, work))


def _read_questions(folder: Path, seed: Seed, what: str, size: int, more: dict[str, Any]) -> None:
    path = _spoiled(seed, next(iter(seed.files)), what, size).write(folder / seed.format)
    _drained(read_questions(path, format=seed.format, report=_ignored, view=View.of(more)))


def _ignored(fault: Fault) -> None:
    str(fault)


def _drained(items: Iterator[object]) -> None:
    for _ in items:
        pass


def _vectors(campaign: Campaign) -> Iterator[Case]:
    """Word vectors as text and as word2vec's binary format."""
    size = campaign.count(50_000, 8_000_000)
    binary = b"2 3\nab " + b"\0" * 12 + b"cd " + b"\1" * 12
    cases: dict[str, list[bytes]] = {
        "a.txt": [
            *(b"", b"\n", b"a 1 2 3\nb 1 2\n", b"a x y\n", b"a nan 1 2\n", b"a 1e999 1 2\n", b"2 3\na 1 2 3\n"),
            *(b"999999999999 999999999999\n", b"9" * 5000 + b" 3\n", b"-1 3\n", b"a " + b"1 " * size + b"\n"),
            *(b"\xff\xfe\x00", b"a 1 2\na 1 2\n", b" 1 2\n", b"a\t1\t2\n", b"\0 1 2\n", b"a 1 2\r\nb 1 2\r\n"),
            *(b"x" * size, b"a 1 " + b"9" * size + b"\n", b"a 1 \xc2\xb2\n", b"a 1_0 2 3\n"),
        ],
        "a.vec": [b"2 2\na 1 2\nb 3 4\n", b"2 2\na 1 2\n", b"2\n", b"2 2 2\n"],
        "a.bin": [
            *(binary, binary[:-3], b"", b"\n", b"2 3", b"9999999999 9999999999\n", b"1 1\n" + b"x" * size, b"a b\n"),
            *(b"1 2147483647\na ", b"2 3\n" + b"\xff" * 40, b"0 0\n", b"9" * 5000 + b" 1\n", b"x" * size),
        ],
    }
    for name, contents in cases.items():
        for content in contents:
            work = partial(_read_vectors, campaign.folder / name, content)
            what = f"{content[:20]!r}, {len(content):,} bytes"
            yield Case(f"word vectors: {name}: {what}", partial(outcome, work, campaign.count(10, 60)))


def _read_vectors(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    words, vectors = read_vectors(path)
    return "" if len(words) == len(vectors) else "not as many vectors as words"


_ELMO = ElmoOptions(2, ((1, 2), (2, 2)), 1, 5, "relu", 2, 3, 2, 3.0, 3.0, skips=True)
_LSTM = (
    b'"lstm": {"dim": 3, "projection_dim": 2, "n_layers": 2, "cell_clip": 3, "proj_clip": 3, '
    b'"use_skip_connections": true}'
)
_CNN = (
    b'"char_cnn": {"embedding": {"dim": 2}, "filters": [[1, 2], [2, 2]], "n_highway": 1, "n_characters": 262, '
    b'"max_characters_per_token": 5, "activation": "relu"}'
)


def _elmos(campaign: Campaign) -> Iterator[Case]:
    """An ELMo's options with other values, and its HDF5 cut off or with other bytes in it."""
    import h5py

    sound = b"{" + _LSTM + b", " + _CNN + b"}"
    held = io.BytesIO()
    with h5py.File(held, "w") as file:
        for name, tensor in drawn_weights(_ELMO, seed=0).items():
            file[name] = tensor.numpy()
    weights, random = held.getvalue(), campaign.random
    spoiled = [b"", b"{}", b"[]", b"null", sound[:-9], sound + b"x", b"[" * 100_000, b"\xff" + sound]
    for number in re.findall(rb"\d+|true|\"relu\"", sound):
        spoiled += [sound.replace(number, other, 1) for other in (b"0", b"-1", b"1e400", b"null", b"[]", b"9" * 30)]
    cases = [(sound, weights), *((each, weights) for each in spoiled)]
    for _ in range(campaign.count(100, 5_000)):
        other = bytearray(weights)
        # What describes the arrays comes first.
        for at in (random.randrange(random.choice((2000, len(other)))) for _ in range(random.choice((1, 2, 8)))):
            other[at] = random.choice((0, 255, random.randrange(256)))
        cases.append((sound, bytes(other[: random.choice((len(other), random.randrange(len(other))))])))
    for at, (options, changed) in enumerate(cases):
        work = partial(_read_elmo, campaign.folder / "elmo", options, changed, whole=not at)
        yield Case(f"ELMo: {at}, {options[:20]!r}, weights of {len(changed):,} bytes", partial(outcome, work))


def _read_elmo(folder: Path, options: bytes, weights: bytes, *, whole: bool) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "options.json").write_bytes(options)
    (folder / "weights.hdf5").write_bytes(weights)
    try:
        found, tensors = read_elmo(folder)
    except LaminaError as error:
        return f"a sound ELMo is refused: {error}" if whole else ""
    wanted = {name: tuple(shape) for name, shape in shapes(found).items()}
    return "" if wanted == {name: tuple(each.shape) for name, each in tensors.items()} else "tensors of other shapes"


def _paths(campaign: Campaign) -> Iterator[Case]:
    """Paths that are no file, or a file that cannot be read."""
    place = campaign.folder / "paths"
    (place / "folder").mkdir(parents=True)
    (place / "loop").symlink_to(place / "loop")
    (place / "folder" / "self").symlink_to(place / "folder")
    os.mkfifo(place / "pipe.conllu")
    os.mkfifo(place / "folder" / "pipe.conllu")
    (place / "linked.conllu").symlink_to(place / "pipe.conllu")
    os.mknod(place / "socket.txt", stat.S_IFSOCK | 0o600)
    odd: list[Path | str] = ["/dev/null", "/dev/zero", "/dev/tty", "/proc/self/mem"]
    odd += [place / name for name in ("loop", "folder", "pipe.conllu", "linked.conllu", "socket.txt", "none")]
    odd += [place / ("a" * 5000), place / "x\0y"]
    for path, form in product(odd, (None, "conllu", "gum", "uds", "squad", "plain", "edge_jsonl")):
        yield Case(f"odd paths: {str(path)[-40:]!r} as {form}", partial(outcome, partial(_loaded, path, form)))
    for seed in made_seeds():
        for name in seed.files if len(seed.files) > 1 else ():
            path = seed.write(place / f"{seed.format}-{name.replace('/', '-')}")
            piped = place / f"{seed.format}-{name.replace('/', '-')}" / name
            piped.unlink()
            os.mkfifo(piped)
            folder = path.parent.parent if seed.format == "gum" else path
            work = partial(outcome, partial(_never_opened, folder, seed.format))
            yield Case(f"odd paths: a pipe as {name} of {seed.format}", work)


def _loaded(path: Path | str, form: str | None) -> str:
    try:
        texts = list(load_corpus(path, "all", format=form))
    except LaminaError:
        return ""
    return f"{len(texts)} texts were read from what is no file"


def _never_opened(path: Path, form: str) -> None:
    """Opening the pipe would wait for a writer until the time is up; to say so or to read without it is fine."""
    _drained(iter(load_corpus(path, "all", format=form)))


def _growth(campaign: Campaign) -> Iterator[Case]:
    """Four times the file takes about four times as long, also where everything in it is wrong."""
    size, seconds = campaign.count(10_000, 200_000), campaign.count(15, 120)
    for name, what, make in _GROWING:
        work = partial(outcome, partial(_grows, campaign.folder, name, make, size), seconds)
        yield Case(f"sizes: {name}: {what}", work)


def _grows(folder: Path, form: str, make: Callable[[int], str], size: int) -> str:
    took = []
    for times in (1, 4):
        path = folder / ("growing.json" if form in ("squad", "hotpot") else "qa1_growing.txt")
        path.write_text(make(times * size), encoding="utf-8")
        start = time.process_time()
        _drained(get_format(form).read(path, _ignored))
        took.append(time.process_time() - start)
    # Quadratic time would be 16 times as long. What takes milliseconds cannot be compared.
    return f"{took[0]:.2f} s, but {took[1]:.2f} s for four times the file" if took[1] > 10 * took[0] + 0.3 else ""


def _all_misplaced(size: int) -> str:
    """SQuAD in which no answer is at its place."""
    answer = {"text": "Bob", "answer_start": 5}
    asked = [{"id": f"q{n}", "question": "Who?", "answers": [answer]} for n in range(size // 100)]
    paragraphs = [{"context": "Bob went home.", "qas": asked[at : at + 5]} for at in range(0, len(asked), 5)]
    return json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]}, indent=0)


def _many_answers(size: int) -> str:
    """SQuAD with one question of very many answers, in a context of very many sentences."""
    context = "A b. " * (size // 10)
    answers = [{"text": "b", "answer_start": 2 + 5 * (n % (size // 10))} for n in range(size // 60)]
    qa = {"id": "q", "question": "Who?", "answers": answers}
    return json.dumps({"data": [{"title": "T", "paragraphs": [{"context": context, "qas": [qa]}]}]})


def _periodic(size: int) -> str:
    """HotpotQA with an answer that almost occurs everywhere."""
    item = {"question": "Who?", "answer": "ab " * min(size // 10, 3000) + "a", "supporting_facts": [["T", 0]]}
    return json.dumps([item | {"context": [["T", ["ab " * (size // 3)]]]}])


def _chain(size: int) -> str:
    """A sentence in which each word depends on the next."""
    return "".join(f"{at}\tw\t_\t_\t_\t_\t{at + 1}\tx\t_\t_\n" for at in range(1, size // 20)) + "\n"


_GROWING: tuple[tuple[str, str, Callable[[int], str]], ...] = (
    ("squad", "every answer misplaced", _all_misplaced),
    ("squad", "many answers in many sentences", _many_answers),
    ("squad", "a context of stops", lambda size: json.dumps(_squad_with("." * size + "x"))),
    ("hotpot", "an answer that occurs nowhere", _periodic),
    ("conllu", "a chain of heads", _chain),
    ("conllu", "spaces in a comment", lambda size: "# a" + " " * size + "x\n"),
    ("conllu", "every line a fault", lambda size: "1\ta\n\n" * (size // 5)),
    ("babi", "a story without an end", lambda size: "".join(f"{n} A b.\n" for n in range(1, size // 8))),
    ("babi", "questions with white space", lambda size: "1 A b.\n2 Where" + " \t" * size + "?\n"),
    ("plain", "digits and letters", lambda size: "1" * size + "x"),
    ("plain", "commas in numbers", lambda size: "1,1" * (size // 3) + "x"),
    ("semeval", "markers", lambda size: '1\t"' + "<e1>" * (size // 4) + '"\nOther\n\n'),
    ("ner_columns", "a comment of spaces", lambda size: "# x" + " " * size + "y\na O\n"),
    ("wiki_pse", "at signs", lambda size: "@-a" * (size // 3) + " x"),
    ("ptb", "open brackets", lambda size: "(S " * (size // 3)),
    ("ontonotes", "a heading", lambda size: "#begin document (" + "); part " * (size // 8)),
    ("trec", "white space", lambda size: "HUM:ind" + " " * size + "\n"),
    ("glue", "tabs", lambda size: "sentence\tlabel\n" + "\t" * size),
)


def _squad_with(context: str) -> dict[str, Any]:
    qa = {"id": "q", "question": "Who?", "answers": [{"text": "x", "answer_start": len(context) - 1}]}
    return {"data": [{"title": "T", "paragraphs": [{"context": context, "qas": [qa]}]}]}


def _memory(campaign: Campaign) -> Iterator[Case]:
    """Memory stays within some times the size of a file."""
    size = campaign.count(30_000, 3_000_000)
    formats = (
        "conllu",
        "ner_columns",
        "ontonotes",
        "ptb",
        "semeval",
        "plain",
        "wiki_pse",
        "trec",
        "edge_jsonl",
        "squad",
    )
    for name, what in product(formats, _SHAPES):
        work = partial(_within_memory, campaign.folder / "large.txt", name, what, size, campaign.count(10, 120))
        yield Case(f"memory: {name}: {what}", work)


_SHAPES: dict[str, Callable[[int], bytes]] = {
    "short lines": lambda size: b"a O\n" * (size // 4),
    "one line": lambda size: b"ab " * (size // 3),
    "line breaks": lambda size: b"\n" * size,
    "tabs": lambda size: b"\t" * size,
    "brackets": lambda size: b"(a" * (size // 2),
    "lists": lambda size: b'{"text": "a", "targets": [' + b"[]," * (size // 3) + b"[]]}",
}


def _within_memory(path: Path, form: str, what: str, size: int, seconds: int) -> str:
    path.write_bytes(_SHAPES[what](size))
    tracemalloc.start()
    try:
        fault = outcome(lambda: _drained(get_format(form).read(path, _ignored)), seconds)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    much = peak > _BASE + _MUCH * size
    return fault or (f"{peak:,} bytes of memory for a file of {size:,}" if much else "")
