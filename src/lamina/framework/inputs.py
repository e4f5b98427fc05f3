"""Inputs of analyses: models, texts, questions and results, by name, by path or in memory."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from lamina.errors import CorpusError, InputError, ModelError
from lamina.framework.passports import passports_in
from lamina.framework.settings import DeclaredSetting, Setting, read_group

if TYPE_CHECKING:
    from lamina.activations.runtime import Runtime
    from lamina.corpora import Corpus
    from lamina.corpora.corpus import View
    from lamina.corpora.question_sets import Questions
    from lamina.corpora.splits import Splits
    from lamina.models import Encoder
    from lamina.models.checks.passports import DescriptionFile
    from lamina.results import Result

AnyCorpus = TypeVar("AnyCorpus", bound="Corpus")


# Models: by name, by folder, or in memory; one, or one per seed of a fine-tuning.


def as_encoder(model: Any, options: Mapping[str, Any], runtime: Runtime) -> Encoder:
    """An encoder from a name, a folder, an encoder, or a model with its tokenizer; examined if it has no passport."""
    from lamina.models.checks.passports import passport_of

    before = _description(model, options, runtime)
    if runtime.described and before is not None:
        described = before.read(lambda: _loaded(model, options, runtime))
        if described is not None:
            return described
    encoder = _loaded(model, options, runtime)
    passport_of(encoder)
    after = _description(model, options, runtime)
    # Files that changed meanwhile may not be those that were loaded; before a download there are none.
    if after is not None and before in (None, after):
        after.keep(encoder)
    return encoder


def _description(model: Any, options: Mapping[str, Any], runtime: Runtime) -> DescriptionFile | None:
    from lamina.models.checks.passports import DescriptionFile

    if not isinstance(model, str | Path) or runtime.trust_remote_code:
        return None
    _refuse_seeds(Path(model))
    dtype = options.get("dtype", "float32")
    return DescriptionFile.of(str(model), runtime.device, dtype, chat=bool(options.get("chat")))


def _loaded(model: Any, options: Mapping[str, Any], runtime: Runtime) -> Encoder:
    from lamina.models import Encoder, load_encoder

    chat = bool(options.get("chat"))
    if isinstance(model, Encoder):
        if chat and "chat" not in model.origin:
            raise ModelError(f"{model.name} is already loaded without its chat template; load it with chat=True")
        return model
    if isinstance(model, str | Path):
        _refuse_seeds(Path(model))
        return load_encoder(
            str(model),
            device=runtime.device,
            dtype=options.get("dtype", "float32"),
            chat=chat,
            trust_remote_code=runtime.trust_remote_code,
        )
    if isinstance(model, tuple) and len(model) == 2:
        return load_encoder(model, chat=chat)
    raise ModelError(
        f"a model is a name, a folder, an Encoder or a pair (model, tokenizer) of transformers; got {kind_of(model)}"
    )


def _refuse_seeds(folder: Path) -> None:
    from lamina.training.provenance import seed_folders

    if (seeds := seed_folders(folder)) and not (folder / "config.json").exists():
        raise ModelError(
            f"{folder} holds the models of {len(seeds)} seeds, and one model is needed here; name one of them, such as "
            f"{seeds[0]}"
        )


def as_encoders(model: Any, options: Mapping[str, Any], runtime: Runtime) -> tuple[Encoder, ...]:
    """One encoder per seed for a folder of `lamina finetune --seeds` or a list of models; one encoder otherwise.

    The encoders of a folder have its name: measurements are means over them.
    """
    from lamina.training.provenance import ABOUT, folder_of, refuse_unlike, seed_folders

    if isinstance(model, str | Path):
        folders = seed_folders(model)
        refuse_unlike(folders)
        encoders = tuple(as_encoder(folder, options, runtime) for folder in folders)
        for encoder in encoders:
            encoder.name = Path(model).resolve().name
        return encoders or (as_encoder(model, options, runtime),)
    if not isinstance(model, list) or not model:
        return (as_encoder(model, options, runtime),)
    encoders = tuple(as_encoder(one, options, runtime) for one in model)
    if len({one.layers for one in encoders}) > 1:
        raise ModelError("the models of a list are seeds of one fine-tuning; these differ in their number of layers")
    homes = [folder_of(one) for one in encoders]
    refuse_unlike([home for home in homes if home is not None and (home / ABOUT).is_file()])
    return encoders


def each_of(encoder: Encoder | Sequence[Encoder]) -> tuple[Encoder, ...]:
    """One encoder, or one per seed, as a sequence.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> tiny = TinyEncoder()
        >>> each_of(tiny) == each_of([tiny]) == (tiny,)
        True
    """
    return tuple(encoder) if isinstance(encoder, Sequence) else (encoder,)


def describe_models(encoders: Sequence[Encoder]) -> dict[str, Any]:
    """Provenance of a model: of the first seed; with several, a fingerprint of all and an entry per seed."""
    from lamina.corpora.corpus import fingerprint_of
    from lamina.training.provenance import folder_of

    first = _described(encoders[0])
    if len(encoders) == 1:
        return first
    homes = [folder_of(encoder) for encoder in encoders]
    named = [encoder.name if home is None else home.name for encoder, home in zip(encoders, homes, strict=True)]
    seeds = [{**_described(encoder), "name": name} for encoder, name in zip(encoders, named, strict=True)]
    return {**first, "fingerprint": fingerprint_of([encoder.fingerprint for encoder in encoders]), "seeds": seeds}


def _described(encoder: Encoder) -> dict[str, Any]:
    from lamina.models.checks.passports import passport_of, summary

    return {**encoder.describe(), "passport": summary(passport_of(encoder))}


def short_name(model: Any, encoder: Encoder) -> str:
    """Its name in the names of folders."""
    return Path(model).name if isinstance(model, str | Path) else Path(encoder.name).name


def kind_of(value: Any) -> str:
    """What a wrong value is, in a word, for an error.

    Example:
        >>> kind_of(3), kind_of(None), kind_of(["a"])
        ('3', 'nothing (None)', 'list')
    """
    name = json.dumps(value)[:60] if isinstance(value, int | float | bool | None) else type(value).__name__
    return "nothing (None)" if value is None else name


# Data: by name, by path, or in memory.

SCORED = "scored"
"""In place of the name of a split of questions: the one that fine-tuning scores."""
_PART = ("limit", "first")
_AS_READ = ("unit", "format", "include", "exclude", "skip_faulty", "annotation", "split_from", *_PART, "view")
"""Options that say how data given by name or path is read."""


def as_corpus(data: Any, options: Mapping[str, Any], split: str = "dev") -> Corpus:
    """Texts from a name, a path, a corpus, (train, dev), splits by name, or a table."""
    from lamina.corpora import Corpus, corpus_from, load_corpus
    from lamina.corpora.splits import Splits

    chosen = {name: options[name] for name in ("split", *_AS_READ) if name in options}
    if isinstance(data, str | Path):
        return load_corpus(data, **{"split": split, **chosen})
    _refuse_split(chosen.get("split", split))
    if isinstance(data, Splits):
        corpus = data.train if chosen.get("split") == "train" else data.scored
    elif isinstance(data, Corpus):
        corpus = data
    elif _is_pair(data):
        corpus = as_splits(data, options).scored
    elif isinstance(data, Mapping):
        corpus = as_part(data, str(chosen.get("split", split)))
    elif _is_table(data):
        corpus = corpus_from(data, name="data", split=str(chosen.get("split", split)))
    else:
        raise InputError(
            "data is a name, a path, a Corpus, (train, dev), a dict of splits, a datasets.DatasetDict, or a list of "
            f"texts; got {kind_of(data)}"
        )
    return part_of(corpus, options)


def part_of(data: AnyCorpus, options: Mapping[str, Any]) -> AnyCorpus:
    """As many texts as the options say: a sample, or the first."""
    return data.part(options.get("limit"), options.get("first"))


def whole(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that take a part of the texts."""
    return {**options, **dict.fromkeys(_PART)}


