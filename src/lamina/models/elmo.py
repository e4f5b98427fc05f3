"""ELMo: a word by its characters, then two directions of LSTMs; three layers, no attention."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import conv1d, embedding

from lamina.errors import ModelError
from lamina.extras import require_package
from lamina.files.reading import check_regular, open_regular, parse_json, read_regular
from lamina.models.contract import STATES, Activations, Encoder, Packed, Room, Tokens, Want
from lamina.models.running.batching import (
    BatchSize,
    Chunk,
    InputRow,
    Packing,
    chunks,
    cut_ahead,
    lookahead,
    packs,
    rows_of,
    sent,
)
from lamina.models.running.devices import Placement, check_precision, choose_device, format_size, free_in_memory
from lamina.models.running.reloading import RandomTwin, loader_of
from lamina.models.running.tokens import TokenizedText
from lamina.models.weights.bounds import refuse_claim
from lamina.types import Text

# The released format: options.json and one file of weights (`*weights.hdf5`) in the layout of bilm-tf.

OPTIONS = "options.json"
_WEIGHTS = "*weights.hdf5"
_LARGEST_OPTIONS = 1024**2
"""Bytes of its options."""
CHARACTERS = 261
"""Rows of the character table: 256 bytes, begin and end of a sentence, begin and end of a word, padding."""
_MASKED = 262
"""What released options say: one more, for padding words, whose vector is 0 and not stored."""
DIRECTIONS = 2
"""Forward, backward."""
_MOST_LAYERS = 100
_MOST_WIDTH = 1 << 20


class ElmoOptions(NamedTuple):
    """The shape of an ELMo, of what options.json says."""

    character: int
    """Width of a character's vector."""
    filters: tuple[tuple[int, int], ...]
    """Convolutions over characters: how many each sees, and how many values come of it."""
    highways: int
    longest: int
    """Characters of a word, those that begin and end it included; of longer words, the first ones are read."""
    activation: Literal["relu", "tanh"]
    """Of the convolutions."""
    projection: int
    """Width of a word's vector, and of each direction of a layer."""
    cell: int
    """Width of an LSTM's memory."""
    layers: int
    cell_clip: float | None
    """The memory stays between minus this and this; None where it is not clipped."""
    projection_clip: float | None
    skips: bool
    """Whether the input of a layer after the first is added to its output."""

    @property
    def pooled(self) -> int:
        """Width of what the convolutions give together."""
        return sum(count for _, count in self.filters)


def is_elmo(folder: Path) -> bool:
    """Whether a folder is meant as an ELMo: its options or its weights lie there, and no config of transformers."""
    others = ("config.json", "adapter_config.json")
    if not folder.is_dir() or any((folder / other).is_file() for other in others):
        return False
    return (folder / OPTIONS).exists() or any(folder.glob(_WEIGHTS))


def read_elmo(folder: Path) -> tuple[ElmoOptions, dict[str, Tensor]]:
    """The shape of an ELMo and its weights in float32, by their names in the file."""
    weights = weights_file(folder)
    options = read_options(folder / OPTIONS)
    return options, _read_weights(weights, options)


def weights_file(folder: Path) -> Path:
    """The one file of weights in a folder."""
    files = sorted(folder.glob(_WEIGHTS))
    if len(files) == 1 and (folder / OPTIONS).exists():
        return files[0]
    if len(files) > 1:
        listed = ", ".join(path.name for path in files)
        raise ModelError(
            f"{folder} holds {len(files)} files of weights ({listed}); an ELMo has one: move the others away"
        )
    has, lacks = (OPTIONS, f"file {_WEIGHTS}") if not files else (files[0].name, OPTIONS)
    raise ModelError(f"{folder} holds {has} but no {lacks}; an ELMo is a folder with both, as released")


