"""For testing your own code and lamina itself: checks of what an encoder has to do, and a tiny encoder that does it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import torch

from lamina.errors import ModelError
from lamina.models import SPECIAL, Activations, Encoder, Tokens
from lamina.models.checks.interventions import check_interventions
from lamina.models.checks.passports import examine
from lamina.models.contract import SHARE, STATES, TOLERANCE, Want, apart
from lamina.types import Span, Text

__all__ = ["SAMPLE_TEXTS", "TinyEncoder", "check_encoder", "check_interventions"]

_VOCABULARY = 1000
_CLS, _SEP = 1, 2
_PIECE = 3

SAMPLE_TEXTS = (
    Text("plain", ("The", "unhesitating", "dogs", "barked", ".")),
    Text("one word", ("Yes",)),
    Text("clitics and signs", ("I", "ca", "n't", "pay", "$", "1,000.50", "(", "or", "50", "%", ")", "!!!")),
    Text("scripts", ("naïve", "Zoë", "東京", "Привет", "😀", "ﬁn")),
    Text("no piece", ("zero", "\u200d", "width")),
    Text("two segments", ("Who", "barked", "?", "The", "dogs", "did", "."), (Span(0, 3), Span(3, 7))),
    Text(
        "longer",
        ("the", "lazy", "dog", "runs", "far", "and", "further", "away", "from", "the", "quick", "fox"),
    ),
)
"""Texts that have broken word alignment before."""


class TinyEncoder(Encoder):
    """A tiny random transformer: real blocks and heads, no weights to download.

    Words are split into pieces of three letters; `[CLS]` and separators are added as in BERT. With `causal`, no token
    sees a later one.

    Example:
        >>> activations = next(TinyEncoder(blocks=2).encode([Text("a", ("Hello", "you"))]))
        >>> activations.tokens.words.tolist()
        [-1, 0, 0, 1, -1]
        >>> activations.states.shape
        torch.Size([5, 3, 16])
    """

    def __init__(
        self,
        *,
        blocks: int = 2,
        heads: int = 2,
        width: int = 16,
        seed: int = 0,
        scale: float = 1.0,
        causal: bool = False,
    ) -> None:
        self.blocks, self.heads, self.width, self.causal = blocks, heads, width, causal
        self.name = "tiny"
        self._seed, self._scale = seed, scale
        draw = torch.Generator().manual_seed(seed)
        self._embeddings = torch.randn(_VOCABULARY, width, generator=draw)
        self._weights = torch.randn(blocks, 4, width, width, generator=draw) / width**0.5

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        kind = "tiny decoder" if self.causal else "tiny"
        digest = hashlib.sha256(f"{kind} {self.blocks} {self.heads} {self.width} {self._scale}".encode())
        digest.update(self._embeddings.numpy().tobytes())
        digest.update(self._weights.numpy().tobytes())
        return digest.hexdigest()

    def tokenize(self, text: Text) -> Tokens:
        """See `Encoder.tokenize`."""
        ids, words = [_CLS], [SPECIAL]
        for segment in text.segments:
            for word in segment:
                letters = text.words[word]
                pieces = [letters[start : start + _PIECE] for start in range(0, max(1, len(letters)), _PIECE)]
                ids += [_piece_id(piece) for piece in pieces]
                words += [word] * len(pieces)
            ids.append(_SEP)
            words.append(SPECIAL)
        return Tokens(np.array(ids, np.int32), np.array(words, np.int32))

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """See `Encoder.encode`."""
        for text in texts:
            tokens = self.tokenize(text)
            states, maps, norms = self._run(torch.from_numpy(tokens.ids).long())
            yield Activations(
                text.id,
                tokens,
                states * self._scale if "states" in want else None,
                maps if "maps" in want else None,
                norms=norms if "norms" in want else None,
            )

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> TinyEncoder:
        """See `Encoder.random_twin`."""
        twin = TinyEncoder(
            blocks=self.blocks,
            heads=self.heads,
            width=self.width,
            seed=self._seed + seed + 1,
            scale=self._scale,
            causal=self.causal,
        )
        twin.name = f"{self.name} (random)"
        if keep_embeddings:
            twin._embeddings = self._embeddings
        return twin

    def _run(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self._embeddings[ids] + 0.1 * torch.arange(len(ids)).unsqueeze(1).cos()
        states, maps, norms = [x], [], []
        hidden = torch.ones(len(ids), len(ids)).triu(1).bool() & self.causal
        for query, key, value, out in self._weights:
            q, k, v = ((x @ weight).view(len(ids), self.heads, -1).transpose(0, 1) for weight in (query, key, value))
            scores = q @ k.transpose(1, 2) / (self.width / self.heads) ** 0.5
            attention = torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1)
            mixed = (attention @ v).transpose(0, 1).reshape(len(ids), self.width)
            x = torch.nn.functional.layer_norm(x + mixed @ out, (self.width,))
            states.append(x)
            maps.append(attention)
            norms.append((v @ out.view(self.heads, -1, self.width)).norm(dim=-1))
        if not self.blocks:
            return x[:, None], torch.empty(0, self.heads, len(ids), len(ids)), torch.empty(0, self.heads, len(ids))
        return torch.stack(states, 1), torch.stack(maps), torch.stack(norms)


def _piece_id(piece: str) -> int:
    digest = hashlib.sha256(piece.encode("utf-8", "surrogatepass")).digest()
    return 3 + int.from_bytes(digest[:4], "little") % (_VOCABULARY - 3)


def check_encoder(encoder: Encoder, texts: Sequence[Text] = SAMPLE_TEXTS) -> None:
    """Raise an AssertionError if an encoder breaks its contract; run it on your own encoders.

    Checked: every word has a token, and tokens are in word order; ids are those of the joined text; shapes; batching
    changes neither order nor numbers (1e-5 of a vector's norm; in float16 2e-2, in bfloat16 1e-1); norms of values,
    where there are any, are positive and do not depend on the batch; the fingerprint does not change between calls;
    nothing that a passport looks at fails (`lamina.models.checks.passports`): rows of attention sum to 1 or to what
    a sink leaves, maps do not look ahead, ...

    Example:
        >>> check_encoder(TinyEncoder())
    """
    together = list(encoder.encode(texts))
    _expect(
        [activations.text for activations in together] == [text.id for text in texts],
        "results are not in the order of the texts",
    )
    _expect(encoder.fingerprint == encoder.fingerprint, "the fingerprint changes from call to call")
    for text, batched in zip(texts, together, strict=True):
        _check_alignment(encoder, text, batched)
        alone = next(iter(encoder.encode([text])))
        _check_states(encoder, text, batched, alone)
    if encoder.blocks and encoder.heads:
        _check_maps(encoder, texts)
        _check_norms(encoder, texts)
    for check in examine(encoder).failed:
        # An encoder may have maps of some blocks only: it says which.
        _expect(check.name == "every block" or not check.needed_by, f"{check.name}: {check.message}")


def _check_alignment(encoder: Encoder, text: Text, activations: Activations) -> None:
    tokens = encoder.tokenize(text)
    _expect(np.array_equal(tokens.ids, activations.tokens.ids), f"{text.id!r}: encode and tokenize disagree on tokens")
    words = tokens.words[tokens.words != SPECIAL]
    _expect(np.array_equal(np.unique(words), np.arange(len(text.words))), f"{text.id!r}: a word has no token")
    _expect(bool((np.diff(words) >= 0).all()), f"{text.id!r}: tokens are not in the order of their words")
    if tokens.unknown or len(text.segments) > 1:
        return
    joined = encoder.joined_ids(text.words)
    ids = tokens.ids[tokens.words != SPECIAL].tolist()
    _expect(joined is None or joined == ids, f"{text.id!r}: ids differ from those of the joined text: {ids} {joined}")


def _check_states(encoder: Encoder, text: Text, batched: Activations, alone: Activations) -> None:
    shape = (len(batched.tokens.ids), encoder.layers, encoder.width)
    if batched.states is None or alone.states is None:
        raise AssertionError(f"{text.id!r}: states were requested but are missing")
    _expect(tuple(batched.states.shape) == shape, f"{text.id!r}: states are {tuple(batched.states.shape)}, not {shape}")
    moved = apart(batched.states.transpose(0, 1), alone.states.transpose(0, 1), SHARE.get(encoder.dtype, 1.0))
    _expect(moved <= _bar(encoder), f"{text.id!r}: batching changes states by {moved:.1e} of their norm")
    _expect(batched.states.is_contiguous(), f"{text.id!r}: states are not in one piece of memory")


def _check_maps(encoder: Encoder, texts: Sequence[Text]) -> None:
    for activations in encoder.encode(texts, ("maps",)):
        size = len(activations.tokens.ids)
        shape = (len(encoder.map_blocks), encoder.heads, size, size)
        if activations.maps is None:
            _expect(activations.windows > 1, f"{activations.text!r}: maps were requested but are missing")
            continue
        _expect(tuple(activations.maps.shape) == shape, f"{activations.text!r}: maps are not {shape}")


def _check_norms(encoder: Encoder, texts: Sequence[Text]) -> None:
    try:
        together = list(encoder.encode(texts, ("maps", "norms")))
    except ModelError:
        return  # An encoder need not have them.
    for text, batched in zip(texts, together, strict=True):
        if batched.norms is None:
            continue
        shape = (len(encoder.map_blocks), encoder.heads, len(batched.tokens.ids))
        measured = tuple(batched.norms.shape)
        _expect(measured == shape, f"{text.id!r}: norms are {measured}, not {shape}")
        _expect(bool((batched.norms >= 0).all()), f"{text.id!r}: some norms are not positive numbers")
        alone = next(iter(encoder.encode([text], ("maps", "norms")))).norms
        moved = float("inf") if alone is None else ((batched.norms - alone).abs() / batched.norms.max()).max().item()
        _expect(moved <= _bar(encoder), f"{text.id!r}: batching changes norms by {moved:.1e} of the largest")


def _bar(encoder: Encoder) -> float:
    """How far a batch may move numbers, relative to their size."""
    return 1e-5 if encoder.dtype == torch.float32 else TOLERANCE[encoder.dtype]


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
