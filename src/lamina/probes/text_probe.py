"""A linear probe that can be used and passed on: labels with calibrated probabilities, bound to the model it reads.

A folder with the weights (safetensors) and a card. The probe remembers the fingerprint of its model and the vectors of
a few sentences: where the model gives others, it refuses to answer.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from lamina.corpora import corpus_from
from lamina.errors import CorpusError, DamagedError, InputError, ModelError
from lamina.files.checking import load_tensors, save_tensors
from lamina.files.writing import fresh_folder, write_text
from lamina.models import Activations, Encoder, load_encoder
from lamina.models.contract import TOLERANCE, apart
from lamina.types import Edge, Span, Text

WEIGHTS, CARD = "probe.safetensors", "README.md"
_KNOWN = (
    ("The", "dogs", "barked", "all", "night", "."),
    ("Nobody", "paid", "$", "1,000", "for", "it", "."),
    ("Yes",),
)
"""Sentences whose vectors the probe remembers."""
_BINS = 15
"""Of confidence, in which calibration is measured."""
_FORMAT = 1

ProbeKind = Literal["class", "classes", "value"]
"""One label out of all; any number of labels; a number."""
TargetKind = Literal["whole texts", "words", "spans", "pairs of words", "pairs of spans"]


def pooled_states(
    states: Float[np.ndarray, "token layer width"], maps: np.ndarray | None, pooling: str, start: int, end: int
) -> Float[np.ndarray, "layer width"]:
    """The vector of some tokens at every layer.

    Args:
        states: of a text.
        maps: the attention that each token gets by block, [block, token]; for the pooling `attention` alone, which is
            the mean where a text has none.
        pooling: mean, first, last, max or attention.
        start: the first token.
        end: one past the last.

    Example:
        >>> pooled_states(np.array([[[1.0]], [[4.0]]]), None, "max", 0, 2).tolist()
        [[4.0]]
    """
    span = states[start:end]
    if pooling == "first":
        return span[0]
    if pooling == "last":
        return span[-1]
    if pooling == "max":
        return span.max(0)
    if pooling == "attention" and maps is not None and len(maps) == span.shape[1] - 1:
        shares = maps[:, start:end] / maps[:, start:end].sum(1, keepdims=True).clip(1e-12)
        # Layer 0 has no block before it.
        shares = np.concatenate([np.full((1, end - start), 1 / (end - start)), shares])
        return np.einsum("tlw,lt->lw", span, shares.astype(np.float32))
    return span.mean(0)


class Calibration(NamedTuple):
    """How well probabilities tell how often a probe is right, on examples it did not learn from."""

    temperature: float
    """Logits are divided by it."""
    error: float
    """Expected calibration error with it: by how much confidence and share of right answers differ, on average."""
    before: float
    """The same without it."""


def calibrate(
    logits: Float[np.ndarray, "example label"],
    gold: Float[np.ndarray, "example label"],
    fold: np.ndarray,
    kind: ProbeKind,
    rated: Bool[np.ndarray, "example label"] | None = None,
) -> Calibration:
    """Fit a temperature to held-out logits; its error is measured on folds that did not fit it.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> gold = np.eye(2)[rng.integers(0, 2, 2000)]
        >>> noisy = 8 * (gold + rng.normal(0, 1, gold.shape))
        >>> found = calibrate(noisy, gold, np.arange(2000) % 5, "class")
        >>> bool(found.temperature > 2), found.error < found.before
        (True, True)
    """
    from scipy.optimize import minimize_scalar

    if kind == "value":
        return Calibration(1.0, np.nan, np.nan)
    counted = np.ones(gold.shape, bool) if rated is None else rated

    def loss(temperature: float, rows: np.ndarray) -> float:
        scaled = logits[rows] / np.exp(temperature)
        if kind == "class":
            top = scaled.max(1, keepdims=True)
            likely = scaled - top - np.log(np.exp(scaled - top).sum(1, keepdims=True))
            return -float((likely * gold[rows]).sum(1).mean())
        return float(((np.logaddexp(0, scaled) - scaled * gold[rows]) * counted[rows]).sum(1).mean())

    def fitted(rows: np.ndarray) -> float:
        lowest: Any = minimize_scalar(loss, bounds=(-3, 3), args=(rows,), method="bounded")
        return float(np.exp(lowest.x))

    everything = np.arange(len(logits))
    scaled = np.empty_like(logits)
    for number in np.unique(fold):
        scaled[fold == number] = logits[fold == number] / fitted(np.flatnonzero(fold != number))
    return Calibration(
        fitted(everything),
        _calibration_error(scaled, gold, kind, counted),
        _calibration_error(logits, gold, kind, counted),
    )


def _calibration_error(logits: np.ndarray, gold: np.ndarray, kind: ProbeKind, rated: np.ndarray) -> float:
    likely = _probabilities(logits, kind)
    if kind == "class":
        sure, right = likely.max(1), gold[np.arange(len(gold)), likely.argmax(1)]
    else:
        sure, right = likely[rated], gold[rated]
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    apart_by_bin = np.bincount(bins, sure - right, _BINS)
    return float(np.abs(apart_by_bin).sum() / max(1, len(sure)))


def _probabilities(logits: Float[np.ndarray, "example label"], kind: ProbeKind) -> np.ndarray:
    if kind == "class":
        raised = np.exp(logits - logits.max(1, keepdims=True))
        return raised / raised.sum(1, keepdims=True)
    return 1 / (1 + np.exp(-logits.clip(-500, 500)))


@dataclass(frozen=True)
class ProbeCard:
    """What a saved probe says of itself."""

    task: str
    annotation: str
    labels: tuple[str, ...]
    kind: ProbeKind
    targets: TargetKind
    model: str
    """As it was named."""
    fingerprint: str
    """Of the model."""
    layer: int
    pooling: str
    metric: str
    value: float
    """Cross-validated, chosen by what is not scored."""
    low: float
    high: float
    temperature: float
    calibration_error: float
    calibration_error_before: float
    corpus: str
    corpus_fingerprint: str
    examples: int
    penalty: float
    versions: Mapping[str, str]
    dtype: str = "float32"

    def in_markdown(self) -> str:
        """The card as a page."""
        numbers = f"{self.metric} {self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"
        calibrated = (
            f"Expected calibration error on held-out data: {self.calibration_error:.3f} with temperature "
            f"{self.temperature:.2f}, {self.calibration_error_before:.3f} without."
            if self.kind != "value"
            else "It predicts a number, without a probability."
        )
        rows = {
            "Reads": f"layer {self.layer} of {self.model}, pooling {self.pooling}",
            "Model fingerprint": self.fingerprint,
            "Targets": self.targets,
            "Labels": ", ".join(self.labels),
            "Learned from": f"{self.examples:,} targets of {self.corpus} ({self.corpus_fingerprint[:12]})",
            "Score": f"{numbers}, nested cross-validation by document",
            "Penalty": f"{self.penalty:g}",
            "Versions": ", ".join(f"{name} {version}" for name, version in self.versions.items()),
        }
        table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
        return (
            f"# A linear probe for {self.task}\n\n| | |\n|---|---|\n{table}\n\n{calibrated}\n\n"
            "It answers only with this model: other weights, another precision or a library that computes otherwise "
            "are refused.\n\n"
            '```python\nimport lamina\n\nprobe = lamina.load_probe("FOLDER")\n```\n'
        )


class ProbeAnswer(NamedTuple):
    """What a probe says of one target."""

    label: str | tuple[str, ...] | float
    """The most likely label; all labels that are more likely than not; or the value."""
    probability: float
    """Of the label; of several, that of the least likely; NaN for values."""


class TextProbe:
    """A fitted linear probe together with the model that it reads.

    `probe(texts)` gives one answer per text where texts were labelled, a list of one answer per word where words were.
    """

    def __init__(self, card: ProbeCard, tensors: Mapping[str, torch.Tensor], encoder: Encoder | None = None) -> None:
        self.card, self._tensors, self._given = card, dict(tensors), encoder

    @cached_property
    def encoder(self) -> Encoder:
        """The model; an error where it is not the one that the probe was fitted on."""
        encoder = self._given
        if encoder is None:
            encoder = load_encoder(self.card.model, dtype=self.card.dtype)  # type: ignore[arg-type]
        if encoder.fingerprint != self.card.fingerprint:
            raise ModelError(
                f"this probe reads {self.card.model} ({self.card.fingerprint[:12]}), and {encoder.name} has other "
                f"weights, another precision or another tokenizer ({encoder.fingerprint[:12]}); give the model that "
                "it was fitted on"
            )
        known = self._tensors["known"]
        error = apart(torch.from_numpy(self._known_vectors(encoder)), known)
        if error > TOLERANCE[torch.float32]:
            raise ModelError(
                f"{encoder.name} computes otherwise than when the probe was fitted: vectors of known sentences are "
                f"{error:.2g} apart (at most {TOLERANCE[torch.float32]:g}); fitted with "
                f"{', '.join(f'{name} {version}' for name, version in self.card.versions.items())}"
            )
        return encoder

    def __call__(self, texts: Iterable[str | Sequence[str] | Text]) -> list[Any]:
        """One answer per text, or per word of each text.

        Where spans or pairs were labelled, give `Text`s whose edges (under the name of the annotation) are the targets.
        """
        listed = as_texts(texts)
        answers = self._answers(listed)
        if self.card.targets == "whole texts":
            return [answers[number][0] for number in range(len(listed))]
        return answers

    def vectors(self, texts: Iterable[str | Sequence[str] | Text]) -> Float[np.ndarray, "target width"]:
        """What the probe reads: one row per target."""
        return np.concatenate(list(self._vectors(self.encoder, as_texts(texts))))

    def probabilities(self, texts: Iterable[str | Sequence[str] | Text]) -> Float[np.ndarray, "target label"]:
        """Calibrated, one row per target; of values, the values."""
        return self._likely(self.vectors(texts))

    def to_sklearn(self) -> Any:
        """A scikit-learn pipeline with the same answers: texts to vectors, to standardised vectors, to labels."""
        from sklearn.linear_model import LogisticRegression, Ridge
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import FunctionTransformer, StandardScaler

        if self.card.kind == "classes":
            raise InputError("a probe with several labels per target has no single estimator; use its probabilities")
        weights, bias = (self._tensors[name].double().numpy() for name in ("weights", "bias"))
        middle, spread = (self._tensors[name].double().numpy() for name in ("middle", "spread"))
        scaler: Any = StandardScaler()
        # A feature that never varied has an infinite spread: it counts for nothing.
        scaler.mean_, scaler.scale_, scaler.var_ = middle, spread, np.square(spread)
        scaler.n_features_in_, scaler.n_samples_seen_ = len(middle), self.card.examples
        model: Any
        if self.card.kind == "value":
            model = Ridge(alpha=self.card.penalty * self.card.examples)
            model.coef_, model.intercept_ = weights[0], float(bias[0])
        else:
            model = LogisticRegression()
            weights, bias = weights / self.card.temperature, bias / self.card.temperature
            if len(weights) == 2:
                weights, bias = weights[1:] - weights[:1], bias[1:] - bias[:1]
            model.coef_, model.intercept_, model.classes_ = weights, bias, np.array(self.card.labels)
        model.n_features_in_ = len(middle)
        return Pipeline([("vectors", FunctionTransformer(self.vectors)), ("scale", scaler), ("probe", model)])

    def save(self, folder: str | Path) -> None:
        """Write the weights and the card; a folder that is no probe is not overwritten."""
        folder = Path(folder)
        refuse_other(folder)
        with fresh_folder(folder) as fresh:
            save_tensors(fresh / WEIGHTS, self._tensors, {"format": _FORMAT, **asdict(self.card)})
            write_text(fresh / CARD, self.card.in_markdown())

    @classmethod
    def fitted(cls, card: Mapping[str, Any], parts: Mapping[str, torch.Tensor], encoder: Encoder) -> TextProbe:
        """A new probe of a model: the card's entries about the model and the known vectors are added.

        Args:
            card: the other entries of `ProbeCard`.
            parts: weights, bias, middle and spread.
            encoder: the model.
        """
        versions = {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "transformers": version("transformers"),
        }
        name = getattr(encoder.loader, "name", None)
        whole = ProbeCard(
            model=name if isinstance(name, str) else encoder.name,
            fingerprint=encoder.fingerprint,
            versions=versions,
            **card,
        )
        probe = cls(whole, parts, encoder)
        probe._tensors["known"] = torch.from_numpy(probe._known_vectors(encoder))
        return probe

    def _known_vectors(self, encoder: Encoder) -> Float[np.ndarray, "text width"]:
        texts = [Text(f"known {number}", words) for number, words in enumerate(_KNOWN)]
        return np.stack([_pooled_text(encoder, text, self.card.pooling)[self.card.layer] for text in texts])

    def _answers(self, texts: Sequence[Text]) -> list[list[ProbeAnswer]]:
        answers = []
        for rows in self._vectors(self.encoder, texts):
            likely = self._likely(rows)
            answers.append([self._answer(one) for one in likely])
        return answers

    def _answer(self, likely: Float[np.ndarray, " label"]) -> ProbeAnswer:
        if self.card.kind == "value":
            return ProbeAnswer(float(likely[0]), float("nan"))
        if self.card.kind == "class":
            best = int(likely.argmax())
            return ProbeAnswer(self.card.labels[best], float(likely[best]))
        chosen = np.flatnonzero(likely > 0.5)
        certainty = float(likely[chosen].min()) if len(chosen) else float(1 - likely.max())
        return ProbeAnswer(tuple(self.card.labels[number] for number in chosen.tolist()), certainty)

    def _likely(self, vectors: np.ndarray) -> np.ndarray:
        parts = {name: self._tensors[name].double().numpy() for name in ("weights", "bias", "middle", "spread")}
        logits = (vectors - parts["middle"]) / parts["spread"] @ parts["weights"].T + parts["bias"]
        return logits if self.card.kind == "value" else _probabilities(logits / self.card.temperature, self.card.kind)

    def _vectors(self, encoder: Encoder, texts: Sequence[Text]) -> Iterator[np.ndarray]:
        """[target, width] of each text."""
        maps = ("states", "maps") if self.card.pooling == "attention" else ("states",)
        for text, one in zip(texts, encoder.encode(texts, maps), strict=True):
            states = _states_of(one)[:, [self.card.layer]]
            got = None
            if one.maps is not None and self.card.layer:
                got = one.maps[[self.card.layer - 1]].float().mean((1, 2)).cpu().numpy()
                states = np.repeat(states, 2, 1)
            rows = []
            for spans in self._spans(text, one.tokens.words):
                sides = [pooled_states(states, got, self.card.pooling, *span)[-1] for span in spans]
                rows.append(np.concatenate(sides))
            yield np.array(rows, np.float64).reshape(len(rows), len(self._tensors["middle"]))

    def _spans(self, text: Text, words: np.ndarray) -> Iterator[list[tuple[int, int]]]:
        """Tokens of each target, one pair of ends per side."""
        if self.card.targets == "whole texts":
            yield [(0, len(words))]
            return
        edges = text.edges.get(self.card.annotation, ())
        if self.card.targets == "words" and not edges:
            edges = tuple(Edge((), Span(word, word + 1)) for word in range(len(text.words)))
        if not edges:
            raise CorpusError(
                f"text {text.id} has no {self.card.annotation}: this probe answers about {self.card.targets}, so the "
                "targets have to be given"
            )
        for edge in edges:
            ends = []
            for span in (edge.span, edge.other):
                if span is not None:
                    tokens = np.flatnonzero((words >= span.start) & (words < span.end))
                    ends.append((int(tokens[0]), int(tokens[-1]) + 1))
            yield ends


def _pooled_text(encoder: Encoder, text: Text, pooling: str) -> Float[np.ndarray, "layer width"]:
    one = next(iter(encoder.encode([text])))
    plain = "mean" if pooling == "attention" else pooling
    return pooled_states(_states_of(one), None, plain, 0, len(one.tokens.ids))


def _states_of(one: Activations) -> Float[np.ndarray, "token layer width"]:
    if one.states is None:
        raise ModelError(f"text {one.text} has no hidden states")
    return one.states.float().cpu().numpy()


def refuse_other(folder: Path) -> None:
    """Raise an InputError where saving a probe would overwrite something else."""
    if folder.exists() and not (folder / WEIGHTS).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a saved probe; name another folder")


def as_texts(given: Iterable[str | Sequence[str] | Text]) -> list[Text]:
    """Running text, lists of words or texts, as texts."""
    if isinstance(given, str):
        raise InputError("give a list of texts, not one string")
    return list(corpus_from(list(given), name="given"))


def load_probe(folder: str | Path, model: Encoder | None = None) -> TextProbe:
    """A probe that `lamina choose --save` wrote; its model is loaded when it is first asked.

    Args:
        folder: where it is.
        model: an encoder that is loaded already; otherwise the model is loaded by the name in the card.

    Example:
        >>> probe = lamina.load_probe("probe/")  # doctest: +SKIP
        >>> probe(["What a waste of time."])  # doctest: +SKIP
        [ProbeAnswer(label='negative', probability=0.93)]
    """
    path = Path(folder) / WEIGHTS
    if not path.is_file():
        raise InputError(f"{folder} is not a saved probe (no {WEIGHTS}); `lamina choose ... --save FOLDER` writes one")
    tensors, head = load_tensors(path)
    if head.pop("format", None) != _FORMAT:
        raise DamagedError(f"{path} is of another version of lamina; fit the probe again")
    try:
        card = ProbeCard(**{**head, "labels": tuple(head["labels"])})
    except (KeyError, TypeError) as error:
        raise DamagedError(f"{path} is damaged ({error})") from None
    return TextProbe(card, tensors, model)
