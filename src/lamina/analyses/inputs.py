"""What an analysis reads: models, texts, questions, results; given by name, by path or as objects in memory."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from lamina.analyses.given_data import SCORED, as_corpus, as_questions, as_result, as_splits
from lamina.analyses.models import as_encoder, as_encoders, describe_models, each_of, kind_of, short_name
from lamina.analyses.passport_notes import passports_in
from lamina.analyses.settings import Declared, Setting
from lamina.errors import CorpusError, InputError, ModelError

if TYPE_CHECKING:
    from lamina.activations.runtime import Runtime
    from lamina.corpora import Corpus
    from lamina.corpora.learning import Splits
    from lamina.corpora.question_sets import Questions
    from lamina.corpora.views import View
    from lamina.encoders import Encoder

REQUIRED = inspect.Parameter.empty
Precision = Literal["float32", "bfloat16", "float16"]
Kind = Literal["model", "texts", "questions", "suite", "other"]
"""What an input is; the app can ask for models, texts, questions (which may be texts too) and test suites."""


@dataclass(frozen=True)
class Input:
    """One thing an analysis reads, in the order of the call."""

    name: str
    """In Python, in a request file and on the web."""
    help: str
    default: Any = REQUIRED
    option: str | None = None
    """On the command line; None for an argument without a name."""
    metavar: str | None = None
    many: bool = False
    kind: Kind = "other"
    named: tuple[str, ...] = ()
    """Of a suite: the names that it can be given by, instead of a path."""


@dataclass(frozen=True)
class Loaded:
    """Inputs, ready to be read."""

    arguments: tuple[Any, ...]
    """What the analysis's function gets, in its order."""
    model: Mapping[str, Any]
    """What provenance says of the model."""
    data: Mapping[str, Any]
    """What provenance says of the data."""
    names: tuple[str, ...] = ()
    """Short names for a folder: model, data, split."""

    @property
    def fingerprints(self) -> tuple[str, str]:
        """Of the model and of the data."""
        return str(self.model.get("fingerprint", "")), str(self.data.get("fingerprint", ""))


MODEL = Input(
    "model",
    "An alias (`lamina assets list`), a Hugging Face id (`@REVISION` after it if wanted), a folder or a GGUF file; "
    "`:decoder` after it for the decoder of an encoder-decoder.",
    metavar="MODEL",
    kind="model",
)
_TEXTS = Input(
    "data",
    "A catalogue name (`lamina data list`), the path of a file or folder, or hf:OWNER/NAME.",
    option="--corpus",
    kind="texts",
)

MODEL_OPTIONS = (
    Declared("dtype", Precision, "float32", Setting("What the model computes in.")),
    Declared(
        "chat",
        bool,
        False,
        Setting("Put each text as the user's message into the chat template of the model's tokenizer."),
    ),
)
FORMAT = Declared(
    "format",
    str | None,
    None,
    Setting("The format of a file or folder, detected by default; table:text=COLUMN,label=COLUMN for columns."),
)
ANNOTATION = Declared(
    "annotation",
    str | None,
    None,
    Setting("A name for the only annotation of the data, or OLD=NEW,... for some of them."),
)
LIMIT = Declared("limit", int | None, None, Setting("Take only the first N texts.", min=1))
_SHOWN = "by default as the model was fine-tuned"
VIEW = {
    "setting": Declared(
        "setting",
        Literal["distractor", "support"] | None,
        None,
        Setting(f"HotpotQA: with distractors, or the supporting facts alone; {_SHOWN}."),
    ),
    "max_words": Declared(
        "max_words",
        int | None,
        None,
        Setting(f"HotpotQA: drop paragraphs of distractors until so many words are left; {_SHOWN}.", min=1),
    ),
    "babi": Declared(
        "babi_view",
        Literal["span", "classification"] | None,
        None,
        Setting(f"bAbI: append the possible answers (span), or leave the story as it is; {_SHOWN}."),
    ),
    "tasks": Declared(
        "babi_tasks",
        Sequence[int] | None,
        None,
        Setting(f"Some of bAbI's tasks (or of the stories'); {_SHOWN}.", min=1),
    ),
}
"""Field of a view -> the option that sets it."""


def _split(default: str, help: str = "train, dev, test or all; a missing split is made by document and recorded."):
    return Declared("split", str, default, Setting(help))


