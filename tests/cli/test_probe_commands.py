"""`lamina probe`, `trace` and `compare`, from the command line to the files."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from lamina.activations import stores
from lamina.analyses.layers.probe.training import PRESETS
from lamina.cli import main
from lamina.probes.bank import Schedule
from lamina.results import Result as Saved

WORDS = {"the": "DET", "a": "DET", "dog": "NOUN", "cat": "NOUN", "ran": "VERB", "barked": "VERB", "and": "CCONJ"}
SUMMARY = (
    "task,corpus,metric,probe_seeds,tuning_seeds,f1_first,f1_full,center_of_gravity,cog_low,cog_high,expected_layer,el_low,el_high,"
    "kl_mixing,kl_mixing_low,kl_mixing_high,kl_differential,kl_differential_low,kl_differential_high,"
    "selectivity,selectivity_low,selectivity_high,selectivity_layer,selectivity_metric,"
    "twin_expected_layer,twin_el_low,twin_el_high,converged,reason"
)


def conllu(documents: range) -> str:
    """Documents of four sentences, of words drawn at random, each hanging on the one before.

    Whether `ran` is a verb is anyone's guess, so that there is something to be in doubt about.
    """
    lines = []
    for document in documents:
        lines.append(f"# newdoc id = d{document}")
        for sentence in range(4):
            draw = random.Random(10 * document + sentence)
            lines.append(f"# sent_id = d{document}-{sentence}")
            for at, word in enumerate(draw.choices(list(WORDS), k=draw.randint(5, 8)), start=1):
                tag = draw.choice(("VERB", "NOUN")) if word == "ran" else WORDS[word]
                head, relation = (0, "root") if at == 1 else (at - 1, f"of_{tag.lower()}")
                lines.append(f"{at}\t{word}\t{word}\t{tag}\t_\t_\t{head}\t{relation}\t_\t_")
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
    patience = {"halve_after": 1, "stop_after": 2, "min_gain": 0.05, "min_learning_rate": 3e-3}
    rates = {"learning_rate": 1e-2, "mixing_rate": 10.0}
    short = Schedule(**rates, validate_every=5, max_validations=40, **patience, batch_texts=16, hidden=16)
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
    assert re.search(r"│ pos +│ f1 +│ \d\.\d{3} +│ \d\.\d{3} +│ \d\.\d{3} \[\d\.\d{3}, \d\.\d{3}\] │", told)
    scores = pd.read_csv(out / "scores.csv", dtype={"seed": str})
    assert ",".join(scores.columns) == "model,task,probe,of,layer,seed,tuning_seed,split,metric,count,value,low,high"
    assert set(scores["task"]) == {"pos", "dep"}
    assert set(scores["of"]) == {"model", "random", "control"}
    assert set(scores["probe"]) == {"cumulative", "layer", "constant"}
    assert set(scores["seed"]) == {"0", "1", "all"}
    assert scores["value"].between(0, 1).all()
    assert (scores["low"] <= scores["high"]).all()
    assert (out / "summary.csv").read_text().splitlines()[0] == SUMMARY
    assert (out / "mixing.csv").read_text().startswith("task,seed,tuning_seed,upto,layer,weight,gamma,norm\n")
    assert (out / "order.csv").read_text().startswith("task_a,task_b,statistic,difference,low,high,")
    training = pd.read_csv(out / "training.csv")
    assert (training["converged"] | training["overfitted"]).all()
    assert set(training["of"]) == {"model", "random", "control"}
    assert set(pd.read_csv(out / "steps.csv")["probe"]) == {"cumulative", "layer"}
    assert pd.read_parquet(out / "texts.parquet")["corpus"].nunique() == 1
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

    # Not traces, which are of sentences chosen by all tasks together.
    for name in ("scores", "training", "mixing", "summary"):
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
    asked_as_published = ("--probes", "cumulative", "--seeds", 1, "--no-twin", "--faithful", "--schedule", "steps=60")
    output(*asked, *asked_as_published, "--out", tmp_path / "out")

    told = Saved.load(tmp_path / "out").provenance
    assert told.parameters["faithful"] is True
    assert told.model["faithful"] == "layer 0 raw token embeddings with LayerNorm; dropout on, seed 0"
    assert "  pos  dog" in output("trace", tmp_path / "out", "--model", bert, "a dog", "--out", tmp_path / "traced")


def test_a_dry_run_counts_and_stores_nothing(bert, corpus, tmp_path) -> None:
    asked = ("probe", bert, "--corpus", corpus, "--store", tmp_path / "store", "--out", tmp_path / "out", "--dry-run")
    told = output(*asked)

    assert "texts    144" in told
    # Two tasks, each with the model's probes, the control's and the twin's; half of 40 validations of five steps.
    assert "steps    600" in told
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
        ({"--task": "lemma_class"}, "does not carry lemma_class; it carries pos, dep"),
        ({"--schedule": "fast"}, "the schedule 'fast' cannot be read; write NAME=VALUE"),
        ({"--schedule": "validate_every=0"}, "the schedule has validate_every=0; give a whole number above 0"),
        ({"--schedule": "steps=0"}, "steps=0"),
        ({"--schedule": "lr=2"}, "lr=2.0; give a number from 1e-08 to 1"),
        ({"--schedule": "hidden=0"}, "hidden=0"),
        ({"--schedule": "depth=3"}, "the schedule has no 'depth'"),
        ({"--preset": "slow"}, "'slow' is not one of"),
        ({"--metric": "f2"}, "'f2' is not one of"),
        ({"--probes": "mixed"}, "each item one of cumulative, layer, mix or None; got 'mixed'"),
        ({"--probes": "none"}, "name at least one of cumulative, layer, mix"),
        ({"--split": "train"}, "'train' is not one of 'dev', 'test'"),
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

    told = capsys.readouterr().err.removeprefix("lamina: starting probe\n")
    # What is left out of a folder is named first.
    told = re.sub(r"^lamina: not read: .*\n", "", told)
    assert stopped.value.code == 2
    assert why in told
    assert "Traceback" not in told
    if not told.startswith("Usage: "):
        assert told.startswith("lamina: ")
        assert told.count("\n") == 1
    assert not Path("out").exists()


def edge_jsonl(folder: Path, label: str) -> Path:
    """A corpus of spans; `label` may say the word, its number in the text and the text's."""
    folder.mkdir()
    for split, documents in (("train", range(30)), ("dev", range(40, 46))):
        lines = []
        for number in documents:
            words = random.Random(number).choices(list(WORDS), k=6)
            targets = [
                {"span1": [at, at + 1], "label": label.format(word=WORDS[word], at=at, text=number)}
                for at, word in enumerate(words)
            ]
            lines.append(json.dumps({"text": " ".join(words), "targets": targets, "info": {"doc": f"d{number // 2}"}}))
        (folder / f"mine-{split}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_targets_of_edge_jsonl_are_a_task_by_any_name(bert, tmp_path) -> None:
    own = edge_jsonl(tmp_path / "spans", "{word}")
    asked = ("probe", bert, "--corpus", own, "--store", tmp_path / "store", "--samples", 20, "--seeds", 1, "--no-twin")
    output(*asked, "--probes", "cumulative", "--out", tmp_path / "edges")
    output(*asked, "--probes", "cumulative", "--annotation", "kind", "--task", "kind", "--out", tmp_path / "kind")

    one, other = (pd.read_csv(tmp_path / name / "scores.csv") for name in ("edges", "kind"))
    assert (set(one["task"]), set(other["task"])) == ({"edges"}, {"kind"})
    assert one["value"].tolist() == other["value"].tolist()
    assert one["metric"].unique().tolist() == ["f1", "accuracy"]


@pytest.mark.parametrize(
    ("label", "task", "why"),
    [
        ("yes", "edges", "every training target of .* has the label 'yes'; there is nothing to learn; leave it out"),
        ("{text}-{at}", "edges", "the labels of edges name single things"),
        ("{word}", "chains", "the labels of chains name single things"),
        ("{word}", "sentence", "the labels of sentence name single things"),
        ("{word}", "factuality", "does not carry factuality"),
    ],
)
def test_what_is_no_task_is_answered_in_words(label, task, why, bert, tmp_path, monkeypatch, capsys) -> None:
    own = edge_jsonl(tmp_path / "own", label)
    named = ["--annotation", task] if task in ("chains", "sentence") else []
    asked = ["probe", bert, "--corpus", own, *named, "--task", task, "--store", tmp_path / "store"]
    monkeypatch.setattr(sys, "argv", ["lamina", *map(str, asked), "--out", str(tmp_path / "out")])

    with pytest.raises(SystemExit) as stopped:
        main.main()

    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("lamina: ")]
    assert stopped.value.code == 2
    assert told[0] == "lamina: starting probe"
    assert re.search(why, told[1])
    assert len(told) == 2
    assert not (tmp_path / "out").exists()


