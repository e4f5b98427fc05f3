"""`lamina phases`: how a model answers questions, one example token by token or a data set in numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lamina.cli.encode import results_folder
from lamina.cli.options import (
    DeviceOption,
    DryRunOption,
    FormatOption,
    LimitOption,
    ModelArgument,
    OutOption,
    SplitOption,
)
from lamina.cli.tables import Table, number, print_table
from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.corpora import Corpus
    from lamina.encoders import Encoder
    from lamina.results import Result

_SHOWN = ("within_question", "within_support", "question_nearer_support", "answer_apart", "ami_sentences", "ami_roles")


def phases(
    model: ModelArgument,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", help="Questions: squad_v1.1_dev, xquad_en, hotpotqa_sample, babi_en, stories, or a path."
        ),
    ] = None,
    example: Annotated[
        str | None, typer.Option("--example", metavar="ID", help="Map the tokens of this question of the data.")
    ] = None,
    question: Annotated[
        str | None, typer.Option("--question", help="Map the tokens of a question of your own ...")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="... about this context.")] = None,
    split: SplitOption = "test",
    out: OutOption = None,
    format: FormatOption = None,
    limit: LimitOption = None,
    method: Annotated[
        Literal["pca", "tsne", "ica"], typer.Option("--method", help="Map: how tokens come into two dimensions.")
    ] = "pca",
    fit: Annotated[
        Literal["layer", "all"], typer.Option("--fit", help="Map: one fit a layer, or one over all layers.")
    ] = "layer",
    clusters: Annotated[
        int | None, typer.Option("--clusters", min=2, help="Map: how many; by silhouette where not given.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Bootstrap samples and permutations.")] = 1000,
    confident: Annotated[
        float, typer.Option("--confident", help="Probability from which an answer counts as confident.")
    ] = 0.5,
    clustered: Annotated[
        int, typer.Option("--clustered", min=0, help="Questions whose words are clustered, drawn at random.")
    ] = 100,
    foretold: Annotated[
        int, typer.Option("--foretold", min=0, help="Questions that wrong answers are foretold of, drawn at random.")
    ] = 2000,
    twin: Annotated[bool, typer.Option(help="Put the random-weights twin beside the model.")] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw.")] = 0,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """See how a model answers: tokens of one question layer by layer, or the phases of a whole data set as numbers.

    With `--example`, or `--question` and `--context`: `tokens.csv`, a map with a slider over layers, and a page with
    all layers. Otherwise `phases.csv` (model, layer, group, measure, count, value, low, high) and, for a model that
    answers questions, `failure.csv`. MODEL is best a folder of `lamina finetune --task squad|hotpot|babi`.

    Example: `lamina phases minilm --question "Who barks?" --context "Dogs bark. Cats mew." --out results/map`
    """
    mapped = _what_is_asked(data, example, question, context)
    from lamina.analyses.questions.reading import load_questions, typed_question
    from lamina.encoders import load_encoder

    if question is not None and context is not None:
        questions = typed_question(question, context)
    else:
        questions = load_questions(data or "", split, format=format, limit=limit)
    from lamina.analyses.asking import ask
    from lamina.analyses.questions.answering import answers
    from lamina.analyses.questions.phases import phases as measure
    from lamina.analyses.questions.tokenmap import token_map

    encoder = load_encoder(model, device=device)
    if dry_run:
        passes = 1 if mapped else 1 + (twin and encoder.blocks > 0) + answers(encoder)
        print(_foreseen(encoder, questions.find(example) if example else questions, passes))
        return
    if mapped:
        folder = out or Path("results") / f"map-{Path(model).name}-{Path(example or 'typed').name}"
        settings = {"example": example, "method": method, "fit": fit, "clusters": clusters, "seed": seed}
        result = ask(token_map, encoder, questions, folder, **settings)
        _tell_map(result)
    else:
        folder = results_folder(out, "phases", model, data or "", split)
        settings = {"samples": samples, "confident": confident, "clustered": clustered, "foretold": foretold}
        result = ask(measure, encoder, questions, folder, **settings, twin=twin, seed=seed)
        _tell_phases(result, encoder)
    for reason, count in result.provenance.skipped.items():
        if count:
            print(f"{count:,} {reason}")
    print(folder)


def _foreseen(encoder: Encoder, questions: Corpus, passes: int) -> str:
    """What a dry run says: questions stream, nothing is stored."""
    from lamina.activations import estimate

    what = estimate(encoder, questions)
    return "\n".join(
        [
            f"texts    {what.texts:,}",
            f"words    {what.words:,}",
            f"tokens   {what.tokens:,}, read {passes} times",
            f"time     about {max(1, round(what.seconds * passes)):,} s on this machine",
            "disk     only the result: states are measured as they come and never stored",
        ]
    )


def _what_is_asked(data: str | None, example: str | None, question: str | None, context: str | None) -> bool:
    """Whether it is a map of one question; half a request, or two at once, is refused."""
    typed = question is not None or context is not None
    if typed and (data is not None or example is not None):
        raise InputError("give either --data (with --example) or --question with --context, not both")
    if typed and (question is None or context is None):
        raise InputError("--question and --context go together; give both")
    if not typed and data is None:
        raise InputError(
            "say what to ask: --data NAME_OR_FILE, with --example ID for one question; or --question with --context"
        )
    return typed or example is not None


def _tell_map(result: Result) -> None:
    answer = result.tables["answer"].iloc[0]
    print(f"question   {answer['question']}")
    print(f"accepted   {answer['accepted'] or 'not known'}")
    if answer["predicted"]:
        print(f"predicted  {answer['predicted']} (confidence {answer['confidence']:.2f})")
    columns = ("layer", "tokens", "left_out", "explained_x", "explained_y", "clusters", "silhouette")
    rows = [
        tuple(number(cell) if isinstance(cell, float) else int(cell) for cell in row)
        for row in result.tables["projection"][list(columns)].itertuples(index=False)
    ]
    print_table("How much the map shows", Table(columns, rows), ())


def _tell_phases(result: Result, encoder: Encoder) -> None:
    table = result.tables["phases"]
    own = table[(table["model"] == encoder.name) & (table["group"] == "all")]
    there = set(own["measure"])
    shown = [f"{name}_adjusted" if f"{name}_adjusted" in there else name for name in _SHOWN]
    shown = [name for name in shown if name in there]
    values = dict(zip(zip(own["layer"], own["measure"], strict=True), own["value"], strict=True))
    rows = [
        (layer, *(number(values.get((layer, name), float("nan"))) for name in shown)) for layer in range(encoder.layers)
    ]
    print_table(f"{encoder.name}: phases by layer", Table(("layer", *shown), rows), ())