def as_splits(data: Any, options: Mapping[str, Any]) -> Splits:
    """Training texts and scored texts, each up to the limit; a single set is split by document."""
    from lamina.corpora.loading import load_splits
    from lamina.corpora.splits import Splits, split_by_document

    chosen = {name: options[name] for name in _AS_READ if name in options}
    scored = str(options.get("split", "dev"))
    if isinstance(data, str | Path):
        return load_splits(data, scored, **chosen)
    _refuse_split(scored, ("dev", "test"))
    split_from = options.get("split_from")
    if isinstance(data, Mapping) and split_from is not None:
        data = as_part(data, split_from)
    if isinstance(data, Splits):
        splits = data
    elif _is_pair(data):
        splits = Splits(*(_as_part(part, name) for part, name in zip(data, ("train", scored), strict=True)))
    elif isinstance(data, Mapping) and any(name in data for name in ("train", "training")):
        splits = Splits(as_part(data, "train"), as_part(data, scored))
    else:
        splits = split_by_document(as_corpus(data, whole(options), scored), scored)
    return Splits(part_of(splits.train, options), part_of(splits.scored, options))


def _refuse_split(split: Any, known: Sequence[str] = ("train", "dev", "test", "all")) -> None:
    """Raise a CorpusError for a name that no split has, of data in memory; files refuse it where they are read."""
    if split not in known:
        names = ", ".join(known[:-1]) + f" or {known[-1]}"
        raise CorpusError(f"unknown split {str(split)[:60]!r}; use {names}")


