"""Recipes: origins served from a folder or the loopback, and the corpora derived from hand-written ones."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner

from checks.write_manifest import manifest_of
from lamina import assets
from lamina.assets import origins
from lamina.assets.cache import cached, fetch
from lamina.assets.origins import Origin, OriginFiles, blob_id
from lamina.assets.recipes import CorpusRecipe, DerivedFile, as_is
from lamina.assets.recipes.treebanks import (
    derive_propbank,
    derive_protoroles,
    derive_streusle,
    derive_wordsense_factuality,
)
from lamina.assets.sources import Card, Url
from lamina.cli.main import app
from lamina.corpora.formats.propbank import read as read_propbank
from lamina.corpora.formats.streusle import read as read_streusle
from lamina.corpora.formats.uds import read_jsonl as read_uds
from lamina.errors import AssetError, CorpusError, HashError, OfflineError

COMMIT = "c0ffee" * 6 + "cafe"
FILES = {"a.txt": b"one\ntwo\n", "deep/b.txt": b"three\n"}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that LAMINA_ORIGINS names, empty."""
    folder = tmp_path / "origins"
    folder.mkdir()
    monkeypatch.setenv("LAMINA_ORIGINS", str(folder))
    return folder


def origin_of(files: Mapping[str, bytes], repo: str = "me/mine", *, archive: int = 0) -> Origin:
    return Origin(repo, COMMIT, {path: blob_id(content) for path, content in files.items()}, 1000, archive)


def put(shelf: Path, files: Mapping[str, bytes], repo: str = "me/mine") -> Path:
    folder = shelf / repo
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def lines(content: bytes) -> Mapping[str, int]:
    return {"lines": content.count(b"\n")}


def card_of(files: Mapping[str, bytes], *, archive: int = 0, count: int = 2) -> Card:
    """A corpus whose recipe copies two files."""
    recipe = CorpusRecipe(
        (origin_of(files, archive=archive),),
        as_is({"a.txt": "first.txt", "deep/b.txt": "second.txt"}, lines),
        counts={"first.txt": {"lines": count}, "second.txt": {"lines": 1}},
        licence="CC0",
        changes="renamed",
    )
    return Card("demo", "corpus", "a demo", "CC0", tuple(recipe.counts), 2000, (recipe,), origin="hand-made")


def test_a_corpus_is_derived_with_a_note_beside_it(shelf: Path) -> None:
    put(shelf, FILES)
    folder = fetch(card_of(FILES))
    assert (folder / "first.txt").read_bytes() == FILES["a.txt"]
    note = (folder / "SOURCE.txt").read_text()
    assert f"https://github.com/me/mine/tree/{COMMIT} (2 files)" in note
    assert "LICENCE: CC0" in note
    assert "first.txt: 2 lines" in note


def test_one_changed_byte_is_refused_by_name(shelf: Path, cache: Path) -> None:
    put(shelf, {**FILES, "deep/b.txt": b"thrEe\n"})
    with pytest.raises(HashError, match=rf"me/mine/deep/b\.txt has git blob id .* commit {COMMIT[:12]} of me/mine has"):
        fetch(card_of(FILES))
    assert cached(card_of(FILES)) is None
    assert [path.name for path in (cache / "assets").iterdir()] == ["demo.lock"], "nothing half-made stays"


def test_a_missing_file_is_looked_for_on_the_web(shelf: Path, web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "RAW", web.base)
    put(shelf, {"a.txt": FILES["a.txt"]})
    with pytest.raises(OfflineError, match=rf"/me/mine/{COMMIT}/deep/b\.txt could not be read \(HTTP Error 404"):
        fetch(card_of(FILES))
    web.files = {f"me/mine/{COMMIT}/deep/b.txt": FILES["deep/b.txt"]}
    folder = fetch(card_of(FILES))
    assert (folder / "second.txt").read_bytes() == FILES["deep/b.txt"]
    monkeypatch.setenv("LAMINA_ORIGINS", str(shelf / "nowhere"))
    with pytest.raises(AssetError, match=r"LAMINA_ORIGINS is .*nowhere, which is not a folder"):
        OriginFiles(origin_of(FILES))