def read_options(path: Path) -> ElmoOptions:
    """The shape of an ELMo."""
    try:
        content = parse_json(read_regular(path, _LARGEST_OPTIONS).decode("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error})") from None
    settings = _OptionsFile(path, content)
    activation = settings.get("char_cnn", "activation")
    if activation not in ("relu", "tanh"):
        raise settings.refused("char_cnn.activation", activation, "relu or tanh")
    known = settings.count("char_cnn", "n_characters")
    if known not in (CHARACTERS, _MASKED):
        raise settings.refused("char_cnn.n_characters", known, f"{_MASKED} ({CHARACTERS} in training)")
    skips = settings.get("lstm", "use_skip_connections")
    if not isinstance(skips, bool):
        raise settings.refused("lstm.use_skip_connections", skips, "true or false")
    longest = settings.count("char_cnn", "max_characters_per_token", least=3)
    return ElmoOptions(
        character=settings.count("char_cnn", "embedding", "dim"),
        filters=settings.filters(longest),
        highways=settings.count("char_cnn", "n_highway", least=0, most=_MOST_LAYERS),
        longest=longest,
        activation=activation,
        projection=settings.count("lstm", "projection_dim"),
        cell=settings.count("lstm", "dim"),
        layers=settings.count("lstm", "n_layers", most=_MOST_LAYERS),
        cell_clip=settings.clip("cell_clip"),
        projection_clip=settings.clip("proj_clip"),
        skips=skips,
    )


class _OptionsFile:
    """What options.json says, setting by setting."""

    def __init__(self, path: Path, content: Any) -> None:
        self._path, self._content = path, content

    def get(self, *names: str) -> Any:
        """A setting, by the names that lead to it."""
        value = self._content
        for name in names:
            if not isinstance(value, Mapping) or name not in value:
                raise ModelError(f"{self._path} is not the options of an ELMo: it lacks {'.'.join(names)}")
            value = value[name]
        return value

    def count(self, *names: str, least: int = 1, most: int = _MOST_WIDTH) -> int:
        """A setting that is a number of something."""
        value = self.get(*names)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.refused(".".join(names), value, f"a number from {least} to {most:,}")
        return value

    def clip(self, name: str) -> float | None:
        """A limit on values; None where there is none."""
        value = self.get("lstm", name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
            raise self.refused(f"lstm.{name}", value, "a positive number or null")
        return float(value)

    def filters(self, longest: int) -> tuple[tuple[int, int], ...]:
        """The convolutions: width and number of each."""
        name, value = "char_cnn.filters", self.get("char_cnn", "filters")
        expected = f"a list of [width, number], widths from 1 to {longest}"
        if not isinstance(value, list) or not 1 <= len(value) <= _MOST_LAYERS:
            raise self.refused(name, value, expected)
        for pair in value:
            whole = isinstance(pair, list) and [type(number) for number in pair] == [int, int]
            if not whole or not 1 <= pair[0] <= longest or not 1 <= pair[1] <= _MOST_WIDTH:
                raise self.refused(name, pair, expected)
        return tuple((width, count) for width, count in value)

    def refused(self, name: str, value: Any, expected: str) -> ModelError:
        """The error for a setting that cannot be used."""
        return ModelError(f"{self._path}: {name} is {repr(value)[:60]}; expected {expected}")


def shapes(options: ElmoOptions) -> dict[str, tuple[int, ...]]:
    """What the file of weights holds, by name."""
    pooled, width, cell = options.pooled, options.projection, options.cell
    by_name: dict[str, tuple[int, ...]] = {"char_embed": (CHARACTERS, options.character)}
    for number, (seen, count) in enumerate(options.filters):
        by_name |= {f"CNN/W_cnn_{number}": (1, seen, options.character, count), f"CNN/b_cnn_{number}": (count,)}
    for number in range(options.highways):
        for gate in ("carry", "transform"):
            by_name[f"CNN_high_{number}/W_{gate}"] = (pooled, pooled)
            by_name[f"CNN_high_{number}/b_{gate}"] = (pooled,)
    by_name |= {"CNN_proj/W_proj": (pooled, width), "CNN_proj/b_proj": (width,)}
    for direction in range(DIRECTIONS):
        for layer in range(options.layers):
            name = lstm(direction, layer)
            by_name |= {f"{name}/W_0": (2 * width, 4 * cell), f"{name}/B": (4 * cell,), f"{name}/W_P_0": (cell, width)}
    return by_name


def lstm(direction: int, layer: int) -> str:
    """Where the weights of one LSTM are."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _read_weights(path: Path, options: ElmoOptions) -> dict[str, Tensor]:
    # No pickle: HDF5 holds arrays. What the library raises on damaged files is of many kinds.
    require_package("h5py", f"{path} is an HDF5 file", ModelError)
    import h5py

    check_regular(path)
    refuse_claim(path, sum(math.prod(shape) for shape in shapes(options).values()))
    try:
        with open_regular(path) as file, h5py.File(file, "r") as archive:
            return dict(_tensors(path, archive, options))
    except ModelError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(f"{path} cannot be read as HDF5 ({lines[0]}); copy the file again") from None


def _tensors(path: Path, archive: Any, options: ElmoOptions) -> Iterator[tuple[str, Tensor]]:
    import numpy as np
    import torch

    wanted = shapes(options)
    arrays = {name: _array(archive, name) for name in wanted}
    absent = [name for name, array in arrays.items() if array is None]
    if len(absent) == len(wanted):
        raise ModelError(f"{path} is not the weights of an ELMo: it holds none of its tensors, such as {absent[0]}")
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise ModelError(f"{path} lacks the tensor {absent[0]}{more}, which {OPTIONS} asks for")
    for name, shape in wanted.items():
        array = arrays[name]
        if array.external or array.is_virtual:
            raise ModelError(f"{path}: {name} is kept in another file; an ELMo's weights are in one")
        if array.dtype.kind != "f" or tuple(array.shape) != shape:
            raise ModelError(
                f"{path}: {name} is {array.dtype} {tuple(array.shape)}; {OPTIONS} asks for float32 {shape}"
            )
        with np.errstate(over="ignore"):
            values = np.asarray(array[...], np.float32)
        if not np.isfinite(values).all():
            raise ModelError(f"{path}: {name} has values that are not numbers; copy the file again")
        yield name, torch.from_numpy(values)


def _array(archive: Any, name: str) -> Any:
    """The array of a name; None where there is none, or where the name leads to another file."""
    import h5py

    node = archive
    for part in name.split("/"):
        if not isinstance(node, h5py.Group) or not isinstance(node.get(part, getlink=True), h5py.HardLink):
            return None
        node = node[part]
    return node if isinstance(node, h5py.Dataset) else None


# The network: characters, convolutions, highways, two directions of LSTMs with projection.

_WORDS_AT_ONCE = 256
"""Words whose characters are convolved together: the widest filters of the released model take 90 MB for these."""
_READ_AT_ONCE = 1 << 24
"""Values of an LSTM's input gates that are computed ahead, all steps of short texts at once."""
_FORGET = 1.0
"""Added to the forget gate, as TensorFlow's LSTM does without storing it."""


class LstmState(NamedTuple):
    """The state of an LSTM layer in both directions."""

    output: Float[Tensor, "2 row projection"]
    memory: Float[Tensor, "2 row cell"]


class _LstmLayer(NamedTuple):
    """The weights of one LSTM layer, both directions side by side; gates in the order input, new, forget, output."""

    read: Float[Tensor, "2 projection gates"]
    recall: Float[Tensor, "2 projection gates"]
    bias: Float[Tensor, "2 1 gates"]
    project: Float[Tensor, "2 cell projection"]

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], options: ElmoOptions, number: int) -> _LstmLayer:
        names = [lstm(direction, number) for direction in range(DIRECTIONS)]
        both = torch.stack([weights[f"{name}/W_0"] for name in names])
        bias = torch.stack([weights[f"{name}/B"] for name in names]).unsqueeze(1)
        bias[..., 2 * options.cell : 3 * options.cell] += _FORGET
        project = torch.stack([weights[f"{name}/W_P_0"] for name in names])
        return cls(both[:, : options.projection], both[:, options.projection :], bias, project)