def as_questions(data: Any, options: Mapping[str, Any], view: View | None = None) -> Questions:
    """Questions from a name, a path, or a set of questions; `view` applies to names and paths."""
    from lamina.corpora.detection import FileSelection
    from lamina.corpora.loading import scored_split
    from lamina.corpora.question_sets import Questions, load_questions

    if isinstance(data, Questions):
        return data
    if not isinstance(data, str | Path):
        raise InputError(f"questions are a name, a path or what load_questions gives; got {kind_of(data)}")
    chosen = {name: options[name] for name in _AS_READ if name in options and name not in ("unit", "annotation")}
    split = options["split"]
    if split == SCORED:
        selection = FileSelection.of(options.get("include"), options.get("exclude"))
        divided = options.get("split_from") is not None
        split = "test" if divided else scored_split(data, options["format"], selection)
    return load_questions(data, split, **{**chosen, "view": view})


def as_result(given: Any) -> Result:
    """A result from a folder or a result."""
    from lamina.results import Result

    if isinstance(given, Result):
        return given
    if not isinstance(given, str | Path):
        raise InputError(f"a result is a folder or what an analysis returned; got {kind_of(given)}")
    return Result.load(given)


_SYNONYMS = {"dev": ("dev", "validation", "valid", "val"), "train": ("train", "training")}


def as_part(data: Mapping[str, Any], split: str) -> Corpus:
    """One split of a mapping of splits; a missing one is an error."""
    if split == "all" and len(data) == 1:
        return _as_part(next(iter(data.values())), "all")
    for name in _SYNONYMS.get(split, (split,)):
        if name in data:
            return _as_part(data[name], split)
    raise CorpusError(f"there is no split {split!r} in what was given; it has: {', '.join(map(str, data)) or 'none'}")


def _as_part(data: Any, split: str) -> Corpus:
    from lamina.corpora import Corpus, corpus_from

    if isinstance(data, Corpus):
        return data
    if not _is_table(data):
        raise InputError(f"a split is a Corpus, a datasets.Dataset, a table or a list of texts; got {kind_of(data)}")
    return corpus_from(data, name="data", split=split)


def _is_pair(data: Any) -> bool:
    """Whether it is (train, dev): two sets of texts, not two texts."""
    return isinstance(data, tuple) and len(data) == 2 and all(_is_texts(part) for part in data)