def test_a_broken_fetch_goes_on_where_it_stopped(web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "RAW", web.base)
    first, second = (f"me/mine/{COMMIT}/{path}" for path in FILES)
    web.files = {first: FILES["a.txt"], second: b"another\n"}
    with pytest.raises(HashError, match=r"deep/b\.txt has git blob id .*the download was discarded"):
        fetch(card_of(FILES))
    web.files[second] = FILES["deep/b.txt"]
    fetch(card_of(FILES))
    assert web.asked == {first: 1, second: 2}
    monkeypatch.setattr(assets, "CARDS", (card_of(FILES),))
    assert assets.remove("demo")
    fetch(card_of(FILES))
    assert web.asked[first] == 2, "removing the corpus removes what it was derived from"


def test_a_count_that_is_off_keeps_nothing(shelf: Path) -> None:
    put(shelf, FILES)
    with pytest.raises(AssetError, match=r"first\.txt as derived has 2 lines, expected 3; nothing was kept"):
        fetch(card_of(FILES, count=3))
    assert cached(card_of(FILES, count=3)) is None


def test_a_recipe_writes_only_what_it_counts_and_only_into_its_folder(shelf: Path) -> None:
    card = card_of(FILES)
    for path, said in (("third.txt", "does not count"), ("../out.txt", "no place"), ("SOURCE.txt", "no place")):
        parts = [DerivedFile(path, b"x", {})]
        recipe = replace(card.sources[0], derive=lambda _, parts=parts: parts)
        with pytest.raises(AssetError, match=said):
            fetch(replace(card, sources=(recipe,)))


def test_another_version_is_derived_again(shelf: Path) -> None:
    put(shelf, FILES)
    card = card_of(FILES)
    fetch(card)
    assert cached(card)
    assert cached(replace(card, sources=(replace(card.sources[0], version=2),))) is None


