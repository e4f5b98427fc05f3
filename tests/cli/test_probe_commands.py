"""`lamina probe`, `trace` and `compare`, from the command line to the files."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from lamina.activations import stores
from lamina.analyses.probing.running import PRESETS
from lamina.cli import main
from lamina.probes.bank import Schedule
from lamina.results import Result as Saved

WORDS = {"the": "DET", "a": "DET", "dog": "NOUN", "cat": "NOUN", "ran": "VERB", "barked": "VERB", "and": "CCONJ"}
SUMMARY = (
    "task,f1_first,f1_full,center_of_gravity,cog_low,cog_high,expected_layer,el_low,el_high,"
    "kl_mixing,kl_differential,selectivity"
)


def conllu(documents: range) -> str:
    """Documents of four sentences, of words drawn at random, each hanging on the one before."""
    lines = []
    for document in documents:
        lines.append(f"# newdoc id = d{document}")
        for sentence in range(4):
            draw = random.Random(10 * document + sentence)
            lines.append(f"# sent_id = d{document}-{sentence}")
            for at, word in enumerate(draw.choices(list(WORDS), k=draw.randint(5, 8)), start=1):
                head, relation = (0, "root") if at == 1 else (at - 1, f"of_{WORDS[word].lower()}")
                lines.append(f"{at}\t{word}\t{word}\t{WORDS[word]}\t_\t_\t{head}\t{relation}\t_\t_")
            lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora") / "own"
    folder.mkdir()
    (folder / "own-train.conllu").write_text(conllu(range(30)))
    (folder / "own-dev.conllu").write_text(conllu(range(40, 46)))
    (folder / "own-test.conllu").write_text(conllu(range(50, 54)))
    return folder


@pytest.fixture(scope="module", autouse=True)
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kept runs in a cache of our own, and a preset that is over at once."""
    short = Schedule(learning_rate=3e-3, validate_every=3, max_validations=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMINA_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setitem(PRESETS, "quick", replace(PRESETS["quick"], schedule=short, small=short))
        yield


def run(*args: object) -> Result:
    return CliRunner(env={"COLUMNS": "220"}).invoke(main.app, [str(arg) for arg in args])


def output(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


@pytest.fixture(scope="module")
def probed(bert: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, tuple[object, ...]]:
    """A saved result, what was printed, and the command."""
    root = tmp_path_factory.mktemp("probed")
    asked = ("probe", bert, "--corpus", corpus, "--out", root / "out", "--store", root / "store", "--samples", 50)
    return root / "out", output(*asked), asked


def test_probing_writes_its_tables_predictions_probes_and_charts(probed) -> None:
    out, told, _ = probed

    assert told.splitlines()[-1] == str(out)
    assert "tinybert on" in told
    assert re.search(r"│ pos +│ \d\.\d{3} +│ \d\.\d{3} +│ \d\.\d{3} \[\d\.\d{3}, \d\.\d{3}\] │", told)
    scores = pd.read_csv(out / "scores.csv", dtype={"seed": str})
    assert ",".join(scores.columns) == "model,task,probe,of,layer,seed,split,metric,count,value,low,high"
    assert set(scores["task"]) == {"pos", "dep"}
    assert set(scores["of"]) == {"model", "random", "control"}
    assert set(scores["probe"]) == {"cumulative", "layer", "constant"}
    assert set(scores["seed"]) == {"0", "1", "all"}
    assert scores["value"].between(0, 1).all()
    assert (scores["low"] <= scores["high"]).all()
    assert (out / "summary.csv").read_text().splitlines()[0] == SUMMARY
    assert (out / "mixing.csv").read_text().startswith("task,seed,upto,layer,weight,gamma,norm\n")
    assert (out / "order.csv").read_text().startswith("task_a,task_b,statistic,probability\n")
    assert (out / "traces.csv").read_text().startswith("text_id,task,seed,span1,span2,label,gold,layer,probability\n")
    for task in ("pos", "dep"):
        assert len(pd.read_parquet(out / f"{task}.predictions.parquet"))
        assert {path.name for path in out.glob(f"{task}-*.safetensors")} == {f"{task}-{n}.safetensors" for n in (0, 1)}
    assert list(out.glob("*.svg"))


def test_asking_again_answers_from_the_folder(probed) -> None:
    out, told, asked = probed
    made = (out / "result.json").stat().st_mtime_ns

    assert output(*asked) == told
    assert (out / "result.json").stat().st_mtime_ns == made


def test_a_run_is_repeated_to_the_last_digit(probed, bert, corpus, tmp_path, monkeypatch) -> None:
    out, _, _ = probed
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    asked = ("probe", bert, "--corpus", corpus, "--store", tmp_path / "store", "--samples", 50)
    output(*asked, "--task", "pos", "--out", tmp_path / "again")

    for name in ("scores", "mixing", "summary", "traces"):
        lines = (out / f"{name}.csv").read_text().splitlines()
        own = [line for line in lines if re.match(r"(\S+,)?(task|pos),", line)]
        assert len(own) > 1
        assert (tmp_path / "again" / f"{name}.csv").read_text().splitlines() == own


def test_options_reach_the_run(bert, corpus, tmp_path) -> None:
    asked = ("probe", bert, "--corpus", corpus, "--store", tmp_path / "store", "--samples", 20, "--split", "test")
    output(*asked, "--task", "pos", "--probes", "mix", "--seeds", 1, "--no-twin", "--out", tmp_path / "out")

    scores = pd.read_csv(tmp_path / "out" / "scores.csv", dtype={"seed": str})
    assert set(scores["task"]) == {"pos"}
    assert set(scores["split"]) == {"test"}
    assert set(scores["of"]) == {"model", "control"}
    assert set(scores["seed"]) == {"0", "all"}
    assert set(scores.loc[scores["probe"] == "cumulative", "layer"]) == {2}


def test_faithful_probes_see_the_model_as_the_paper_s_code_had_it(bert, corpus, tmp_path) -> None:
    asked = ("probe", bert, "--corpus", corpus, "--store", tmp_path / "store", "--samples", 20, "--task", "pos")
    output(*asked, "--probes", "cumulative", "--seeds", 1, "--no-twin", "--faithful", "--out", tmp_path / "out")

    told = Saved.load(tmp_path / "out").provenance
    assert told.parameters["faithful"] is True
    assert told.model["faithful"] == "layer 0 raw piece embeddings with LayerNorm; dropout on, seed 0"
    assert "  pos  dog" in output("trace", tmp_path / "out", "--model", bert, "a dog", "--out", tmp_path / "traced")


def test_a_dry_run_counts_and_stores_nothing(bert, corpus, tmp_path) -> None:
    asked = ("probe", bert, "--corpus", corpus, "--store", tmp_path / "store", "--out", tmp_path / "out", "--dry-run")
    told = output(*asked)

    assert "texts    144" in told
    # Two tasks, on the model and on its twin, two validations of three steps.
    assert "steps    24" in told
    assert re.search(r"time     about \d+ s on this machine", told)
    assert re.search(r"disk     about \d+ MB", told)
    assert not (tmp_path / "out").exists()
    assert all(not store.shards for store in stores(tmp_path / "store"))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"model": "no/such-model"}, "there is no model 'no/such-model'"),
        ({"--task": "srl"}, "does not carry srl; it carries pos, dep"),
        ({"--task": "poss"}, "did you mean pos?"),
        ({"--preset": "slow"}, "'slow' is not one of"),
        ({"--metric": "f2"}, "'f2' is not one of"),
        ({"--probes": "mixed"}, "each item one of cumulative, layer, mix; got 'mixed'"),
        ({"--probes": "none"}, "name at least one of cumulative, layer, mix"),
        ({"--split": "train"}, "dev or test"),
        ({"--split": "validation"}, "validation"),
        ({"--limit": "3"}, "give more documents"),
        ({"--corpus": "empty"}, "empty"),
        ({"--seeds": "0"}, "seeds"),
    ],
    ids=str,
)
def test_a_mistake_is_answered_in_words(changed, why, bert, corpus, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "own-train.conllu").write_text(conllu(range(9)))
    (empty / "own-dev.conllu").write_text("")
    given = {"model": str(bert), "--corpus": str(corpus), "--store": "store", "--out": "out"} | changed
    options = [part for name, value in given.items() if name != "model" for part in (name, value)]
    monkeypatch.setattr(sys, "argv", ["lamina", "probe", given["model"], *options])

    with pytest.raises(SystemExit) as stopped:
        main.main()

    told = capsys.readouterr().err
    assert stopped.value.code == 2
    assert why in told
    assert "Traceback" not in told
    if not told.startswith("Usage: "):
        assert told.startswith("lamina: ")
        assert told.count("\n") == 1
    assert not Path("out").exists()