def _is_texts(data: Any) -> bool:
    from lamina.corpora import Corpus

    if isinstance(data, Corpus) or hasattr(data, "columns") or hasattr(data, "column_names"):
        return True
    return isinstance(data, list) and bool(data) and not isinstance(data[0], str)


def _is_table(data: Any) -> bool:
    return isinstance(data, list | tuple) or hasattr(data, "columns") or hasattr(data, "column_names")


REQUIRED = inspect.Parameter.empty
Precision = Literal["float32", "bfloat16", "float16", "int8"]
Kind = Literal["model", "texts", "questions", "suite", "other"]
"""What an input is; pages have fields for models, texts, questions (which may be texts too) and test suites."""


@dataclass(frozen=True)
class Input:
    """One thing an analysis reads, in the order of the call."""

    name: str
    """In Python, in a request file and in the app."""
    help: str
    default: Any = REQUIRED
    option: str | None = None
    """On the command line; None for an argument without a name."""
    metavar: str | None = None
    many: bool = False
    kind: Kind = "other"
    named: tuple[str, ...] = ()
    """Names of suites that can be given instead of a path."""


@dataclass(frozen=True)
class LoadedInputs:
    """Loaded inputs, and their entries in provenance."""

    arguments: tuple[Any, ...]
    """Positional arguments of the analysis's function."""
    model: Mapping[str, Any]
    """Provenance of the model."""
    data: Mapping[str, Any]
    """Provenance of the data."""
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
    DeclaredSetting(
        "dtype",
        Precision,
        "float32",
        Setting(
            "Precision of the model; int8: weights of linear layers rounded to 8 bits, computed in float32.",
            group="machine",
        ),
    ),
    DeclaredSetting(
        "chat",
        bool,
        False,
        Setting("Put each text as the user's message into the chat template of the model's tokenizer."),
    ),
)
FORMAT = DeclaredSetting(
    "format",
    str | None,
    None,
    Setting("The format of a file or folder, detected by default; table:text=COLUMN,label=COLUMN for columns."),
)
ANNOTATION = DeclaredSetting(
    "annotation",
    str | None,
    None,
    Setting("A name for the only annotation of the data, or OLD=NEW,... for some of them."),
)
LIMIT = DeclaredSetting(
    "limit",
    int | None,
    None,
    Setting("Number of texts to draw at random, as whole documents; the last one is cut.", min=1),
)
FILES = (
    DeclaredSetting(
        "include",
        str | None,
        None,
        Setting("Of a folder, read only files that match, by path or name.", metavar="PATTERN,..."),
    ),
    DeclaredSetting(
        "exclude", str | None, None, Setting("Of a folder, leave out files that match.", metavar="PATTERN,...")
    ),
    DeclaredSetting(
        "skip_faulty",
        float,
        0.0,
        Setting("Largest share of texts that may be left out because of a fault in the file.", min=0, max=0.99),
    ),
)
"""Options that say what of a file or folder is read."""
SPLIT_FROM = DeclaredSetting(
    "split_from",
    str | None,
    None,
    Setting("Divide this split (dev or test) by document into train, dev and test, where there is no train."),
)
FIRST = DeclaredSetting("first", int | None, None, Setting("Take the first N texts instead of drawing some.", min=1))
# A mapping or a `lamina.View` in Python; naming the class here would import all of corpora/ for every command.
VIEW = DeclaredSetting(
    "view",
    str | object | None,
    None,
    Setting(
        "How questions are shown, where not as the model was fine-tuned: fields of `lamina.View` by name, as in "
        "setting=support,tasks=1+2.",
        metavar="NAME=VALUE,...",
    ),
)
"""How questions are shown to a model."""
_VIEW_FIELDS = {
    "setting": str,
    "max_words": int,
    "babi": str,
    "tasks": tuple,
    "seed": int,
    "segments": str,
    "support": str,
}


_SPLIT_HELP = "train, dev, test or all; a missing split is made by document and recorded."