def archive_of(files: Mapping[str, bytes], *links: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(f"mine-{COMMIT}/{path}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for path in links:
            info = tarfile.TarInfo(f"mine-{COMMIT}/{path}")
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(info)
    return made.getvalue()


def test_hundreds_of_files_come_out_of_one_archive(web, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "ARCHIVES", web.base)
    address = f"me/mine/tar.gz/{COMMIT}"
    card = card_of(FILES, archive=30_000)
    web.files = {address: archive_of({"a.txt": FILES["a.txt"]}, "deep/b.txt")}
    with pytest.raises(AssetError, match=r"lacks deep/b\.txt \(1 of 2 files\)"):
        fetch(card)  # a link is not a file
    web.files = {address: archive_of({**FILES, "deep/b.txt": b"thrEe\n"})}
    with pytest.raises(HashError, match=r"deep/b\.txt in http.* has git blob id"):
        fetch(card)
    web.files = {address: archive_of({"bomb": bytes(100_000), **FILES})}
    with pytest.raises(AssetError, match="exceeds the 45,000 bytes"):
        fetch(card)
    web.files = {address: archive_of(FILES)[:-40]}
    with pytest.raises(OfflineError, match="could not be unpacked"):
        fetch(card)
    web.files = {address: archive_of({"../../evil": b"x", "other.txt": b"y", **FILES})}
    folder = fetch(card)
    assert sorted(path.name for path in folder.iterdir()) == ["SOURCE.txt", "first.txt", "second.txt"]
    assert not list(cache.rglob("evil"))


@pytest.fixture
def clone(shelf: Path) -> Callable[..., Path]:
    """A clone in which FILES are committed, and a later commit has changed them."""

    def make(repo: str) -> Path:
        folder = put(shelf, FILES, repo)

        def git(*arguments: str) -> None:
            who = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"]
            subprocess.run(["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True)

        git("init", "-q")
        git("add", ".")
        git("commit", "-qm", "first")
        put(shelf, {"a.txt": b"later\n"}, repo)
        git("commit", "-qam", "second")
        return folder

    return make


def test_a_clone_is_asked_for_the_pinned_files_whatever_is_checked_out(clone, shelf: Path) -> None:
    folder = clone("me/mine")
    assert OriginFiles(origin_of(FILES)).read("a.txt") == FILES["a.txt"]
    folder.rename(shelf / "me+mine")
    assert OriginFiles(origin_of(FILES)).text("a.txt") == "one\ntwo\n"
    manifest = manifest_of(shelf / "me+mine", "me/mine", ["*.txt"], "HEAD~1", archive=False, unknown=0)
    head, listed = manifest.split("\n", 4)[:4], manifest.split("\n", 4)[4]
    assert head[2:] == ["# bytes: 14", "# archive: 0"]
    assert listed == "".join(f"{blob_id(content)} {path}\n" for path, content in FILES.items())
    with pytest.raises(AssetError, match=r"has no file \*\.md"):
        manifest_of(shelf / "me+mine", "me/mine", ["*.md"], "HEAD", archive=False, unknown=0)


def test_single_files_of_github_are_also_taken_from_the_shelf(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_OFFLINE", "1")
    source = Url(f"https://raw.githubusercontent.com/me/mine/{COMMIT}/deep", {"b.txt": sha256(b"three\n").hexdigest()})
    monkeypatch.setattr(assets, "CARDS", (Card("demo", "corpus", "a demo", "CC0", ("b.txt",), 1000, (source,)),))
    with pytest.raises(OfflineError, match=r"b\.txt was not asked \(LAMINA_OFFLINE is set\)"):
        assets.locate("demo")
    put(shelf, {"deep/b.txt": b"thrEe\n"})
    with pytest.raises(HashError, match=r"b\.txt in LAMINA_ORIGINS .* has sha256"):
        assets.locate("demo")
    put(shelf, FILES)
    assert (assets.locate("demo") / "b.txt").read_bytes() == b"three\n"


CONLLU = """# newdoc id = reviews-7
# sent_id = reviews-7-0001
1\tDogs\t_\tNOUN\tNNS\t_\t2\tnsubj\t_\t_
2\tbark\t_\tVERB\tVBP\t_\t0\troot\t_\t_
3\tat\t_\tADP\tIN\t_\t5\tcase\t_\t_
4\tthe\t_\tDET\tDT\t_\t5\tdet\t_\t_
5\tmoon\t_\tNOUN\tNN\t_\t2\tobl\t_\t_

# sent_id = reviews-7-0002
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\t_\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\t_\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgive\t_\tVERB\tVB\t_\t0\troot\t_\t_
4\tup\t_\tADP\tRP\t_\t3\tcompound:prt\t_\t_

# newdoc id = email-b
# sent_id = email-b-0001
1\tHello\t_\tINTJ\tUH\t_\t0\troot\t_\t_

"""

SKELETON = """x 0 0 [WORD] NNS (TOP(S(NP*) - - (ARG0*)
x 0 1 [WORD] VBP (VP* bark bark.01 (V*)
x 0 2 [WORD] IN (PP* - - (ARG1*
x 0 3 [WORD] DT (NP* - - *
x 0 4 [WORD] NN *))))) - - *)

x 1 0 [WORD] JJ (TOP(X* - -
x 1 1 [WORD] JJ *)) - -

x 2 0 [WORD] VB (TOP(S* - - *
x 2 1 [WORD] RB * - - (ARGM-NEG*)
x 2 2 [WORD] VB (VP* give give_up.08 (V*
x 2 3 [WORD] RP *))) - - *)
"""


def ewt_files(**splits: str) -> dict[str, bytes]:
    return {f"en_ewt-ud-{split}.conllu": splits.get(split, "").encode() for split in ("train", "dev", "test")}


def derived(shelf: Path, derive: Callable, sources: Mapping[str, Mapping[str, bytes]]) -> dict[str, DerivedFile]:
    for repo, files in sources.items():
        put(shelf, files, repo)
    given = {repo: OriginFiles(origin_of(files, repo)) for repo, files in sources.items()}
    return {part.path: part for part in derive(given)}


def read_part(reader: Callable, part: DerivedFile, folder: Path) -> list:
    path = folder / part.path
    path.write_bytes(part.content)
    return list(reader(path))


def test_propbank_gets_its_words_from_the_sentences_of_equal_length(shelf: Path, tmp_path: Path) -> None:
    skeleton = {"data/google/ewt/reviews/00/7.xml.gold_skel": SKELETON.encode()}
    parts = derived(
        shelf,
        derive_propbank,
        {"propbank/propbank-release": skeleton, "UniversalDependencies/UD_English-EWT": ewt_files(train=CONLLU)},
    )
    train = parts["ewt_srl_const.train.jsonl"]
    # The skeleton of two words has no sentence, the document email-b no skeleton.
    assert train.counts == {"sentences": 2, "predicates": 2, "arguments": 3}
    first, second = read_part(read_propbank, train, tmp_path)
    assert (first.id, first.words) == ("reviews-7-0001", ("Dogs", "bark", "at", "the", "moon"))
    assert [(edge.labels, edge.other.start, edge.other.end) for edge in first.edges["srl"]] == [
        (("ARG0",), 0, 1),
        (("ARG1",), 2, 5),
    ]
    assert [(edge.span.start, edge.span.end) for edge in second.edges["srl"]] == [(2, 4)], "give up"
    assert parts["ewt_srl_const.dev.jsonl"].content == b""


def test_propbank_drops_a_pair_whose_tags_disagree(shelf: Path) -> None:
    skeleton = {"data/google/ewt/reviews/00/7.xml.gold_skel": SKELETON.replace("DT", "CD").replace("IN", "CD").encode()}
    treebank = {"UniversalDependencies/UD_English-EWT": ewt_files(train=CONLLU)}
    parts = derived(shelf, derive_propbank, {"propbank/propbank-release": skeleton, **treebank})
    rows = [json.loads(line) for line in parts["ewt_srl_const.train.jsonl"].content.splitlines()]
    assert [row["sent_id"] for row in rows] == ["reviews-7-0002"], "3 of 5 tags agree in the first"
    skeleton = {"data/google/ewt/reviews/00/7.xml.gold_skel": SKELETON.replace("- - *)\n", "- - *) *\n").encode()}
    with pytest.raises(AssetError, match=r"7\.xml\.gold_skel has a sentence without one column per predicate"):
        derived(shelf, derive_propbank, {"propbank/propbank-release": skeleton, **treebank})


def zipped(subject: str, data: object) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"{subject}.json", json.dumps({"metadata": {}, "data": data}))
    return made.getvalue()


def rated(value: float) -> dict[str, float]:
    return {"value": value, "confidence": 1.0}


def test_uds_is_joined_to_the_words_of_the_treebank(shelf: Path, tmp_path: Path) -> None:
    pair = "ewt-train-9-semantics-pred-2%%ewt-train-9-semantics-arg-5"
    senses = {
        "supersense-noun.object": rated(0.5),
        "supersense-noun.Tops": rated(1.0),
        "supersense-noun.act": rated(-3),
    }
    said = {
        "protoroles": {"ewt-train-9": {pair: {"protoroles": {"volition": rated(-1), "sentient": rated(2)}}}},
        "wordsense": {"ewt-train-9": {"ewt-train-9-semantics-arg-5": {"wordsense": senses}}},
        # The second word is beyond the sentence's end, which leaves its sentence with nothing.
        "factuality": {
            "ewt-train-9": {"ewt-train-9-semantics-pred-2": {"factuality": {"factual": rated(1.5)}}},
            "ewt-train-10": {"ewt-train-10-semantics-pred-8": {"factuality": {"factual": rated(1.5)}}},
        },
    }
    ids = {
        "ewt-train-9": {"sentence_id": "reviews-7-0001"},
        "ewt-train-10": {"sentence_id": "reviews-7-0002"},
    }
    folder = "decomp/data/1.0/normalized/sentence/annotations"
    sources = {
        "decompositional-semantics-initiative/decomp": {
            "decomp/data/ud_ids.json": json.dumps(ids).encode(),
            **{f"{folder}/{subject}.zip": zipped(subject, data) for subject, data in said.items()},
        },
        "UniversalDependencies/UD_English-EWT": ewt_files(train=CONLLU),
    }
    roles = derived(shelf, derive_protoroles, sources)["protoroles.train.jsonl"]
    assert roles.counts == {"sentences": 1, "edges": 1}
    (text,) = read_part(read_uds, roles, tmp_path)
    (edge,) = text.edges["spr"]
    assert (edge.labels, edge.span.start, edge.other.start, edge.other.end) == (("sentient",), 1, 3, 5), "the moon"
    senses = derived(shelf, derive_wordsense_factuality, sources)["uds.train.jsonl"]
    assert senses.counts == {"sentences": 1, "nouns": 1, "predicates": 1}
    (text,) = read_part(read_uds, senses, tmp_path)
    assert text.edges["supersense"][0].labels == ("Tops", "object")
    assert text.edges["factuality"][0].value == 1.5


def test_streusle_leaves_out_expressions_with_a_gap(shelf: Path, tmp_path: Path) -> None:
    cells = {
        "had": "1:1 V.LVC.full _ v.social _",
        "a": "_ DET _ _ _",
        "talk": "1:2 _ _ _ _",
        "in": "2:1 P _ p.Time p.Locus",
        "time": "2:2 _ _ _ _",
        "My": "_ PRON.POSS _ `$ `$",
    }
    rows = [
        "\t".join([str(at), word, *"_" * 4, "0" if at == 1 else "1", "root", "_", "_", *cells[word].split(), *"_" * 4])
        for at, word in enumerate(cells, 1)
    ]
    content = "\n".join(["# newdoc id = reviews-7", "# sent_id = reviews-7-0001", *rows, "", ""]).encode()
    files = {f"{split}/streusle.ud_{split}.conllulex": content for split in ("train", "dev", "test")}
    parts = derived(shelf, derive_streusle, {"nert-nlp/streusle": files})
    train = parts["supersenses.train.jsonl"]
    assert train.counts == {"sentences": 1, "tokens": 6, "supersenses": 1}
    assert json.loads(train.content)["exprs"] == [
        [1, 2, "DET", None, None],
        [3, 5, "P", "p.Time", "p.Locus"],
        [5, 6, "PRON.POSS", "`$", None],
    ]
    (from_lines,) = read_part(read_streusle, train, tmp_path)
    (from_release,) = read_part(read_streusle, parts["streusle.ud_train.conllulex"], tmp_path)
    assert {name: from_release.edges[name] for name in from_lines.edges} == from_lines.edges


def test_data_get_shows_licences_first_and_counts_afterwards(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(shelf, FILES)
    absent = Card("absent", "corpus", "made by hand", "CC0", ("b",), 1000, note="Set LAMINA_DATA.", origin="nowhere")
    model = Card("net", "model", "a network", "CC0", ("a",), 1000, origin="nowhere")
    monkeypatch.setattr(assets, "CARDS", (card_of(FILES), absent, model))
    command = CliRunner()
    shown = command.invoke(app, ["data", "get", "demo", "stories", "demo"], catch_exceptions=False).output
    assert shown.splitlines()[:4] == [
        "stories is generated and needs no download",
        "demo  0.0 MB, CC0  (to be fetched)",
        "  a demo",
        f"  from https://github.com/me/mine/tree/{COMMIT}: 2 files, 0.0 MB",
    ]
    assert shown.splitlines()[-2:] == ["  first.txt: 2 lines", "  second.txt: 1 lines"]
    failed = command.invoke(app, ["data", "get", "absent", "demo"])
    assert str(failed.exception) == "1 of 2 corpora could not be fetched: absent"
    assert "demo: " in failed.output, "the others are still fetched"
    for name, said in (
        ("net", "net is a model"),
        ("pipelin", "did you mean pipeline"),
        ("zzz", "suites: pipeline, qa"),
    ):
        refused = command.invoke(app, ["data", "get", name]).exception
        assert isinstance(refused, CorpusError)
        assert said in str(refused)