class ElmoNetwork:
    """The forward pass of an ELMo.

    Example:
        >>> options = ElmoOptions(4, ((1, 4), (2, 4)), 1, 10, "relu", 3, 5, 2, 3.0, 3.0, True)
        >>> network = ElmoNetwork(options, drawn_weights(options, seed=0))
        >>> words = network.words(torch.randint(0, 262, (7, 10)))
        >>> layers, _ = network.layers(words[torch.tensor([[0, 1, 2], [3, 4, 0]])], [3, 2])
        >>> [tuple(layer.shape) for layer in layers]
        [(2, 3, 6), (2, 3, 6), (2, 3, 6)]
    """

    def __init__(self, options: ElmoOptions, weights: Mapping[str, Tensor]) -> None:
        self.options, self.weights = options, weights
        table = weights["char_embed"]
        # Character 0 is no character: that of a word which is padding.
        self._table = torch.cat([table.new_zeros(1, options.character), table])
        self._layers = [_LstmLayer.of(weights, options, number) for number in range(options.layers)]

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
        values = getattr(torch, options.activation)(torch.cat(pooled, -1))
        for number in range(options.highways):
            name = f"CNN_high_{number}"
            gate = torch.sigmoid(torch.addmm(weights[f"{name}/b_carry"], values, weights[f"{name}/W_carry"]))
            new = torch.relu(torch.addmm(weights[f"{name}/b_transform"], values, weights[f"{name}/W_transform"]))
            # What bilm-tf calls carry lets the new values through, not the old ones.
            values = gate * new + (1 - gate) * values
        return torch.addmm(weights["CNN_proj/b_proj"], values, weights["CNN_proj/W_proj"])

    def layers(
        self,
        words: Float[Tensor, "row word projection"],
        sizes: Sequence[int],
        before: Sequence[LstmState] | None = None,
    ) -> tuple[list[Float[Tensor, "row word width"]], list[LstmState]]:
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
        inputs = torch.stack([words, words.gather(1, back)])[:, order].transpose(1, 2).contiguous()
        active = [sum(size > step for size in sizes) for step in range(words.shape[1])]
        undo = torch.argsort(order)
        all_layers, after = [words.repeat(1, 1, 2)], []
        for number, layer in enumerate(self._layers):
            state = (
                self._begin(len(sizes)) if before is None else LstmState(*(part[:, order] for part in before[number]))
            )
            given = inputs
            inputs = self._run(layer, given, active, state)
            if number and self.options.skips:
                inputs = inputs + given
            forward, backward = inputs.transpose(1, 2)[:, undo]
            all_layers.append(torch.cat([forward, backward.gather(1, back)], -1))
            after.append(LstmState(*(part[:, undo] for part in state)))
        return all_layers, after

    def _begin(self, rows: int) -> LstmState:
        sizes = (self.options.projection, self.options.cell)
        return LstmState(*(torch.zeros(DIRECTIONS, rows, size, dtype=self.dtype, device=self.device) for size in sizes))

    def _run(self, layer: _LstmLayer, given: Tensor, active: Sequence[int], state: LstmState) -> Tensor:
        """The output of one layer, [direction, step, row, projection]; `state` is updated to that at the rows' ends."""
        options = self.options
        outputs = torch.zeros_like(given)
        for step, gates in enumerate(_read(layer, given)):
            rows = active[step]
            output, memory = (part[:, :rows] for part in state)
            gates = torch.baddbmm(gates[:, :rows], output, layer.recall)
            let_in, new, keep, let_out = gates.chunk(4, -1)
            now = _clipped(keep.sigmoid() * memory + let_in.sigmoid() * new.tanh(), options.cell_clip)
            out = _clipped(torch.bmm(let_out.sigmoid() * now.tanh(), layer.project), options.projection_clip)
            memory.copy_(now)
            output.copy_(out)
            outputs[:, step, :rows] = out
        return outputs