def _split(default: str, help: str = _SPLIT_HELP, kind: Any = Literal["train", "dev", "test", "all"]):
    return DeclaredSetting("split", kind, default, Setting(help))


def _unit(default: str | None) -> DeclaredSetting:
    kind = str if default else str | None
    help = "What becomes one text: sentence, document, or window:N (at most N words)."
    if default is None:
        help += " By default document where there are chains of mentions, otherwise sentence."
    return DeclaredSetting("unit", kind, default, Setting(help))


class Reads(ABC):
    """How an analysis loads its inputs; one instance per analysis, with its defaults."""

    inputs: ClassVar[tuple[Input, ...]]
    """In the order of the call."""
    seeds: bool = False
    """Whether the analysis takes the models of several fine-tuning seeds as one."""
    sampled: ClassVar[bool] = True
    """Whether the data is a sample, so that too little of it is a warning."""
    speaks: ClassVar[bool] = False
    """Whether the analysis needs a language-model head."""

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """Settings of the data: split, unit, format and the like."""
        return ()

    @property
    def given(self) -> tuple[Input, ...]:
        """The inputs, with the data that this analysis takes by default."""
        default = getattr(self, "default", REQUIRED)
        return tuple(replace(one, default=default) if one.name == "data" else one for one in self.inputs)

    @abstractmethod
    def load(
        self,
        given: Mapping[str, Any],
        options: Mapping[str, Any],
        settings: Mapping[str, Any],
        runtime: Runtime,
    ) -> LoadedInputs:
        """Load inputs given by name or path; objects are taken as they are."""

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """The inputs in a report; None if a report cannot run the analysis."""
        return None


@dataclass(frozen=True)
class Texts(Reads):
    """A model and texts."""

    default: str = "ewt"
    split: str = "dev"
    unit: str | None = "sentence"
    carrying: Mapping[str, str] = field(default_factory=dict)
    """Annotations that the texts must have -> their names in words."""
    inputs: ClassVar = (MODEL, _TEXTS)

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return (
            _split(self.split),
            SPLIT_FROM,
            _unit(self.unit),
            FORMAT,
            *FILES,
            ANNOTATION,
            LIMIT,
            FIRST,
            *MODEL_OPTIONS,
        )

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
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
        """Analyses that need many words read the training texts if there are any."""
        many = self.split in ("train", "all") and train is not None
        return {"model": encoder, "data": train.take(MOST_IN_REPORT) if many and train is not None else texts}


MOST_IN_REPORT = 8000
"""Training texts that a report reads: enough words for every class, within the report's time."""


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
        looked_at = as_corpus(data, {**whole(options), "unit": "sentence"}, self.split)
        unit = "document" if "chains" in looked_at.annotations else "sentence"
        return as_corpus(data, {**options, "unit": unit}, self.split)


@dataclass(frozen=True)
class TrainedTexts(Texts):
    """A model, training texts and scored texts."""

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return (_split(self.split, "Scored split: dev or test.", Literal["dev", "test"]), *super().options[1:])

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        texts = as_splits(given["data"], options)
        return model_and(as_encoder(given["model"], options, runtime), texts, given["model"])

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """See `Reads.in_report`."""
        from lamina.corpora.splits import Splits

        # Without training texts, the texts are split by document.
        return {"model": encoder, "data": texts if train is None else Splits(train, texts)}