def _unit(default: str | None) -> Declared:
    kind = str if default else str | None
    said = "What becomes one text: sentence, document, or window:N (at most N words)."
    if default is None:
        said += " By default document where there are chains of mentions, otherwise sentence."
    return Declared("unit", kind, default, Setting(said))


class Reads(ABC):
    """How an analysis gets what it reads; one instance per analysis, with that analysis's defaults."""

    inputs: ClassVar[tuple[Input, ...]]
    """In the order of the call."""
    seeds: bool = False
    """Whether the analysis takes the models of several fine-tuning seeds as one."""
    sampled: ClassVar[bool] = True
    """Whether what is read stands for more than itself, so that too little of it is a warning."""
    speaks: ClassVar[bool] = False
    """Whether the model is asked for words, which takes a language-model head."""

    @property
    def options(self) -> tuple[Declared, ...]:
        """Which part of the data, in which form."""
        return ()

    @property
    def given(self) -> tuple[Input, ...]:
        """The inputs, with the data that this analysis takes by default."""
        default = getattr(self, "default", REQUIRED)
        return tuple(replace(each, default=default) if each.name == "data" else each for each in self.inputs)

    @abstractmethod
    def load(
        self,
        given: Mapping[str, Any],
        options: Mapping[str, Any],
        settings: Mapping[str, Any],
        runtime: Runtime,
    ) -> Loaded:
        """Load what was named; objects that are given are taken as they are."""

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """The inputs when a report asks; None where a report cannot ask it."""
        return None


@dataclass(frozen=True)
class Texts(Reads):
    """A model and texts."""

    default: str = "ewt"
    split: str = "dev"
    unit: str | None = "sentence"
    carrying: Mapping[str, str] = field(default_factory=dict)
    """Annotations that the texts must have -> what they are called."""
    inputs: ClassVar = (MODEL, _TEXTS)

    @property
    def options(self) -> tuple[Declared, ...]:
        """See `Reads.options`."""
        return (_split(self.split), _unit(self.unit), FORMAT, ANNOTATION, LIMIT, *MODEL_OPTIONS)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> Loaded:
        """See `Reads.load`."""
        texts = self._texts(given["data"], options)
        for annotation, called in self.carrying.items():
            if annotation not in texts.annotations:
                has = ", ".join(texts.annotations) or "none"
                raise CorpusError(
                    f"{texts.name} has no {called} (annotation {annotation}; it has: {has}); name a corpus that has "
                    f"them, for example {self.default}"
                )
        return model_and(as_encoder(given["model"], options, runtime), texts, given["model"])

    def _texts(self, data: Any, options: Mapping[str, Any]) -> Corpus:
        return as_corpus(data, options, self.split)

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """Analyses that need many words are asked of the training texts, where there are any."""
        many = self.split in ("train", "all") and train is not None
        return {"model": encoder, "data": train.take(MOST_IN_REPORT) if many and train is not None else texts}


MOST_IN_REPORT = 8000
"""Training texts that a report looks at: enough words for every class, within the report's time."""


@dataclass(frozen=True)
class Treebank(Texts):
    """A model and texts with dependencies."""

    carrying: Mapping[str, str] = field(default_factory=lambda: {"dep": "dependencies"})


@dataclass(frozen=True)
class Documents(Texts):
    """A model and documents with chains of mentions; or texts with pairs of mentions, as they are."""

    default: str = "gum_open"
    unit: str | None = None

    def _texts(self, data: Any, options: Mapping[str, Any]) -> Corpus:
        if options["unit"] is not None or not isinstance(data, str | Path):
            return as_corpus(data, options, self.split)
        looked_at = as_corpus(data, {**options, "unit": "sentence", "limit": None}, self.split)
        unit = "document" if "chains" in looked_at.annotations else "sentence"
        return as_corpus(data, {**options, "unit": unit}, self.split)


@dataclass(frozen=True)
class TrainedTexts(Texts):
    """A model, texts to learn from and texts to score."""

    @property
    def options(self) -> tuple[Declared, ...]:
        """See `Reads.options`."""
        return (_split(self.split, "What is scored: dev or test."), *super().options[1:])

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> Loaded:
        """See `Reads.load`."""
        texts = as_splits(given["data"], options)
        return model_and(as_encoder(given["model"], options, runtime), texts, given["model"])

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """See `Reads.in_report`."""
        from lamina.corpora.learning import Splits

        # Without training texts, what there is is split by document.
        return {"model": encoder, "data": texts if train is None else Splits(train, texts)}