def test_amounts_reach_the_run_and_what_has_not_converged_is_n_a(bert, corpus, tmp_path) -> None:
    asked = ("probe", bert, "--corpus", corpus, "--store", tmp_path / "store", "--samples", 20)
    # The paper's patience is longer than these steps, so that none can converge.
    amounts = ("--preset", "paper", "--schedule", "steps=20,batch=4,lr=1e-3,hidden=12,train_texts=60,stop_texts=9")
    told = output(*asked, *amounts, "--seeds", 1, "--no-twin", "--out", tmp_path / "out")

    assert re.search(r"pos: .*the probe of P\(0\) and 2 others had not converged after 20 steps", told)
    assert re.search(r"│ pos +│ f1 +│ \d\.\d{3} │ \d\.\d{3} │ - +│ - +│ - +│", told)
    names = ("summary", "training", "order")
    summary, training, order = (pd.read_csv(tmp_path / "out" / f"{name}.csv") for name in names)
    assert not summary["converged"].any()
    assert summary[["center_of_gravity", "expected_layer", "selectivity"]].isna().all(axis=None)
    assert set(training["steps"]) == {20}
    assert order["p_adjusted"].isna().all()
    assert order["reason"].str.contains("had not converged").all()
    saved = Saved.load(tmp_path / "out").provenance
    settings = {"steps": 20, "batch": 4, "lr": 1e-3, "train_texts": 60, "stop_texts": 9, "seeds": 1, "hidden": 12}
    assert settings.items() <= saved.parameters.items()


