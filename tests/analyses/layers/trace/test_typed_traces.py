"""A sentence somebody types, seen through saved probes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from lamina.activations import extract
from lamina.analyses.layers.probe.predictions import TraceRow
from lamina.analyses.layers.trace import MarkedTarget, SentenceTracer, over_seeds, trace
from lamina.corpora import corpus_from
from lamina.errors import InputError, ModelError, ResultError, SpanError, TaskError
from lamina.figures import draw, to_svg
from lamina.probes.edge import EdgeProbes, LayerCut, SavedEdgeProbes, predict, save_probes
from lamina.probes.streams import Standard, Stream, find_targets
from lamina.results import Provenance, Result
from lamina.tasks import Task
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text

WORDS = ["the", "unhesitating", "dogs", "barked"]
TAGS = ("DET", "NOUN", "VERB")
RELATIONS = ("nsubj", "obj")
CUMULATIVE = [LayerCut("cumulative", layer) for layer in range(3)]


@pytest.fixture
def saved(tmp_path):
    """Saves untrained probes of the tiny encoder as the folder of a probing result."""

    def save(tasks=("pos", "dep"), cuts=None, seeds=1, parameters=None, standard=None, graded=()):
        files = {}
        for task in tasks:
            labels, arity = (TAGS, 1) if task == "pos" else (RELATIONS, 2)
            for seed in range(seeds):
                shape = {"layers": 3, "width": 16, "labels": len(labels), "arity": arity}
                probes = EdgeProbes(cuts or CUMULATIVE, **shape, seed=seed)
                path = tmp_path / f"{task}-{seed}.safetensors"
                about = {"task": task, "labels": labels, "encoder": TinyEncoder().fingerprint}
                save_probes(path, probes, **about, standard=standard, graded=task in graded)
                files[path.name] = path
        provenance = Provenance(TinyEncoder().describe(), {"name": "c", "fingerprint": "g"}, parameters or {})
        return Result("probe", {}, provenance, files).save(tmp_path / "probe")

    return save


def test_part_of_speech_is_traced_for_every_word_unasked(saved):
    table = trace(saved(), WORDS, model=TinyEncoder()).tables["traces"]
    assert set(table["task"]) == {"pos"}
    assert table["span1"].unique().tolist() == ["0:1", "1:2", "2:3", "3:4"]
    assert set(table["layer"]) == {0, 1, 2}
    assert table["gold"].isna().all()
    # Nobody knows the right label, so the two strongest are shown.
    assert (table.groupby("span1")["label"].nunique() == 2).all()


def test_the_probabilities_are_those_of_the_probe_by_hand(saved):
    table = trace(saved(), WORDS, model=TinyEncoder()).tables["traces"]
    states = next(TinyEncoder().encode([Text("t", tuple(WORDS))])).states
    assert states is not None
    probes = EdgeProbes(CUMULATIVE, layers=3, width=16, labels=3, arity=1, seed=0)
    dogs = states[6:8].half().float()  # [CLS] the unh esi tat ing | dog s; kept in half precision or not
    for layer in range(3):
        mixed = dogs[:, : layer + 1].mean(1)
        hidden = mixed @ probes.project[layer] + probes.project_bias[layer]
        share = (hidden @ probes.attend[layer, 0]).softmax(0)
        pooled = (share * hidden).sum(0)
        inner = torch.tanh(pooled @ probes.inner[layer] + probes.inner_bias[layer, 0])
        logits = torch.nn.functional.layer_norm(inner, (256,)) @ probes.outer[layer] + probes.outer_bias[layer, 0]
        for label, expected in zip(TAGS, logits.sigmoid().tolist(), strict=True):
            rows = table[(table["span1"] == "2:3") & (table["layer"] == layer) & (table["label"] == label)]
            assert rows["probability"].tolist() in ([], [pytest.approx(expected, abs=2e-3)])


@pytest.mark.parametrize("standard", [None, Standard(torch.full((3, 16), 0.5), torch.full((3, 16), 2.0))])
def test_the_probabilities_are_those_of_a_store(saved, standard, tmp_path):
    cuts = [*CUMULATIVE, *(LayerCut("layer", layer) for layer in range(3))]
    folder = saved(cuts=cuts, seeds=2, standard=standard)
    tracer = SentenceTracer(TinyEncoder(), folder)
    text = Text("t", tuple(WORDS), edges={"pos": tuple(Edge((), Span(at, at + 1)) for at in range(4))})
    stored = extract(TinyEncoder(), corpus_from([text], name="one"), root=tmp_path / "store")
    for told in tracer.beliefs(WORDS):
        whole = SavedEdgeProbes(folder / f"pos-{told.seed}.safetensors")
        found = find_targets(Task("pos", "", "pos", 1), [text], [stored[0].tokens], TAGS)
        (batch,) = Stream(stored, found, standard=standard).in_order()
        # Members that read one layer alone stand behind the cumulative ones, and are not asked.
        expected = predict(whole, batch)[:3].numpy()
        # A stack of six members against one of three: other shapes, so the rounding differs.
        np.testing.assert_allclose(told.probabilities, expected, atol=1e-5, rtol=0)


def test_a_tracer_is_asked_again_and_again(saved):
    tracer = SentenceTracer(TinyEncoder(), saved(seeds=2))
    assert {name: (task.arity, task.labels) for name, task in tracer.tasks.items()} == {
        "pos": (1, TAGS),
        "dep": (2, RELATIONS),
    }
    assert tracer.seeds == (0, 1)
    marked = [MarkedTarget("dep", Span(0, 1), Span(1, 2))]
    first, _, again = tracer.beliefs(WORDS, marked), tracer.beliefs(["Yes"]), tracer.beliefs(WORDS, marked)
    assert [(told.task, told.seed) for told in first] == [("pos", 0), ("pos", 1), ("dep", 0), ("dep", 1)]
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one.probabilities, other.probabilities)
    pos, dep = over_seeds(first)
    assert pos.probabilities.shape == (3, 4, 3)
    assert np.allclose(pos.probabilities, (first[0].probabilities + first[1].probabilities) / 2)
    assert dep.words.tolist() == [[[0, 1], [1, 2]]]


def test_probes_of_a_graded_task_have_no_labels_to_trace(saved):
    tracer = SentenceTracer(TinyEncoder(), saved(graded=("dep",)))
    assert list(tracer.tasks) == ["pos"]
    with pytest.raises(TaskError, match="no probes of 'dep' here; there are: pos"):
        tracer.beliefs(WORDS, [MarkedTarget("dep", Span(0, 1), Span(1, 2))])


def test_a_tracer_without_anything_to_ask_says_nothing(saved):
    assert SentenceTracer(TinyEncoder(), saved(tasks=("dep",))).beliefs(WORDS) == []


@pytest.mark.usefixtures("drawn_charts")
def test_marked_pairs_are_traced_and_drawn(saved):
    result = trace(saved(), WORDS, model=TinyEncoder(), marks=["dep:1-2:3"])
    table = result.tables["traces"]
    dep = table[table["task"] == "dep"]
    assert set(zip(dep["span1"], dep["span2"], strict=True)) == {("1:3", "3:4")}
    assert set(dep["label"]) == set(RELATIONS)
    assert result.provenance.parameters["marks"] == ["dep:1-2:3"]
    assert result.provenance.corpus["words"] == WORDS
    chart = draw(result)["traces"]
    (block,) = chart.to_dict()["concat"]
    assert len(block["concat"]) == 5
    svg = to_svg(chart)
    assert "tiny on a typed sentence" in svg
    assert "strongest label" in svg
    assert "unhesitating dogs + barked" in svg


def test_a_trace_is_saved_and_read_back(saved, tmp_path):
    result = trace(saved(), WORDS, model=TinyEncoder())
    again = Result.load(result.save(tmp_path / "trace"))
    assert again.tables["words"]["word"].tolist() == WORDS
    assert draw(again)["traces"].to_dict()["description"] == draw(result)["traces"].to_dict()["description"]


def test_every_seed_is_traced(saved):
    result = trace(saved(seeds=2), WORDS, model=TinyEncoder())
    assert set(result.tables["traces"]["seed"]) == {0, 1}
    assert result.provenance.seeds == (0, 1)


def test_probes_of_another_model_are_refused(saved):
    with pytest.raises(ModelError, match="trained on tiny with other weights or settings"):
        trace(saved(), WORDS, model=TinyEncoder(seed=1))


def test_faithful_probes_ask_for_the_piece_embeddings(saved):
    with pytest.raises(ModelError, match="no token embeddings"):
        trace(saved(parameters={"faithful": True}), WORDS, model=TinyEncoder())


@pytest.mark.parametrize(
    ("mark", "error", "said"),
    [
        ("ner:0", TaskError, "no probes of 'ner' here; there are: pos, dep"),
        ("dep:0", SpanError, "dep asks about a pair of spans"),
        ("pos:0:1", SpanError, "pos asks about one span"),
        ("dep:0:3-8", SpanError, "outside its 4 words"),
        ("dep", InputError, "the mark 'dep' cannot be read; write TASK:SPAN"),
        ("dep:1-:2", InputError, "cannot be read"),
    ],
)
def test_wrong_marks_are_refused(saved, mark, error, said):
    with pytest.raises(error, match=said):
        trace(saved(), WORDS, model=TinyEncoder(), marks=[mark])


def test_without_part_of_speech_something_must_be_marked(saved):
    with pytest.raises(InputError, match=r"mark the spans to trace \(--mark\); there are probes of: dep"):
        trace(saved(tasks=("dep",)), WORDS, model=TinyEncoder())


def test_an_empty_sentence_is_refused(saved):
    with pytest.raises(InputError, match="has no words"):
        trace(saved(), [], model=TinyEncoder())


@pytest.mark.parametrize("cuts", [[LayerCut("cumulative", 2)], [LayerCut("layer", layer) for layer in range(3)]])
def test_probes_without_all_cuts_cannot_trace(saved, cuts):
    with pytest.raises(ResultError, match=r"no probes P\(0\)\.\.P\(L\)"):
        trace(saved(cuts=cuts), WORDS, model=TinyEncoder())


def test_other_results_cannot_trace(tmp_path):
    provenance = Provenance({"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}, {})
    folder = Result("counting", {}, provenance).save(tmp_path / "other")
    with pytest.raises(ResultError, match="a 'counting' result has no probes; name a folder"):
        trace(folder, WORDS, model=TinyEncoder())


def test_a_sentence_and_its_model_belong_together(saved):
    folder = saved()
    with pytest.raises(InputError, match="name the model that was probed with --model"):
        trace(folder, "the dogs barked")
    for given in ({"model": TinyEncoder()}, {"marks": ["pos:1"]}):
        with pytest.raises(InputError, match="for a sentence of your own; give one"):
            trace(folder, **given)


def test_a_sentence_is_split_as_anything_typed(saved):
    result = trace(Result.load(saved()), "the unhesitating dogs barked.", model=TinyEncoder())
    assert result.tables["words"]["word"].tolist() == [*WORDS, "."]


def kept(tables: dict[str, pd.DataFrame], corpus: str = "ewt") -> Result:
    """A probing result with what it kept of ambiguous sentences."""
    about = {"name": "tiny", "fingerprint": "f"}, {"name": corpus, "split": "dev", "fingerprint": corpus}
    return Result("probe", tables, Provenance(*about, {}, (0, 7)))


def rows(span: str, task: str, gold: list[float], wrong: list[float]) -> list[tuple]:
    return [
        ("s1", task, 0, span, "", label, holds, layer, probability)
        for label, holds, series in (("RIGHT", True, gold), ("WRONG", False, wrong))
        for layer, probability in enumerate(series)
    ]


def found(*targets: list[tuple]) -> Result:
    traces = pd.DataFrame([row for each in targets for row in each], columns=list(TraceRow._fields))
    words = pd.DataFrame({"text_id": ["s1"] * 2, "position": [0, 1], "word": ["dogs", "bark"]})
    return trace(kept({"traces": traces, "words": words}))


def test_without_a_sentence_it_is_what_probing_kept():
    result = found(rows("0:1", "pos", [0.2, 0.9], [0.7, 0.3]), rows("1:2", "pos", [0.6, 0.9], [0.5, 0.1]))
    assert list(result.tables["traces"].columns) == list(TraceRow._fields)
    assert (result.provenance.corpus["name"], result.provenance.corpus["split"]) == ("ewt", "dev")
    assert result.provenance.seeds == (0, 7)
    assert list(trace.overview(result)) == [
        "probabilities by layer, 0 to 1; probes of seed 0; * gold",
        "1 of 2 targets have another strongest label at layer 1 than at layer 0",
        "",
        "0:dogs 1:bark",
        "  pos  dogs",
        "   *RIGHT  ▂█  0.20 to 0.90",
        "    WRONG  ▆▃  0.70 to 0.30",
        "  pos  bark",
        "   *RIGHT  ▅█  0.60 to 0.90",
        "    WRONG  ▅▁  0.50 to 0.10",
    ]
    assert "traces" in draw(result)
    nothing = pd.DataFrame(columns=list(TraceRow._fields))
    for tables in ({}, {"traces": nothing}):
        with pytest.raises(InputError, match="the result has no traces"):
            trace(kept(tables))


def test_another_probing_of_the_same_model_is_another_question(tmp_path):
    traces = pd.DataFrame(rows("0:1", "pos", [0.2, 0.9], [0.7, 0.3]), columns=list(TraceRow._fields))
    one, other = (trace.ask(kept({"traces": traces}, corpus)).question for corpus in ("ewt", "gum"))
    assert one != other


def test_single_sentences_are_shown_and_nothing_is_claimed_of_them():
    result = found(rows("0:1", "pos", [0.2, 0.9], [0.7, 0.3]), rows("1:2", "pos", [0.6, 0.9], [0.5, 0.1]))
    assert result.findings == ()
    assert "1 of 2 targets have another strongest label at layer 1 than at layer 0" in list(trace.overview(result))


def test_findings_say_nothing_without_traces():
    empty = {"traces": pd.DataFrame(columns=list(TraceRow._fields))}
    assert trace.findings(Result("trace", empty, Provenance({}, {}, {}))) == ()
