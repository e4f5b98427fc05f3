"""`lamina trace`: how decisions about single targets come about, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lamina.cli.options import DeviceOption
from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.analyses.probing.typed import Marked
    from lamina.results import Result

_BARS = "▁▂▃▄▅▆▇█"


def trace(
    result: Annotated[Path, typer.Argument(metavar="RESULT_DIR", help="A folder that `lamina probe` wrote.")],
    sentence: Annotated[
        str | None, typer.Argument(metavar="SENTENCE", help="A sentence of your own, in quotes; needs --model.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="The model that was probed, to encode your sentence with.")
    ] = None,
    mark: Annotated[
        list[str] | None,
        typer.Option(
            "--mark",
            metavar="TASK:SPAN[:SPAN]",
            help="A target of your sentence; repeat for several. A span is a word's number, or FIRST-LAST with both "
            "included; words count from 0. `dep:2:1`: the dependency of word 2 on word 1; `ner:3-4`: words 3 and 4.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="A folder to write the figure and its tables to.")] = None,
    device: DeviceOption = None,
) -> None:
    """The probability of labels under the probes P(0) to P(L), as small bars from the first layer to the last.

    Without a sentence: the ambiguous ones that probing found (more than one target whose best label has a mean
    probability of at most 0.7). With a sentence: part of speech of every word, and whatever you mark; a probe of any
    other task has never seen words that are no target.

    Example: `lamina trace results/probe --model minilm "he smoked toronto in the playoffs" --mark dep:2:1`
    """
    if sentence is None:
        if model is not None or mark:
            raise InputError("--model and --mark are for a sentence of your own; give one, in quotes")
        found = _found(result)
    else:
        found = _typed(result, sentence, model, [_marked(each) for each in mark or []], device)
    for line in _lines(found):
        print(line)
    if out is not None:
        found.save(out)
        print(out)


def _found(folder: Path) -> Result:
    """What probing kept."""
    from lamina.results import Result

    probed = Result.load(folder)
    if probed.analysis != "probe":
        raise InputError(f"{folder} holds a {probed.analysis!r} result; name a folder that `lamina probe` wrote")
    tables = {name: probed.tables[name] for name in ("traces", "words") if name in probed.tables}
    if "traces" not in tables or tables["traces"].empty:
        raise InputError(
            f"{folder} has no traces: there is no sentence with two ambiguous targets, or no cumulative probes; "
            "give a sentence of your own, or probe with --probes cumulative"
        )
    return Result("trace", tables, probed.provenance)


def _typed(folder: Path, sentence: str, model: str | None, marked: list[Marked], device: str | None) -> Result:
    from lamina.analyses.probing.typed import trace_sentence
    from lamina.corpora.words import split_words
    from lamina.encoders import load_encoder

    if model is None:
        raise InputError("a sentence of your own has to be encoded: name the model that was probed with --model")
    words = split_words(sentence).words
    if not words:
        raise InputError("the sentence has no words")
    return trace_sentence(load_encoder(model, device=device), folder, words, marked)


def _marked(said: str) -> Marked:
    from lamina.analyses.probing.typed import Marked
    from lamina.types import Span

    task, *spans = said.split(":")
    try:
        ends = [[int(end) for end in span.split("-")] for span in spans]
        first, *second = [Span(end[0], end[-1] + 1) for end in ends if len(end) <= 2]
        if len(second) > 1 or len(ends) != 1 + len(second):
            raise ValueError
    except ValueError:
        raise InputError(
            f"--mark {said!r} cannot be read; write TASK:SPAN or TASK:SPAN:SPAN, a span being a word's number or "
            "FIRST-LAST, as dep:2:1 or ner:3-4"
        ) from None
    return Marked(task, first, *second)


def _lines(found: Result) -> Iterator[str]:
    """Each sentence with its words numbered, then a line a label: bars over the layers, first and last probability."""
    traces: Any = found.tables["traces"]
    own = traces[traces["seed"] == traces["seed"].min()]
    yield f"probabilities by layer, 0 to {own['layer'].max()}; probes of seed {own['seed'].iloc[0]}; * gold"
    for text_id, of_text in own.groupby("text_id", sort=False):
        words = _words(found, str(text_id))
        yield ""
        yield " ".join(f"{at}:{word}" for at, word in enumerate(words)) or str(text_id)
        size = of_text["label"].str.len().max()
        for (task, first, second), of_target in of_text.groupby(["task", "span1", "span2"], sort=False, dropna=False):
            spans = [span for span in (first, second) if isinstance(span, str) and span]
            yield f"  {task}  {' + '.join(_said(words, span) for span in spans)}"
            for label, rows in of_target.groupby("label", sort=False):
                series = rows.sort_values("layer")["probability"].tolist()
                gold = "*" if str(rows["gold"].iloc[0]) == "True" else " "
                yield f"   {gold}{label!s:<{size}}  {bars(series)}  {series[0]:.2f} to {series[-1]:.2f}"


def bars(probabilities: list[float]) -> str:
    """One character a probability.

    Example:
        >>> bars([0.0, 0.5, 1.0])
        '▁▅█'
    """
    return "".join(_BARS[min(int(each * len(_BARS)), len(_BARS) - 1)] for each in probabilities)


def _words(found: Result, text_id: str) -> list[str]:
    table: Any = found.tables.get("words")
    return [] if table is None else table[table["text_id"] == text_id].sort_values("position")["word"].tolist()


def _said(words: list[str], span: str) -> str:
    start, end = (int(part) for part in span.split(":"))
    return " ".join(words[start:end]) or span