def _read(layer: _LstmLayer, given: Tensor) -> Iterator[Tensor]:
    """The contribution of the input to the gates, step by step; computed for as many steps at once as memory allows."""
    _, steps, rows, _ = given.shape
    at_once = max(1, _READ_AT_ONCE // (DIRECTIONS * rows * layer.bias.shape[-1]))
    for start in range(0, steps, at_once):
        some = given[:, start : start + at_once]
        read = torch.baddbmm(layer.bias, some.flatten(1, 2), layer.read)
        yield from read.unflatten(1, (-1, rows)).unbind(1)


def _clipped(values: Tensor, most: float | None) -> Tensor:
    return values if most is None else values.clamp(-most, most)


def drawn_weights(options: ElmoOptions, seed: int) -> dict[str, Tensor]:
    """New random weights of a shape, drawn as bilm-tf begins its training.

    Example:
        >>> options = ElmoOptions(4, ((1, 4), (2, 4)), 1, 10, "relu", 3, 5, 2, 3.0, 3.0, True)
        >>> drawn_weights(options, seed=0)["CNN_high_0/b_carry"].unique()
        tensor([-2.])
    """
    draw = torch.Generator().manual_seed(seed)
    return {name: _drawn(name, shape, options, draw) for name, shape in shapes(options).items()}


def _drawn(name: str, shape: tuple[int, ...], options: ElmoOptions, draw: torch.Generator) -> Tensor:
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


FORMAT = 1
"""Version of the encoding; raised when the same weights and text would give different numbers."""

_LIMIT = 8192
"""Words that are read at once: LSTMs have no limit of their own, memory has."""
_LEAST = 8
_LOOKAHEAD_BYTES = 256 * 2**20
"""Results that wait for earlier ones."""
_BEGIN, _END, _WORD_BEGIN, _WORD_END, _PAD = 257, 258, 259, 260, 261
"""Ids of special characters: begin and end of a sentence, begin and end of a word, padding; byte b has the id b + 1."""


_BOUNDARIES = {b"<S>": [_BEGIN], b"</S>": [_END]}
"""How texts write these words, if they do; all other words in brackets are spelled like any word."""


class Characters:
    """Words as the numbers of their UTF-8 bytes; one token per word, no special tokens.

    Example:
        >>> Characters(6)(Text("t", ("ab", "abcdefg"))).types.tolist()
        [[259, 98, 99, 260, 261, 261], [259, 98, 99, 100, 101, 260]]
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self.boundaries = np.stack([_spelled(word, longest) for word in _BOUNDARIES])
        """[2, character] The words that begin and end every sentence."""

    @property
    def room(self) -> int:
        """Bytes of a word that are read."""
        return self._longest - 2

    def __call__(self, text: Text) -> TokenizedText:
        """A text cut into words; in the place of token types, each has its characters."""
        # Half characters are left out, as in the original.
        words = [word.encode("utf-8", "ignore") for word in text.words]
        ids = np.array([_number(word) for word in words], np.int32)
        tokens = Tokens(ids, np.arange(len(words), dtype=np.int32), sum(len(word) > self.room for word in words))
        return TokenizedText(tokens, np.stack([_spelled(word, self._longest) for word in words]), head=0, tail=0)

    def cut(self, texts: Sequence[Text]) -> list[TokenizedText]:
        """Many texts."""
        return [self(text) for text in texts]


@lru_cache(1 << 16)
def _spelled(word: bytes, longest: int) -> np.ndarray:
    """The numbers of a word; of one that is too long, those of its first bytes."""
    return _between(_BOUNDARIES.get(word) or [byte + 1 for byte in word[: longest - 2]], longest)


def _between(numbers: Sequence[int], longest: int) -> np.ndarray:
    spelled = np.full(longest, _PAD, np.int16)
    spelled[: len(numbers) + 2] = [_WORD_BEGIN, *numbers, _WORD_END]
    return spelled


@lru_cache(1 << 16)
def _number(word: bytes) -> int:
    """A number to know a word by: there is no vocabulary."""
    return int.from_bytes(hashlib.blake2b(word, digest_size=4).digest(), "little") >> 1


class ElmoEncoder(Encoder):
    """An ELMo. Layer 0 is the words by their characters (the same vector twice), then one layer per pair of LSTMs.

    Every text begins from zero: its vectors depend on the text alone. (The original carries the state of its LSTMs
    from batch to batch.) Words that begin and end the sentence are read and left out. Segments are read as one.
    """

    def __init__(self, network: ElmoNetwork, *, name: str, limit: int | None = None) -> None:
        options = network.options
        if limit is not None and not _LEAST <= limit <= _LIMIT:
            raise ModelError(f"a maximum length of {limit} words is not possible; use {_LEAST} to {_LIMIT} for an ELMo")
        self.name, self.network = name, network
        self.blocks, self.heads, self.width = options.layers, 0, 2 * options.projection
        self.dtype, self.limit, self.pads = network.dtype, limit or _LIMIT, True
        self.word_tokenizer = Characters(options.longest)
        room = self.word_tokenizer.room
        self.replaced = f"words of more than {room} bytes, of which the first {room} were read"
        self.batch_size = BatchSize(self.device)
        """Tokens of a batch."""

    @classmethod
    def read(
        cls,
        folder: Path,
        *,
        name: str,
        device: Placement | None = None,
        dtype: str = "float32",
        limit: int | None = None,
    ) -> ElmoEncoder:
        """From a folder with options.json and one file of weights."""
        chosen = choose_device(device)
        if chosen == "auto":
            chosen = choose_device(None)
        if not isinstance(chosen, str):
            raise ModelError(f"{name} is an ELMo, which runs on one device; use --device cpu, cuda or cuda:N")
        check_precision(dtype, chosen)
        options, weights = read_elmo(folder)
        try:
            network = _network(options, weights, torch.device(chosen), getattr(torch, dtype))
        except torch.OutOfMemoryError:
            raise ModelError(f"{name}: its weights do not fit {chosen}; use --dtype bfloat16 or --device cpu") from None
        return cls(network, name=name, limit=limit)

    @property
    def device(self) -> torch.device:
        """See `Encoder.device`."""
        return self.network.device

    @cached_property
    def _fingerprint(self) -> str:
        head = ["elmo", FORMAT, self.network.options, str(self.dtype), self.limit]
        digest = hashlib.sha256(json.dumps(head).encode())
        for name, tensor in self.network.weights.items():
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return self._fingerprint

    def tokenize(self, text: Text) -> Tokens:
        """See `Encoder.tokenize`."""
        return self.word_tokenizer(text).tokens

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """See `Encoder.encode`."""
        self.refuse_maps(want)
        self.refuse(want)
        for chunk in self._chunks(texts, 4 * self.layers * self.width if ordered else 0):
            numbered = (
                (number, activations)
                for numbers, packed in packs(self, [chunk], Packing())
                for number, activations in zip(numbers, packed.unpack(), strict=True)
            )
            yield from (
                activations for _, activations in (sorted(numbered, key=itemgetter(0)) if ordered else numbered)
            )

    def packed(
        self,
        texts: Iterable[Text],
        *,
        dtype: torch.dtype = torch.float32,
        on: Literal["device", "host"] = "host",
        room: Room | None = None,
        most: int | None = None,
    ) -> Iterator[Packed]:
        """See `Encoder.packed`."""
        self.refuse(STATES)
        how = Packing(dtype, on, room, most)
        yield from (packed for _, packed in packs(self, self._chunks(texts, 0), how))

    def _chunks(self, texts: Iterable[Text], token_bytes: int) -> Iterator[Chunk]:
        cut = cut_ahead(texts, self.word_tokenizer, lambda: lookahead(self))
        return chunks(cut, self, lambda size: size * token_bytes, _LOOKAHEAD_BYTES)

    def rows(self, text: int, cut: TokenizedText) -> list[InputRow]:
        """The rows of a text: itself, or windows if it is longer than `limit`."""
        if len(cut.tokens.ids) > self.limit:
            self.refuse(("windows",))
        return rows_of(text, cut, limit=self.limit, causal=False)

    def hidden(self, rows: Sequence[InputRow]) -> Sequence[Tensor]:
        """The states of a batch by layer, [row, word, width] with padding."""
        with torch.no_grad():
            layers, _ = self.network.layers(*self.sentences([row.types for row in rows]))
            # Without the words that begin and end the sentence.
            return [layer[:, 1:-1] for layer in layers]

    def sentences(self, spelled: Sequence[np.ndarray]) -> tuple[Tensor, list[int]]:
        """The vectors [row, word, projection] of sentences by their characters, begin and end included, and sizes."""
        sizes = [len(letters) + 2 for letters in spelled]
        # Each word that occurs is looked at once, however often it does.
        kinds, which = np.unique(
            np.concatenate([self.word_tokenizer.boundaries, *spelled]), axis=0, return_inverse=True
        )
        begin, end, *_ = which = which.reshape(-1)
        places, offset = np.full((len(spelled), max(sizes)), end), 2
        for row, size in enumerate(sizes):
            places[row, 0], places[row, 1 : size - 1] = begin, which[offset : offset + size - 2]
            offset += size - 2
        vectors = self.network.words(sent(torch.from_numpy(kinds).int(), self.device))
        return vectors[sent(torch.from_numpy(places), self.device)], sizes

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> ElmoEncoder:
        """The same shape with new random weights, drawn as the authors do; optionally keeps the character network."""
        network = self.network
        need, free = 4 * sum(tensor.numel() for tensor in network.weights.values()), free_in_memory()
        if need > free:
            raise ModelError(
                f"{self.name}: random weights need {format_size(need)} of memory, {format_size(free)} are free; do "
                "without the twin (--no-twin)"
            )
        weights = drawn_weights(network.options, seed)
        if keep_embeddings:
            weights |= {name: tensor for name, tensor in network.weights.items() if not name.startswith("RNN")}
        name = f"{self.name} ({'random, embeddings kept' if keep_embeddings else 'random'})"
        twin = ElmoEncoder(_network(network.options, weights, self.device, self.dtype), name=name, limit=self.limit)
        twin.loader = RandomTwin(loader_of(self), seed, keep_embeddings)
        return twin


def _network(options: ElmoOptions, weights: dict[str, Tensor], device: torch.device, dtype: torch.dtype) -> ElmoNetwork:
    return ElmoNetwork(options, {name: tensor.to(device, dtype) for name, tensor in weights.items()})