@dataclass(frozen=True)
class TwoModels(Texts):
    """Two models of one architecture, each one or one per fine-tuning seed, and texts.

    Texts to learn from too, where tasks are to be probed; questions as they were shown in fine-tuning.
    """

    seeds = True
    inputs: ClassVar = (
        Input("model", "The model before: an alias, a Hugging Face id or a folder.", metavar="MODEL_A", kind="model"),
        Input("other", "The model after: best a folder that `lamina finetune` wrote.", metavar="MODEL_B", kind="model"),
        _TEXTS,
    )

    @property
    def options(self) -> tuple[Declared, ...]:
        """See `Reads.options`."""
        return (*super().options, *VIEW.values())

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> Loaded:
        """See `Reads.load`."""
        from lamina.corpora.corpus import fingerprint_of

        a, b = (as_encoders(given[name], options, runtime) for name in ("model", "other"))
        _refuse_views(given["data"], options, self.split, a[0], b[0])
        shown = {**options, "view": chosen_view(options, a[0], b[0])}
        probing = bool(settings.get("tasks"))
        texts = as_splits(given["data"], shown) if probing else as_corpus(given["data"], shown, self.split)
        sides = [describe_models(each) for each in (a, b)]
        fingerprint = fingerprint_of(*(each["fingerprint"] for each in sides))
        about = {"name": f"{a[0].name} and {b[0].name}", "fingerprint": fingerprint, "a": sides[0], "b": sides[1]}
        short = [short_name(given[name], each[0]) for name, each in (("model", a), ("other", b))]
        return Loaded((a, b, texts), about, texts.describe(), (*short, Path(texts.name).stem, options["split"]))

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """A report is of one model."""
        return None


@dataclass(frozen=True)
class QuestionSet(Reads):
    """A model, or one per fine-tuning seed where the analysis takes several, and questions with contexts."""

    default: str = "stories"
    seeds: bool = False
    inputs: ClassVar = (
        MODEL,
        Input(
            "data",
            "Questions: squad, squad_v1.1_dev, xquad_en, hotpotqa_sample, babi_en, stories, or a path.",
            option="--data",
            kind="questions",
        ),
    )

    @property
    def options(self) -> tuple[Declared, ...]:
        """See `Reads.options`."""
        help = (
            f"train, dev, test, all or {SCORED}: what a model tuned on this data is scored on (test; dev, where only "
            "that is given). A missing split is made by document and recorded."
        )
        return (_split(SCORED, help), FORMAT, LIMIT, *VIEW.values(), *MODEL_OPTIONS)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> Loaded:
        """See `Reads.load`; questions are shown as they were shown to the model when it was fine-tuned."""
        from lamina.training.answering import refuse_unfit

        encoder = self._encoder(given["model"], options, runtime)
        first = each_of(encoder)[0]
        questions = self._questions(given["data"], options, chosen_view(options, first))
        refuse_unfit(first, questions.questions(), questions.name)
        return model_and(encoder, questions, given["model"])

    def _encoder(self, model: Any, options: Mapping[str, Any], runtime: Runtime) -> Encoder | tuple[Encoder, ...]:
        if not self.seeds:
            return as_encoder(model, options, runtime)
        encoders = as_encoders(model, options, runtime)
        return encoders[0] if len(encoders) == 1 else encoders

    def _questions(self, data: Any, options: Mapping[str, Any], view: View) -> Questions:
        return as_questions(data, options, view)


@dataclass(frozen=True)
class OneQuestion(QuestionSet):
    """A model, and one question of a data set, or one that was typed with its context."""

    sampled: ClassVar[bool] = False

    @property
    def options(self) -> tuple[Declared, ...]:
        """See `Reads.options`."""
        typed = (
            Declared("question", str | None, None, Setting("Instead of data: a question of your own ...")),
            Declared("context", str | None, None, Setting("... about this context.")),
        )
        return (*super().options, *typed)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> Loaded:
        """See `Reads.load`."""
        question, context = options["question"], options["context"]
        if (question is None) != (context is None):
            raise InputError("--question and --context go together; give both")
        if question is not None and (given["data"] != self.default or settings.get("example") is not None):
            raise InputError("give either --data (with --example) or --question with --context, not both")
        return super().load(given, options, settings, runtime)

    def _questions(self, data: Any, options: Mapping[str, Any], view: View) -> Questions:
        from lamina.corpora.question_sets import typed_question

        question, context = options["question"], options["context"]
        if question is None or context is None:
            return as_questions(data, options, view)
        return typed_question(question, context)