@dataclass(frozen=True)
class TwoModels(Texts):
    """Two models of one architecture, or the seeds of two fine-tunings, and texts.

    With training texts if tasks are probed; questions in the view of the fine-tuning.
    """

    seeds = True
    inputs: ClassVar = (
        Input("model", "The model before: an alias, a Hugging Face id or a folder.", metavar="MODEL_A", kind="model"),
        Input("other", "The model after: best a folder that `lamina finetune` wrote.", metavar="MODEL_B", kind="model"),
        _TEXTS,
    )

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return (*super().options, VIEW)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        from lamina.corpora.corpus import fingerprint_of

        a, b = (as_encoders(given[name], options, runtime) for name in ("model", "other"))
        _refuse_views(given["data"], options, self.split, a[0], b[0])
        read_with = {**options, "view": chosen_view(options, a[0], b[0])}
        probing = bool(settings.get("tasks"))
        texts = as_splits(given["data"], read_with) if probing else as_corpus(given["data"], read_with, self.split)
        sides = [describe_models(encoders) for encoders in (a, b)]
        fingerprint = fingerprint_of(*(side["fingerprint"] for side in sides))
        about = {"name": f"{a[0].name} and {b[0].name}", "fingerprint": fingerprint, "a": sides[0], "b": sides[1]}
        short = [short_name(given[name], encoders[0]) for name, encoders in (("model", a), ("other", b))]
        return LoadedInputs((a, b, texts), about, texts.describe(), (*short, Path(texts.name).stem, options["split"]))

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """None: a report reads one model."""
        return None


@dataclass(frozen=True)
class SeveralModels(Texts):
    """One model or more, of any architectures, and texts."""

    inputs: ClassVar = (
        replace(MODEL, help="One model or several: aliases (`lamina assets list`), ids, folders.", many=True),
        _TEXTS,
    )

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        from lamina.corpora.corpus import fingerprint_of

        texts = self._texts(given["data"], options)
        models = given["model"] if isinstance(given["model"], list | tuple) else [given["model"]]
        encoders = tuple(as_encoder(model, options, runtime) for model in models)
        if not encoders or len({encoder.fingerprint for encoder in encoders}) < len(encoders):
            raise InputError("name one model, or several different ones")
        names = [short_name(model, encoder) for model, encoder in zip(models, encoders, strict=True)]
        about = describe_models(encoders[:1])
        if len(encoders) > 1:
            described = [describe_models((encoder,)) for encoder in encoders]
            fingerprint = fingerprint_of([one["fingerprint"] for one in described])
            about = {"name": " and ".join(encoder.name for encoder in encoders), "fingerprint": fingerprint}
            about |= {"models": described} | passports_in(described)
        data = texts.describe()
        return LoadedInputs((encoders, texts), about, data, (*names, Path(texts.name).stem, str(data.get("split", ""))))

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """See `Reads.in_report`; all texts, those that others learn from too."""
        from lamina.corpora.corpus import joined

        return {"model": encoder, "data": texts if train is None else joined(train, texts)}


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
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        help = (
            f"train, dev, test, all or {SCORED}: what a model tuned on this data is scored on (test; dev, where only "
            "that is given). A missing split is made by document and recorded."
        )
        return (_split(SCORED, help, str), SPLIT_FROM, FORMAT, *FILES, LIMIT, FIRST, VIEW, *MODEL_OPTIONS)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; questions are shown in the view that the model was fine-tuned with."""
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
    """A model, and one question of a data set or a typed question with its context."""

    sampled: ClassVar[bool] = False

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        typed = (
            DeclaredSetting("question", str | None, None, Setting("Instead of data: a question of your own ...")),
            DeclaredSetting("context", str | None, None, Setting("... about this context.")),
            DeclaredSetting("answer", str | None, None, Setting("The right answer, as the context has it.")),
            DeclaredSetting(
                "support",
                Sequence[str] | None,
                None,
                Setting("Words of a supporting sentence; by default the sentences that hold the answer."),
            ),
        )
        return (*super().options, *typed)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        question, context = options["question"], options["context"]
        if (question is None) != (context is None):
            raise InputError("--question and --context go together; give both")
        if question is None and (options.get("answer") is not None or options.get("support")):
            raise InputError("--answer and --support belong to a typed question; give --question and --context too")
        if question is not None and (given["data"] != self.default or settings.get("example") is not None):
            raise InputError("give either --data (with --example) or --question with --context, not both")
        return super().load(given, options, settings, runtime)

    def _questions(self, data: Any, options: Mapping[str, Any], view: View) -> Questions:
        from lamina.corpora.question_sets import typed_question

        question, context = options["question"], options["context"]
        if question is None or context is None:
            return as_questions(data, options, view)
        return typed_question(question, context, options.get("answer") or "", options.get("support") or ())


@dataclass(frozen=True)
class Sentence(Reads):
    """A model and one sentence."""

    inputs: ClassVar = (MODEL, Input("sentence", "A sentence, in quotes.", metavar="SENTENCE"))

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return MODEL_OPTIONS

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        from lamina.corpora.corpus import fingerprint_of

        sentence = given["sentence"]
        words = isinstance(sentence, list | tuple) and all(isinstance(word, str) for word in sentence)
        if not words and not isinstance(sentence, str):
            raise InputError(f"a sentence is text or a list of words; got {kind_of(sentence)}")
        encoder = as_encoder(given["model"], options, runtime)
        about = {"name": "a typed sentence", "fingerprint": fingerprint_of("sentence", sentence), "split": ""}
        return LoadedInputs(
            (encoder, sentence), describe_models((encoder,)), about, (short_name(given["model"], encoder),)
        )


@dataclass(frozen=True)
class SavedResults(Reads):
    """Results: folders or objects in memory."""

    inputs: ClassVar = (
        Input(
            "results",
            "Folders that one command wrote for different models, for example `lamina probe` or `lamina pairs`.",
            metavar="RESULT...",
            many=True,
        ),
    )

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`."""
        from lamina.corpora.corpus import fingerprint_of

        results = [as_result(result) for result in given["results"]]
        model, data = ([dict(getattr(result.provenance, part)) for result in results] for part in ("model", "corpus"))
        names = tuple(dict.fromkeys(str(about.get("name", "")) for about in model))
        about = {"name": " and ".join(names), "fingerprint": fingerprint_of([result.key for result in results])}
        about |= passports_in(model)
        texts = " and ".join(dict.fromkeys(str(about.get("name", "")) for about in data))
        fingerprint = fingerprint_of([about.get("fingerprint", "") for about in data])
        shorts = tuple(Path(name).name for name in names)
        return LoadedInputs((results,), about, {"name": texts, "fingerprint": fingerprint}, shorts)