def test_fields_of_a_schedule_are_given_by_name(bert, corpus, tmp_path) -> None:
    schedule = "learning_rate=1e-3,validate_every=2,max_validations=3,hidden=8"
    asked = ("probe", bert, "--corpus", corpus, "--store", tmp_path / "store", "--samples", 20, "--task", "pos")
    output(*asked, "--schedule", schedule, "--seeds", 1, "--no-twin", "--probes", "layer", "--out", tmp_path / "out")

    assert set(pd.read_csv(tmp_path / "out" / "training.csv")["steps"]) == {6}
    parameters = Saved.load(tmp_path / "out").provenance.parameters
    assert parameters["schedule"] == {"learning_rate": 1e-3, "validate_every": 2, "max_validations": 3}
    assert parameters["hidden"] == 8


def test_ambiguous_sentences_are_shown_and_drawn(probed, tmp_path) -> None:
    out, _, _ = probed
    told = output("trace", out, "--out", tmp_path / "figure")

    traces = pd.read_csv(out / "traces.csv", dtype={"span1": str})
    assert "probabilities by layer, 0 to 2; probes of seed 0; * gold\n" in told, told
    assert told.splitlines()[-1] == str(tmp_path / "figure")
    assert re.search(r"\d+ of \d+ targets have another strongest label", told)
    shown = re.findall(r"^   [* ]\w+ +([▁▂▃▄▅▆▇█]{3})  \d\.\d\d to \d\.\d\d$", told, flags=re.MULTILINE)
    assert len(shown) == (traces["seed"] == 0).sum() / 3
    assert re.search(r"^0:\w+ 1:\w+", told, flags=re.MULTILINE)
    assert (tmp_path / "figure" / "traces.svg").exists()


