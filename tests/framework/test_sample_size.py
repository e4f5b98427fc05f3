"""Small samples warn: in the result, in captions and in findings; large ones do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pandas as pd
import pytest

import lamina
from lamina import Edge, Result, Span, Splits, Text, corpus_from
from lamina.analyses.cause.effects import CauseInputs
from lamina.analyses.heads.heads import BEST
from lamina.figures import captions_for
from lamina.framework.registry import get_analysis
from lamina.framework.sample_size import LEAST_DOCUMENTS, LEAST_TARGETS, Sample, sample_of
from lamina.results import Provenance
from lamina.results.finding import Finding
from lamina.targets.choice import TargetData
from lamina.testing import TinyEncoder


def texts(count: int, documents: int | None = None) -> list[Text]:
    dep = (Edge("nsubj", Span(0, 1), Span(1, 2)), Edge("root", Span(1, 2), Span(1, 2)))
    return [
        Text(f"t{n}", (f"w{n}", "ran", "."), edges={"dep": dep}, doc=f"d{n % documents}" if documents else None)
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("count", "documents", "targets", "said"),
    [
        (9, None, {}, ("9 texts",)),
        (10, None, {}, ()),
        (50, 9, {}, ("9 documents",)),
        (50, 1, {}, ("1 document (",)),
        (50, 10, {}, ()),
        (200, 200, {"pos": 10_000}, ()),
        (200, 200, {"pos": LEAST_TARGETS}, ()),
        (200, 200, {"pos": LEAST_TARGETS - 1}, ("(pos: 199)",)),
        (9, 9, {"pos": 12, "dep": 500}, ("(pos: 12)", "9 documents")),
    ],
)
def test_too_few_documents_or_targets_warn(
    count: int, documents: int | None, targets: Mapping[str, int], said: tuple[str, ...]
) -> None:
    warnings = sample_of([TinyEncoder(), corpus_from(texts(count, documents))], targets).warnings()

    assert len(warnings) == len(said)
    assert all(part in warning for part, warning in zip(said, warnings, strict=True))


def test_only_as_many_texts_are_read_as_it_takes() -> None:
    read: list[str] = []

    def source() -> Iterator[Text]:
        for text in texts(100, 50):
            read.append(text.id)
            yield text

    assert sample_of([replace(corpus_from(texts(1)), source=source)], {}).documents is None
    assert len(read) == LEAST_DOCUMENTS


def test_findings_say_it_where_it_is_about_them() -> None:
    sample = Sample({"pos": 50, "coref": 9000})
    told = sample.with_remarks(
        [Finding("Part of speech: best", "", "clear"), Finding("Coreference: best", "", "clear")]
    )

    assert [each.text for each in told] == ["Part of speech: best. Small sample: 50 targets.", "Coreference: best."]
    (one,) = Sample({"dependencies": 50}, 3).with_remarks([Finding("No head", "", "null")])
    assert one.text == "No head. Small sample: 50 targets in 3 documents."
    (other,) = Sample({"dependencies": 5000}).with_remarks([Finding("No head", "", "null")])
    assert other.text == "No head."


@pytest.fixture(scope="module")
def small() -> Result:
    return lamina.heads(TinyEncoder(), corpus_from(texts(9)), samples=10)


def test_a_small_result_warns_everywhere(small: Result, tmp_path) -> None:
    # One dependency per text has a head; roots are not looked for.
    assert small.provenance.corpus["scored"] == {"dependencies": 9}
    assert len(small.provenance.warnings) == 2
    for caption in captions_for(small).values():
        assert all(warning in caption for warning in small.provenance.warnings)
    saved = Result.load(small.save(tmp_path / "small", charts=False))
    assert saved.provenance.warnings == small.provenance.warnings


def test_findings_of_a_small_result_say_so() -> None:
    found = lamina.attention(TinyEncoder(), corpus_from(texts(9)), samples=10).findings

    assert found
    assert all(finding.text.endswith(" Small sample: 9 texts.") for finding in found)


def test_what_is_made_of_small_results_warns_too(small: Result) -> None:
    assert sample_of([[small]], {}).warnings() == small.provenance.warnings


def test_a_rare_relation_among_many_dependencies_says_so() -> None:
    tested = (0.3, 0.2, 1.0, 0.001, 20, 0)
    row = ("nsubj", "dependent", 2, 1, 40, 0.6, 0.5, 0.7, -1, 0.3, *tested)
    best = pd.DataFrame([(*row, "document", "relation", True, 0.6, 0.5, 0.7, 0.3, True)], columns=list(BEST))
    corpus = {"name": "c", "fingerprint": "g", "scored": {"dependencies": 10_000}}
    result = Result("heads", {"best": best}, Provenance({"name": "m", "fingerprint": "f"}, corpus, {}))

    (found,) = lamina.heads.findings(result)
    assert found.text.endswith("Small sample: 40 targets.")


@pytest.mark.parametrize("name", ["ablate", "prune", "erase", "roles"])
def test_wrong_15_what_models_are_asked_about_while_parts_are_changed_is_a_sample(name: str) -> None:
    """These four warned of nothing: the scored texts are inside their material."""
    read = corpus_from(texts(24, documents=8), name="c", split="dev")
    material = TargetData(Splits(read, read))
    assert isinstance(get_analysis(name).reads, CauseInputs)
    (warning,) = sample_of([material], {"loss": 500}).warnings()
    assert warning.startswith("Small sample: 8 documents (fewer than 10)")
