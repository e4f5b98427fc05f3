"""Mean attention distance: by hand, beside uniform attention; and what it takes to add an analysis."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lamina
from lamina.analyses.heads.attention_distance import DISTANCE, DistanceMeter
from lamina.corpora import corpus_from
from lamina.figures import captions_of, draw
from lamina.framework.verify import check_findings
from lamina.framework.watch import watch
from lamina.results import Provenance, Result
from lamina.stats.units import BY_TEXT
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Text

NAME = "attention_distance"
SOURCE = Path(lamina.__file__).parent
TEXTS = [["Dogs", "bark", "."], ["Cats", "do", "not", "bark", "."]]


def test_the_mean_distance_is_that_of_a_plain_loop() -> None:
    encoder = TinyEncoder()
    corpus = corpus_from(TEXTS, name="pets")
    found = lamina.attention_distance(encoder, corpus, samples=10).tables["distance"]

    class Plain:
        """One text, one head, one word at a time."""

        def __init__(self) -> None:
            self.means = []

        def update(self, batch) -> None:
            self.means += [self.mean(watched.words.maps.numpy()) for watched in batch.singly]

        def mean(self, maps: np.ndarray) -> np.ndarray:
            for_heads = np.zeros(maps.shape[:2])
            for block, head in np.ndindex(*maps.shape[:2]):
                words = maps[block, head]
                for_heads[block, head] = np.mean(
                    [sum(w * abs(i - j) for j, w in enumerate(row)) / sum(row) for i, row in enumerate(words)]
                )
            return for_heads

    plain = Plain()
    watch(encoder, corpus, [plain])
    expected = np.mean(plain.means, axis=0).ravel()
    # Sums of float32 in another order.
    np.testing.assert_allclose(found["value"], expected, rtol=1e-5)
    # Three words are 8/9 apart on average, five words 8/5.
    assert found["baseline"].unique() == pytest.approx([(8 / 9 + 8 / 5) / 2])
    assert (found["low"] <= found["value"] + 1e-6).all()
    assert (found["value"] <= found["high"] + 1e-6).all()


def test_texts_of_one_word_are_counted_and_left_out() -> None:
    meter = DistanceMeter(TinyEncoder(), samples=5, seed=0, unit=BY_TEXT)
    watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
    alone = sum(len(text.words) == 1 for text in SAMPLE_TEXTS)
    assert meter.short == alone
    result = lamina.attention_distance(TinyEncoder(), [["Yes"], *TEXTS], samples=5)
    assert result.provenance.skipped == {"texts of one word, without a distance": 1}


def test_a_corpus_without_pairs_of_words_is_refused() -> None:
    with pytest.raises(lamina.LaminaError, match="no text of two words"):
        lamina.attention_distance(TinyEncoder(), [["Yes"]])


def by_hand(low: float, high: float, p: float = 0.001) -> Result:
    value = (low + high) / 2
    rows = [
        (1, 1, value, low, high, 4.0, value - 4, low - 4, high - 4, p, 20, 0, "nearest"),
        (1, 2, 4.0, 3.95, 4.05, 4.0, 0.0, -0.05, 0.05, 0.9, 20, 0, "farthest"),
    ]
    table = pd.DataFrame(rows, columns=list(DISTANCE))
    return Result(NAME, {"distance": table}, Provenance({"name": "m"}, {"name": "c"}, {}))


def test_findings_say_what_the_tests_carry() -> None:
    made = by_hand(1.0, 1.2)
    near, far = lamina.attention_distance.findings(made)
    assert (near.status, near.text) == (
        "clear",
        "Head 1-1 looks nearer than uniform attention would: 1.10 words away on average, uniform attention 4.00 "
        "(difference -2.90 [-3.00, -2.80]).",
    )
    assert far.status == "null"
    assert check_findings(replace(made, findings=(near, far))) == []
    assert lamina.attention_distance.findings(by_hand(1.0, 6.0, p=0.3))[-1].status == "open"
    empty = Result(NAME, {"distance": by_hand(1, 2).tables["distance"][:0]}, Provenance({}, {}, {}))
    assert lamina.attention_distance.findings(empty) == ()


def test_documents_are_resampled_not_their_texts() -> None:
    """Texts of a document are alike: with texts resampled, the interval was much narrower."""
    rows = []
    for document in range(8):
        for at in range(3):
            words = (
                ["Dogs", "bark", "."] if document % 2 else ["Dogs", "bark", "at", "cats", "and", "birds", "too", "."]
            )
            rows.append(Text(f"{document}-{at}", tuple(words), doc=f"d{document}"))
    grouped = lamina.attention_distance(TinyEncoder(), corpus_from(rows, name="pets"), samples=200)
    alone = [replace(text, doc=None) for text in rows]
    apart = lamina.attention_distance(TinyEncoder(), corpus_from(alone, name="pets"), samples=200)
    widths = [(table["high"] - table["low"]).mean() for table in (grouped.tables["distance"], apart.tables["distance"])]
    assert widths[0] > 1.4 * widths[1]
    assert set(grouped.tables["distance"]["units"]) == {8}
    assert check_findings(grouped) == []


def test_it_is_drawn_with_a_caption() -> None:
    assert draw(by_hand(1.0, 1.2)).keys() == captions_of(NAME).keys() == {"distance"}


def test_an_analysis_takes_two_files_and_one_line() -> None:
    """Nothing else in the source knows it: command, report, app and docs come from the declaration."""
    mentions = {
        str(path.relative_to(SOURCE)): len(re.findall(rf".*\b{NAME}\b.*", path.read_text(encoding="utf-8")))
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix in {".py", ".js", ".ts", ".html", ".css", ".json"}
    }
    known = {path: count for path, count in mentions.items() if count}
    assert known.pop("analyses/__init__.py") == 1
    known.pop("analyses/index.json")  # Written from the declarations.
    assert set(known) == {f"analyses/heads/{NAME}.py"}, "its figure does not even need the name"
    assert (SOURCE / "figures" / f"{NAME}.py").is_file()


def test_it_appears_everywhere(tmp_path: Path) -> None:
    from starlette.testclient import TestClient
    from typer.testing import CliRunner

    from lamina.cli.main import app
    from lamina.report import choose
    from lamina.web import ServerSettings, create_app

    assert NAME in lamina.__all__
    command = NAME.replace("_", "-")
    assert command in CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
    assert "How many words lie between" in CliRunner().invoke(app, ["describe", command]).output
    assert NAME in choose()
    client = TestClient(create_app(ServerSettings(folders=(tmp_path,))), base_url="http://127.0.0.1:8600")
    assert NAME in client.get("/api/analyses").text
    generator = (SOURCE.parents[1] / "docs" / "generate.py").read_text(encoding="utf-8")
    assert "all_analyses()" in generator, "the reference page lists every analysis"
