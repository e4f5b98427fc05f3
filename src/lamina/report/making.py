"""From a model and a corpus to the page: ask every question, reuse what is already answered, write the report."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.analyses import all_analyses
from lamina.errors import CorpusError, FormatError, InputError, ModelError, TaskError
from lamina.report.growing import GrowingPage
from lamina.report.page import ReportPage
from lamina.report.up_to_date import RECORD, inputs_key, page_up_to_date, record_report

if TYPE_CHECKING:
    from lamina.activations import Runtime
    from lamina.analyses.declaration import Analysis, Asked
    from lamina.analyses.estimate import Cost
    from lamina.analyses.inputs import Precision
    from lamina.corpora import Corpus
    from lamina.encoders import Encoder
    from lamina.results import Result

_FULL: Precision = "float32"
"""What models compute in unless a report says otherwise."""
STORIES = "stories"
"""What a model learns to answer for the chapter on answering: lamina makes them itself."""
_LEFT_OUT = (CorpusError, ModelError, TaskError)
"""What the model or the corpus cannot answer is left out, and the page says so."""


def in_report() -> dict[str, Analysis]:
    """The analyses that a report asks, in the order of the page."""
    return {each.name: each for each in all_analyses() if each.report is not None}


def choose(only: Sequence[str] | None = None) -> list[str]:
    """The analyses named, in the order of the page; all of them where none is named.

    Example:
        >>> choose(["geometry"])
        ['geometry']
    """
    known = in_report()
    unknown = [name for name in only or () if name not in known]
    if unknown:
        raise InputError(f"a report has no analysis {', '.join(map(repr, unknown))}; it has: {', '.join(known)}")
    return [name for name in known if not only or name in only]


def make_report(
    model: Any,
    data: Any = "ewt",
    out: str | os.PathLike[str] = "report",
    *,
    only: Sequence[str] | None = None,
    split: str = "dev",
    unit: str = "sentence",
    format: str | None = None,
    annotation: str | None = None,
    limit: int | None = None,
    dtype: Precision = "float32",
    chat: bool = False,
    runtime: Runtime | None = None,
    replace: bool = False,
    single_file: bool = False,
) -> Path:
    """Answer every question, keep the answers in `out/results`, write `out/index.html` and return its path.

    The page is there after the first analysis and is written again after each, with what is still to come; a run that
    is stopped leaves it.

    An answer already kept for the same model, data and settings is reused. A question that the model or the data cannot
    answer is left out, and the page says so; asked for by name, it is an error. Analyses that watch attention maps
    share one pass.

    Args:
        model: a name, a folder, an encoder, or a pair (model, tokenizer).
        data: a name, a path, a corpus, (train, dev), or splits by name.
        out: the folder to write.
        only: the analyses wanted, by name; all by default.
        split: what is looked at and scored, of data given by name.
        unit: what becomes one text, of data given by name.
        format: of a file or folder; detected by default.
        annotation: a name for the only annotation of the data, or `old=new,...` for some of them.
        limit: take only the first texts of each split.
        dtype: what a model given by name computes in; fine-tuning is in float32.
        chat: put each text as the user's message into the model's chat template.
        runtime: where activations are kept and models run.
        replace: overwrite results of other questions that lie in `out/results`.
        single_file: put still images and tables into the page, which then needs no other file.

    Example:
        >>> lamina.make_report("minilm", "ewt", "report")  # doctest: +SKIP
        PosixPath('report/index.html')
    """
    of_data = {"split": split, "unit": unit, "format": format, "annotation": annotation, "limit": limit}
    how = of_data | {"dtype": dtype, "chat": chat} | ({"single_file": True} if single_file else {})
    trusts = runtime is not None and runtime.trust_remote_code
    key = None if trusts else _key(model, data, only, how)
    page = None if key is None else page_up_to_date(Path(out), key)
    if page is not None:
        return page
    names = choose(only)
    report = _Report.of(model, data, how, Path(out), runtime, replace=replace)
    page = report.write(names, asked_for=bool(only))
    # What was left out may be there next time; what changed meanwhile is not what the report was made from.
    if key is not None and not report.left_out and key == _key(model, data, only, how):
        record_report(Path(out), key, report.folders)
    return page


def find_report(
    model: Any, data: Any, out: str | os.PathLike[str], *, only: Sequence[str] | None, options: Mapping[str, Any]
) -> Path | None:
    """The page in `out` if it is up to date, found in a second: neither torch nor the model is loaded for it.

    Example:
        >>> options = {"split": "dev", "unit": "sentence", "format": None, "annotation": None, "limit": None}
        >>> find_report("minilm", "stories", "no/such/folder", only=None, options=options) is None
        True
    """
    if not (Path(out) / RECORD).is_file():
        return None
    key = _key(model, data, only, options)
    return None if key is None else page_up_to_date(Path(out), key)


def _key(model: Any, data: Any, only: Sequence[str] | None, options: Mapping[str, Any]) -> str | None:
    """What a report is known by, of a model and texts given by name."""
    if not isinstance(model, str | Path) or not isinstance(data, str | Path):
        return None
    return inputs_key(model, *_read(data, options), only, options)


def estimate_report(
    model: Any, data: Any, *, only: Sequence[str] | None, options: dict[str, Any], runtime: Runtime | None = None
) -> Cost:
    """What all analyses of a report would take, one after the other."""
    from lamina.analyses.estimate import Cost, estimate

    names = choose(only)
    report = _Report.of(model, data, options, Path("report"), runtime, replace=False)
    total = Cost(passes=0)
    for name in names:
        try:
            total += estimate(report.question(name, tuned=lambda: report.encoder))
        except _LEFT_OUT:
            continue
    return total


class _Report:
    """One report in the making."""

    def __init__(
        self,
        encoder: Encoder,
        texts: Corpus,
        train: Corpus | None,
        out: Path,
        runtime: Runtime,
        *,
        dtype: Precision,
        replace: bool,
        single_file: bool = False,
    ) -> None:
        self.encoder, self.texts, self.train, self.out, self.runtime = encoder, texts, train, out, runtime
        self._dtype: Precision = dtype
        self._single_file = single_file
        self._replace = replace
        self._made: dict[str, Result] = {}
        self._notes: dict[str, str] = {}
        self._lacking: list[str] = []
        """What this model can never answer: a report without it is complete."""
        self._learned: Encoder | None = None

    @classmethod
    def of(
        cls, model: Any, data: Any, options: dict[str, Any], out: Path, runtime: Runtime | None, *, replace: bool
    ) -> _Report:
        """With texts to score, and texts to learn from where there are any."""
        from lamina.activations import Runtime
        from lamina.analyses.models import as_encoder
        from lamina.corpora.held import held

        where = runtime or Runtime()
        if options.get("dtype", _FULL) != _FULL and not isinstance(model, str | Path):
            raise InputError("dtype is for a model given by name; this model is already loaded")
        texts, train = _read(data, options)
        encoder = as_encoder(model, options, where)
        # Every analysis reads them, most several times.
        texts, train = held(texts), None if train is None else held(train)
        kept = {"replace": replace, "single_file": bool(options.get("single_file"))}
        return cls(encoder, texts, train, out, where, dtype=options.get("dtype", _FULL), **kept)

    def write(self, names: Sequence[str], *, asked_for: bool) -> Path:
        """Answer, and write the page, which grows meanwhile."""
        if not asked_for:
            names = self._without_behaviour(names)
        title = f"{self.encoder.name} on {self.texts.name} ({self.texts.split})"
        page = ReportPage(self.out, title, single_file=self._single_file)
        watching = [name for name in names if _watches(name)]
        with GrowingPage(page, {name: in_report()[name].title for name in names}) as growing:
            for name in names:
                if name in self._made:
                    continue
                if name in watching:
                    self._watch_together(watching)
                    watching = []
                if name not in self._made:
                    self._tolerant(name, names, asked_for, lambda name=name: self._answer({name: self.question(name)}))
                growing.grow(self._results, self.folders, self._said, [*self._made, *self._notes])
        if not self._made:
            raise CorpusError("; ".join(self._notes.values()) or "nothing was asked")
        return page.write(self._results, notes=self._said, folders=self.folders)

    @property
    def _results(self) -> list[Result]:
        """What was answered so far, in the order of the page."""
        return [self._made[name] for name in in_report() if name in self._made]

    @property
    def _said(self) -> list[str]:
        """What was left out, and why."""
        return [*self._notes.values(), *self._lacking]

    @property
    def left_out(self) -> list[str]:
        """The analyses that the model or the texts could not answer."""
        return [*self._notes]

    @property
    def folders(self) -> list[Path]:
        """Where the results on the page are saved, in its order."""
        return [self._folder(name) for name in in_report() if name in self._made]

    def question(self, name: str, tuned: Callable[[], Encoder] | None = None) -> Asked:
        """One analysis with the settings of a report."""
        from lamina.analyses.inputs import QuestionSet

        declared = in_report()[name]
        if isinstance(declared.reads, QuestionSet):
            inputs: dict[str, Any] = {"model": (tuned or self._tuned)(), "data": STORIES}
        else:
            given = declared.reads.in_report(self.encoder, self.texts, self.train)
            if given is None:
                raise self._cannot_ask(declared)
            inputs = given
        return declared.ask(**inputs, **(declared.report or {}), runtime=self.runtime)

    def _cannot_ask(self, declared: Analysis) -> InputError:
        """Why an analysis of the report has nothing to read; a model without a head says so itself."""
        from lamina.encoders.language_model import language_model

        if declared.reads.speaks:
            language_model(self.encoder)
        suite = next((each.default for each in declared.reads.given if each.kind == "suite"), None)
        if suite is not None:
            return CorpusError(f"{suite} is not on this machine; get it with `lamina assets get {suite}`")
        return InputError(f"{declared.name} cannot be part of a report")

    def _without_behaviour(self, names: Sequence[str]) -> Sequence[str]:
        """The analyses without those that ask for words, where the model has no head to say any."""
        from lamina.encoders.language_model import has_language_model

        behaviour = [name for name in names if in_report()[name].reads.speaks]
        if not behaviour or has_language_model(self.encoder):
            return names
        self._lacking.append(
            f"Behaviour (what a language model says) is left out: {self.encoder.name} has no language-model head."
        )
        return [name for name in names if name not in behaviour]

    def _tuned(self) -> Encoder:
        """The model after it has learned to answer stories; loaded once."""
        from lamina.encoders import load_encoder

        if "finetune" not in self._made:
            self._answer({"finetune": self.question("finetune")})
        if self._learned is None:
            self._learned = load_encoder(
                str(self._folder("finetune")),
                device=self.runtime.device,
                dtype=self._dtype,
                # It was fine-tuned on texts in this form.
                chat="chat" in self.encoder.origin,
            )
            self._learned.name = f"{self.encoder.name}, fine-tuned"
        return self._learned

    def _watch_together(self, names: Sequence[str]) -> None:
        """All analyses that watch maps, in one pass; what fails is asked again alone, and then says why."""
        questions: dict[str, Asked] = {}
        for name in names:
            with suppress(InputError):
                questions[name] = self.question(name)
        with suppress(InputError):
            self._answer(questions)

    def _answer(self, questions: dict[str, Asked]) -> None:
        from lamina.analyses.cache import ask_together

        folders = [self._folder(name) for name in questions]
        answers = ask_together(list(questions.values()), folders, replace=self._replace)
        self._made |= dict(zip(questions, answers, strict=True))

    def _folder(self, name: str) -> Path:
        return self.out / "results" / name

    def _tolerant(self, name: str, names: Sequence[str], asked_for: bool, work: Callable[[], None]) -> None:
        try:
            work()
        except _LEFT_OUT as error:
            # The first is asked of any model and any corpus: where it fails, there is nothing to report.
            if asked_for or name == names[0]:
                raise
            self._notes[name] = f"{in_report()[name].title} is left out: {error}."


def _watches(name: str) -> bool:
    return inspect.isgeneratorfunction(inspect.unwrap(in_report()[name].function))


def _read(data: Any, options: Mapping[str, Any]) -> tuple[Corpus, Corpus | None]:
    """Texts to score, and texts to learn from where there are any."""
    from lamina.analyses.given_data import as_corpus, as_splits
    from lamina.corpora import Corpus

    texts = as_corpus(data, options, options["split"])
    if options["split"] not in ("dev", "test") or isinstance(data, Corpus):
        return texts, None
    try:
        return texts, as_splits(data, options).train
    except FormatError:
        raise
    except CorpusError:
        return texts, None