def test_ambiguous_sentences_are_shown_and_drawn(probed, tmp_path) -> None:
    out, _, _ = probed
    told = output("trace", out, "--out", tmp_path / "figure")

    traces = pd.read_csv(out / "traces.csv", dtype={"span1": str})
    assert told.startswith("probabilities by layer, 0 to 2; probes of seed 0; * gold\n")
    assert told.splitlines()[-1] == str(tmp_path / "figure")
    assert re.search(r"^open   \d+ of \d+ targets have another strongest label", told, flags=re.MULTILINE)
    shown = re.findall(r"^   [* ]\w+ +([▁▂▃▄▅▆▇█]{3})  \d\.\d\d to \d\.\d\d$", told, flags=re.MULTILINE)
    assert len(shown) == (traces["seed"] == 0).sum() / 3
    assert re.search(r"^0:\w+ 1:\w+", told, flags=re.MULTILINE)
    assert (tmp_path / "figure" / "traces.svg").exists()


def test_a_typed_sentence_is_traced(probed, bert, tmp_path) -> None:
    out, _, _ = probed
    told = output("trace", out, "--model", bert, "The dog ran.", "--mark", "dep:1:0", "--out", tmp_path / "figure")

    assert "0:The 1:dog 2:ran 3:." in told
    assert [line.split() for line in told.splitlines() if re.match(r"  pos", line)] == [
        ["pos", word] for word in ("The", "dog", "ran", ".")
    ]
    assert "  dep  dog + The" in told
    assert (tmp_path / "figure" / "traces.csv").exists()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (["a dog"], "name the model that was probed with --model"),
        (["--model", "BERT", " "], "the sentence has no words"),
        (["--mark", "dep:1:0"], "give one, in quotes"),
        (["--model", "BERT", "a dog", "--mark", "dep"], "the mark 'dep' cannot be read"),
        (["--model", "BERT", "a dog", "--mark", "dep:1-"], "cannot be read"),
        (["--model", "BERT", "a dog", "--mark", "dep:1:0:1"], "cannot be read"),
        (["--model", "BERT", "a dog", "--mark", "ner:1-0"], "cannot be read"),
        (["--model", "BERT", "a dog", "--mark", "ner:0-1"], "there are no probes of 'ner'"),
        (["--model", "BERT", "a dog", "--mark", "dep:1"], "dep asks about a pair of spans"),
        (["--model", "BERT", "a dog", "--mark", "dep:1:5"], "outside its 2 words"),
    ],
    ids=str,
)
def test_a_trace_that_cannot_be_is_told(asked, why, probed, bert, monkeypatch, capsys) -> None:
    out, _, _ = probed
    monkeypatch.setattr(sys, "argv", ["lamina", "trace", str(out), *(str(bert) if a == "BERT" else a for a in asked)])

    with pytest.raises(SystemExit, match="2"):
        main.main()

    told = capsys.readouterr().err
    assert why in told
    assert told.startswith("lamina: ")
    assert told.count("\n") == 1