@dataclass(frozen=True)
class Sentence(Reads):
    """A model and one sentence."""

    inputs: ClassVar = (MODEL, Input("sentence", "A sentence, in quotes.", metavar="SENTENCE"))

    @property
    def options(self) -> tuple[Declared, ...]:
        """See `Reads.options`."""
        return MODEL_OPTIONS

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> Loaded:
        """See `Reads.load`."""
        from lamina.corpora.corpus import fingerprint_of

        sentence = given["sentence"]
        words = isinstance(sentence, list | tuple) and all(isinstance(word, str) for word in sentence)
        if not words and not isinstance(sentence, str):
            raise InputError(f"a sentence is text or a list of words; got {kind_of(sentence)}")
        encoder = as_encoder(given["model"], options, runtime)
        about = {"name": "a typed sentence", "fingerprint": fingerprint_of("sentence", sentence), "split": ""}
        return Loaded((encoder, sentence), describe_models((encoder,)), about, (short_name(given["model"], encoder),))


@dataclass(frozen=True)
class SavedResults(Reads):
    """Results that were saved, or that are in memory."""

    inputs: ClassVar = (
        Input(
            "results",
            "Folders that one command wrote: `lamina probe`, `pairs` or `cloze`.",
            metavar="RESULT...",
            many=True,
        ),
    )

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> Loaded:
        """See `Reads.load`."""
        from lamina.corpora.corpus import fingerprint_of

        results = [as_result(each) for each in given["results"]]
        model, data = ([dict(getattr(each.provenance, part)) for each in results] for part in ("model", "corpus"))
        names = tuple(dict.fromkeys(str(each.get("name", "")) for each in model))
        about = {"name": " and ".join(names), "fingerprint": fingerprint_of([each.key for each in results])}
        about |= passports_in(model)
        texts = " and ".join(dict.fromkeys(str(each.get("name", "")) for each in data))
        fingerprint = fingerprint_of([each.get("fingerprint", "") for each in data])
        shorts = tuple(Path(name).name for name in names)
        return Loaded((results,), about, {"name": texts, "fingerprint": fingerprint}, shorts)


def model_and(encoder: Encoder | Sequence[Encoder], data: Corpus | Splits, model: Any) -> Loaded:
    """A model, as it was given and as it was loaded, and the data it reads."""
    encoders = each_of(encoder)
    about = data.describe()
    names = (short_name(model, encoders[0]), Path(data.name).stem, str(about.get("split", "")))
    return Loaded((encoder, data), describe_models(encoders), about, names)


def chosen_view(options: Mapping[str, Any], *models: Encoder | Path) -> View:
    """How questions are shown: as the options say, then as the last of the models was fine-tuned, then as they are."""
    from lamina.corpora.views import View
    from lamina.training.provenance import view_of

    own = [view for each in models if (view := view_of(each)) is not None]
    asked = {field: value for field, each in VIEW.items() if (value := options.get(each.name)) is not None}
    tasks = {"tasks": tuple(asked["tasks"])} if "tasks" in asked else {}
    return replace(own[-1] if own else View(), **(asked | tasks))


def _refuse_views(data: Any, options: Mapping[str, Any], split: str, *encoders: Encoder) -> None:
    """Raise a ModelError where two models were shown these questions in different ways, and none of them was chosen."""
    from lamina.training.provenance import view_of

    chosen = any(options.get(each.name) is not None for each in VIEW.values())
    views = {view for each in encoders if (view := view_of(each)) is not None}
    if chosen or len(views) < 2 or not isinstance(data, str | Path):
        return
    # Of a view, only what matters to this data is kept: most have one view only.
    if len({as_corpus(data, {**options, "view": view}, split).view for view in views}) > 1:
        flags = ", ".join(each.option for each in VIEW.values())
        names = " and ".join(each.name for each in encoders)
        raise ModelError(f"{names} were fine-tuned on different views of {data}; say which one to show ({flags})")