def model_and(encoder: Encoder | Sequence[Encoder], data: Corpus | Splits, model: Any) -> LoadedInputs:
    """Loaded inputs of a model (as given and as loaded) and its data."""
    encoders = each_of(encoder)
    about = data.describe()
    names = (short_name(model, encoders[0]), Path(data.name).stem, str(about.get("split", "")))
    return LoadedInputs((encoder, data), describe_models(encoders), about, names)


def chosen_view(options: Mapping[str, Any], *models: Encoder | Path) -> View:
    """How questions are shown: as the options say, then as the last of the models was fine-tuned, then as they are."""
    from lamina.corpora.corpus import View
    from lamina.training.provenance import view_of

    given = options.get("view")
    if isinstance(given, View):
        return given
    if given is not None and not isinstance(given, str | Mapping):
        raise InputError(f"a view is text, a mapping or a lamina.View; got {kind_of(given)}")
    learned = [view for model in models if (view := view_of(model)) is not None]
    chosen = {} if given is None else read_group(given, _VIEW_FIELDS, "the view")
    return replace(learned[-1] if learned else View(), **chosen)


def _refuse_views(data: Any, options: Mapping[str, Any], split: str, *encoders: Encoder) -> None:
    """Raise a ModelError where two models were shown these questions in different ways, and none of them was chosen."""
    from lamina.training.provenance import view_of

    views = {view for encoder in encoders if (view := view_of(encoder)) is not None}
    if options.get("view") is not None or len(views) < 2 or not isinstance(data, str | Path):
        return
    # Of a view, only what matters to this data is kept: most have one view only.
    if len({as_corpus(data, {**options, "view": view}, split).view for view in views}) > 1:
        names = " and ".join(encoder.name for encoder in encoders)
        raise ModelError(
            f"{names} were fine-tuned on different views of {data}; say which one to show ({VIEW.option}, for example "
            "babi=span)"
        )