def test_two_results_are_compared(probed, tmp_path) -> None:
    out, _, _ = probed
    told = output("compare", out, out, "--out", tmp_path / "both")
    assert "Neither model is clearly better" in told

    assert told.splitlines()[-1] == str(tmp_path / "both")
    assert re.search(r"│ pos +│ f1_full +│ \d\.\d{3} \[.+\] │ .+ │ 0\.000 \[-\d\.\d{3}, \d\.\d{3}\] │", told)
    table = pd.read_csv(tmp_path / "both" / "compare.csv")
    assert table["task"].unique().tolist() == ["pos", "dep"]
    assert (table["difference"].dropna() == 0).all()
    depth = pd.read_csv(tmp_path / "both" / "depth.csv")
    assert sorted(depth["relative_depth"].unique()) == [0, 0.5, 1]


def test_what_cannot_be_compared_is_told(probed, bert, corpus, tmp_path, monkeypatch, capsys) -> None:
    out, _, _ = probed
    other = tmp_path / "geometry"
    output("geometry", bert, "--corpus", corpus, "--out", other, "--store", tmp_path, "--samples", 2, "--min-count", 2)
    for folders, code, why in (
        ([out, other], 2, "is a 'geometry' result"),
        ([out, tmp_path / "nothing"], 2, "is not a result folder"),
    ):
        monkeypatch.setattr(sys, "argv", ["lamina", "compare", *map(str, folders), "--out", str(tmp_path / "both")])
        with pytest.raises(SystemExit) as stopped:
            main.main()
        assert stopped.value.code == code
        assert why in capsys.readouterr().err
    assert not (tmp_path / "both").exists()
