"""The network of an ELMo: characters, convolutions, highways, two directions of LSTMs with projection."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import conv1d, embedding

from lamina.encoders.elmo_files import DIRECTIONS, Options, lstm, shapes

_WORDS_AT_ONCE = 256
"""Words whose characters are convolved together: the widest filters of the released model take 90 MB for these."""
_READ_AT_ONCE = 1 << 24
"""Values of an LSTM's input gates that are computed ahead, all steps of short texts at once."""
_FORGET = 1.0
"""Added to the forget gate, as TensorFlow's LSTM does without storing it."""


class State(NamedTuple):
    """What an LSTM layer remembers of both directions."""

    said: Float[Tensor, "2 row projection"]
    memory: Float[Tensor, "2 row cell"]


class _Layer(NamedTuple):
    """The weights of one LSTM layer, both directions side by side; gates in the order input, new, forget, output."""

    read: Float[Tensor, "2 projection gates"]
    recall: Float[Tensor, "2 projection gates"]
    bias: Float[Tensor, "2 1 gates"]
    project: Float[Tensor, "2 cell projection"]

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], options: Options, number: int) -> _Layer:
        names = [lstm(direction, number) for direction in range(DIRECTIONS)]
        both = torch.stack([weights[f"{name}/W_0"] for name in names])
        bias = torch.stack([weights[f"{name}/B"] for name in names]).unsqueeze(1)
        bias[..., 2 * options.cell : 3 * options.cell] += _FORGET
        project = torch.stack([weights[f"{name}/W_P_0"] for name in names])
        return cls(both[:, : options.projection], both[:, options.projection :], bias, project)


class ElmoNetwork:
    """The function that an ELMo's weights are.

    Example:
        >>> options = Options(4, ((1, 4), (2, 4)), 1, 10, "relu", 3, 5, 2, 3.0, 3.0, True)
        >>> network = ElmoNetwork(options, drawn_weights(options, seed=0))
        >>> words = network.words(torch.randint(0, 262, (7, 10)))
        >>> layers, _ = network.layers(words[torch.tensor([[0, 1, 2], [3, 4, 0]])], [3, 2])
        >>> [tuple(layer.shape) for layer in layers]
        [(2, 3, 6), (2, 3, 6), (2, 3, 6)]
    """

    def __init__(self, options: Options, weights: Mapping[str, Tensor]) -> None:
        self.options, self.weights = options, weights
        table = weights["char_embed"]
        # Character 0 is no character: that of a word which is padding.
        self._table = torch.cat([table.new_zeros(1, options.character), table])
        self._layers = [_Layer.of(weights, options, number) for number in range(options.layers)]

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self._table.device

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        return self._table.dtype

    def words(self, characters: Int[Tensor, "word character"]) -> Float[Tensor, "word projection"]:
        """The vectors of words by their characters, without context."""
        return torch.cat([self._words(some) for some in characters.split(_WORDS_AT_ONCE)])

    def _words(self, characters: Tensor) -> Tensor:
        weights, options = self.weights, self.options
        seen = embedding(characters, self._table).transpose(1, 2)
        pooled = []
        for number in range(len(options.filters)):
            # [1, width, character, count] as TensorFlow has it; torch wants [count, character, width].
            kernel = weights[f"CNN/W_cnn_{number}"][0].permute(2, 1, 0)
            pooled.append(conv1d(seen, kernel, weights[f"CNN/b_cnn_{number}"]).amax(-1))
        made = getattr(torch, options.activation)(torch.cat(pooled, -1))
        for number in range(options.highways):
            name = f"CNN_high_{number}"
            gate = torch.sigmoid(torch.addmm(weights[f"{name}/b_carry"], made, weights[f"{name}/W_carry"]))
            new = torch.relu(torch.addmm(weights[f"{name}/b_transform"], made, weights[f"{name}/W_transform"]))
            # What bilm-tf calls carry lets the new values through, not the old ones.
            made = gate * new + (1 - gate) * made
        return torch.addmm(weights["CNN_proj/b_proj"], made, weights["CNN_proj/W_proj"])

    def layers(
        self, words: Float[Tensor, "row word projection"], sizes: Sequence[int], before: Sequence[State] | None = None
    ) -> tuple[list[Float[Tensor, "row word width"]], list[State]]:
        """All layers of rows of words, forward and backward side by side, and what the LSTMs remember at their ends.

        Layer 0 is the words themselves, twice. Each direction begins at its own end of each row, from zero unless
        `before` says what was remembered; the state after a row is that at the row's own end, whatever the padding.
        """
        # Longest first: rows that have ended are the last ones, and are left out of later steps.
        order = torch.tensor(sorted(range(len(sizes)), key=lambda row: -sizes[row]), device=words.device)
        lengths = torch.tensor(sizes, device=words.device)
        steps = torch.arange(words.shape[1], device=words.device)
        turned = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
        back = turned[:, :, None].expand(-1, -1, words.shape[2])
        # [direction, word, row, projection], where both directions run from step 0 on.
        made = torch.stack([words, words.gather(1, back)])[:, order].transpose(1, 2).contiguous()
        active = [sum(size > step for size in sizes) for step in range(words.shape[1])]
        undo = torch.argsort(order)
        found, after = [words.repeat(1, 1, 2)], []
        for number, layer in enumerate(self._layers):
            state = self._begin(len(sizes)) if before is None else State(*(each[:, order] for each in before[number]))
            given = made
            made = self._run(layer, given, active, state)
            if number and self.options.skips:
                made = made + given
            forward, backward = made.transpose(1, 2)[:, undo]
            found.append(torch.cat([forward, backward.gather(1, back)], -1))
            after.append(State(*(each[:, undo] for each in state)))
        return found, after

    def _begin(self, rows: int) -> State:
        sizes = (self.options.projection, self.options.cell)
        return State(*(torch.zeros(DIRECTIONS, rows, size, dtype=self.dtype, device=self.device) for size in sizes))

    def _run(self, layer: _Layer, given: Tensor, active: Sequence[int], state: State) -> Tensor:
        """What one layer says, [direction, step, row, projection]; the state is changed to that at the rows' ends."""
        options = self.options
        made = torch.zeros_like(given)
        for step, gates in enumerate(_read(layer, given)):
            rows = active[step]
            said, memory = (each[:, :rows] for each in state)
            gates = torch.baddbmm(gates[:, :rows], said, layer.recall)
            let_in, new, keep, let_out = gates.chunk(4, -1)
            now = _clipped(keep.sigmoid() * memory + let_in.sigmoid() * new.tanh(), options.cell_clip)
            out = _clipped(torch.bmm(let_out.sigmoid() * now.tanh(), layer.project), options.projection_clip)
            memory.copy_(now)
            said.copy_(out)
            made[:, step, :rows] = out
        return made