def test_a_scored_text_is_traced_by_its_id(probed, tmp_path) -> None:
    out, _, _ = probed
    output("trace", out, "--text", "d40-1", "--out", tmp_path / "figure")

    words = pd.read_csv(tmp_path / "figure" / "words.csv")["word"].tolist()
    traces = pd.read_csv(tmp_path / "figure" / "traces.csv")
    assert set(traces["task"]) == {"pos", "dep"}
    assert set(traces["seed"]) == {0, 1}
    gold = traces[(traces["task"] == "pos") & traces["gold"] & (traces["seed"] == 0) & (traces["layer"] == 0)]
    assert gold["label"].tolist() == [WORDS[word] for word in words]
    saved = pd.read_parquet(out / "pos.predictions.parquet")
    first = saved[(saved["text_id"] == "d40-1") & (saved["probe"] == "cumulative") & (saved["start1"] == 0)]
    told = traces[(traces["task"] == "pos") & traces["gold"] & (traces["span1"] == "0:1")]
    for row in told.itertuples():
        (said,) = first.loc[(first["seed"] == row.seed) & (first["layer"] == row.layer), "probabilities"]
        assert min(abs(said - row.probability)) < 1e-4


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

    told = capsys.readouterr().err.removeprefix("lamina: starting trace\n")
    assert why in told
    assert told.startswith("lamina: ")
    assert told.count("\n") == 1


def test_results_are_compared(probed, tmp_path) -> None:
    out, _, _ = probed
    told = output("compare", out, out, out, "--out", tmp_path / "all", "--samples", 200)
    assert "clear " not in told

    assert told.splitlines()[-1] == str(tmp_path / "all")
    assert "Differences of the full probes, paired by" in told
    apart = pd.read_csv(tmp_path / "all" / "differences.csv")
    assert apart["task"].unique().tolist() == ["pos", "dep"]
    assert (apart["difference"].dropna() == 0).all()
    assert not (apart["p_adjusted"] < 0.05).any()
    assert len(apart[apart["statistic"] == "score_full"]) == 2 * 3
    depth = pd.read_csv(tmp_path / "all" / "depth.csv")
    assert sorted(depth["relative_depth"].unique()) == [0, 0.5, 1]
    saved = Saved.load(tmp_path / "all").provenance
    assert len(saved.model["models"]) == 3
    assert saved.skipped == {}


def other_texts(out: Path, folder: Path) -> Path:
    """The same result as if it were of other texts: its predictions name others."""
    probed, files = Saved.load(out), {}
    for name, path in probed.files.items():
        files[name] = path
        if name.endswith(".predictions.parquet"):
            files[name] = folder / name
            table = pq.read_table(path)
            ids = pa.array([f"other {each}" for each in table["text_id"].to_pylist()])
            pq.write_table(table.set_column(table.schema.get_field_index("text_id"), "text_id", ids), files[name])
    corpus = {**probed.provenance.corpus, "name": "other", "fingerprint": "other"}
    changed = replace(probed, files=files, provenance=replace(probed.provenance, corpus=corpus), recorded_question="")
    return changed.save(folder / "other-texts", charts=False)


def test_what_cannot_be_compared_is_told(probed, bert, corpus, tmp_path, monkeypatch, capsys) -> None:
    out, _, _ = probed
    other = tmp_path / "geometry"
    output("geometry", bert, "--corpus", corpus, "--out", other, "--store", tmp_path, "--samples", 2, "--min-count", 2)
    for folders, code, why in (
        ([out, other], 2, "results of probe and geometry cannot be compared with each other"),
        ([out, tmp_path / "nothing"], 2, "is not a result folder"),
        ([out, other_texts(out, tmp_path)], 2, "was scored on the same texts by the same metric"),
    ):
        monkeypatch.setattr(sys, "argv", ["lamina", "compare", *map(str, folders), "--out", str(tmp_path / "both")])
        with pytest.raises(SystemExit) as stopped:
            main.main()
        assert stopped.value.code == code
        assert why in capsys.readouterr().err
    assert not (tmp_path / "both").exists()