def _read(layer: _Layer, given: Tensor) -> Iterator[Tensor]:
    """What the input adds to the gates, step by step; of as many steps at once as memory allows."""
    _, steps, rows, _ = given.shape
    at_once = max(1, _READ_AT_ONCE // (DIRECTIONS * rows * layer.bias.shape[-1]))
    for start in range(0, steps, at_once):
        some = given[:, start : start + at_once]
        read = torch.baddbmm(layer.bias, some.flatten(1, 2), layer.read)
        yield from read.unflatten(1, (-1, rows)).unbind(1)


def _clipped(values: Tensor, most: float | None) -> Tensor:
    return values if most is None else values.clamp(-most, most)


def drawn_weights(options: Options, seed: int) -> dict[str, Tensor]:
    """New random weights of a shape, drawn as bilm-tf begins its training.

    Example:
        >>> options = Options(4, ((1, 4), (2, 4)), 1, 10, "relu", 3, 5, 2, 3.0, 3.0, True)
        >>> drawn_weights(options, seed=0)["CNN_high_0/b_carry"].unique()
        tensor([-2.])
    """
    draw = torch.Generator().manual_seed(seed)
    return {name: _drawn(name, shape, options, draw) for name, shape in shapes(options).items()}


def _drawn(name: str, shape: tuple[int, ...], options: Options, draw: torch.Generator) -> Tensor:
    last = name.rpartition("/")[2]
    if len(shape) == 1:
        # Gates of highways begin nearly closed.
        return torch.full(shape, -2.0 if last == "b_carry" else 0.0)
    if last == "char_embed":
        return _uniform(shape, 1.0, draw)
    if last.startswith("W_cnn") and options.activation == "relu":
        return _uniform(shape, 0.05, draw)
    if name.startswith("CNN"):
        # Convolutions with tanh, highways and the projection: by the number of inputs.
        return torch.randn(shape, generator=draw) / math.sqrt(math.prod(shape[:-1]))
    # TensorFlow's default (Glorot), for LSTMs.
    return _uniform(shape, math.sqrt(6 / sum(shape)), draw)


def _uniform(shape: tuple[int, ...], most: float, draw: torch.Generator) -> Tensor:
    return (2 * torch.rand(shape, generator=draw) - 1) * most
