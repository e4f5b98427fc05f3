"""The task head of a model, run on states of its last layer, as when its body runs separately or is edited."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Linear, Module, Parameter

from lamina.errors import ModelError
from lamina.models.contract import TOLERANCE, apart
from lamina.models.running.anatomy import accepted, attention_by
from lamina.models.running.batching import InputRow, padded
from lamina.models.running.devices import is_spread, refuse_spread
from lamina.models.running.huggingface import HuggingFaceEncoder, has_weights_of
from lamina.models.running.tokens import token_id
from lamina.models.weights.hub import quiet_transformers
from lamina.models.weights.quantised import round_weights
from lamina.types import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# The head that a model was saved with: its kind, and loading the model with it.

Kind = Literal["masked-LM", "causal-LM", "sequence-classification", "token-classification", "question-answering"]

_HEADS: dict[str, tuple[Kind, str]] = {
    "ForMaskedLM": ("masked-LM", "AutoModelForMaskedLM"),
    "ForPreTraining": ("masked-LM", "AutoModelForMaskedLM"),
    "ForCausalLM": ("causal-LM", "AutoModelForCausalLM"),
    "LMHeadModel": ("causal-LM", "AutoModelForCausalLM"),
    "ForSequenceClassification": ("sequence-classification", "AutoModelForSequenceClassification"),
    "ForTokenClassification": ("token-classification", "AutoModelForTokenClassification"),
    "ForQuestionAnswering": ("question-answering", "AutoModelForQuestionAnswering"),
}
"""Suffix of a checkpoint's class name -> its kind, and the class that loads it with its head."""


def head_kind(encoder: HuggingFaceEncoder) -> Kind | None:
    """The head that a model was saved with, or has in memory, by the name of its class; None if it is not known."""
    named = _named_head(class_name(encoder))
    return None if named is None else named[0]


def class_name(encoder: HuggingFaceEncoder) -> str:
    """The class that a model was saved as, or has in memory; empty if that is not known."""
    if encoder.whole is not None:
        return type(encoder.whole).__name__
    (architecture, *_) = encoder.model.config.architectures or ("",)
    return architecture


def _named_head(architecture: str) -> tuple[Kind, str] | None:
    return next((head for ending, head in _HEADS.items() if architecture.endswith(ending)), None)


def load_with_head(encoder: HuggingFaceEncoder, *, otherwise: str, **settings: Any) -> PreTrainedModel:
    """The checkpoint of an encoder once more, with its head, where the encoder runs.

    Args:
        encoder: of a model whose `head_kind` is known.
        otherwise: what a user can do without it; the end of an error message.
        settings: of `from_pretrained`.
    """
    import transformers

    named = _named_head(class_name(encoder))
    if named is None:
        raise ModelError(f"{encoder.name} was saved without a head that lamina knows; {otherwise}")
    source = encoder.model.name_or_path
    try:
        with quiet_transformers():
            model, info = getattr(transformers, named[1]).from_pretrained(
                source,
                revision=getattr(encoder.model.config, "_commit_hash", None),
                dtype=encoder.model.dtype,
                output_loading_info=True,
                trust_remote_code=False,
                **settings,
            )
    except Exception as error:
        # As in loading: every library that reads a part of the folder can fail in its own way.
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"{encoder.name} cannot be loaded with its head ({reason}); {otherwise}") from error
    absent = sorted(info["missing_keys"])
    if absent:
        raise ModelError(
            f"{encoder.name}: {len(absent)} weights of its head are not in the checkpoint (first: {absent[0]}), so it "
            f"would be a random head; use a checkpoint with its head, or {otherwise}"
        )
    if encoder.rounded:
        round_weights(model)
    if not has_weights_of(model, encoder):
        raise ModelError(
            f"{encoder.name} is not the checkpoint at {source} any more (changed in memory, or with an adapter added), "
            f"so the head there is not its own; save it with its head first, or {otherwise}"
        )
    return model.eval()


OUTPUTS: dict[Kind, tuple[str, ...]] = {
    "token-classification": ("logits",),
    "sequence-classification": ("logits",),
    "question-answering": ("start_logits", "end_logits"),
}
"""What the heads of fine-tuned models give."""
_TRIALS = (Text("", ("The", "dog", "sees", "the", "cat")), Text("", ("The", "dog", "runs")))
_NOTHING = -1
"""Stands for padding where a model names no token for it: heads that look for the last token find the right one."""


class HeadOnStates:
    """A head for tags, classes or spans on an encoder's last layer.

    The head is whatever transformers runs after the body, the pooler included where the head reads it.
    """

    def __init__(self, encoder: HuggingFaceEncoder, whole: PreTrainedModel, kind: Kind) -> None:
        self.encoder = encoder
        self.kind: Kind = kind
        self.labels = _labels(whole)
        """Classes of the head, in its order; names of transformers' own making for a span head."""
        self._class, self._config = type(whole), whole.config
        self._head: Any = head_of(whole, encoder, pooled=True)
        self._head.config = copy.deepcopy(whole.config)
        pad = token_id(self._head.config.pad_token_id)
        self._pad = _NOTHING if pad is None else pad
        self._head.config.pad_token_id = self._pad
        self._dtype = next((parameter.dtype for parameter in self._head.parameters()), encoder.model.dtype)

    def __call__(self, rows: Sequence[InputRow], states: Float[Tensor, "row token width"]) -> tuple[Tensor, ...]:
        """Its logits for the last layer of some rows, padding included; for a span head those of starts and of ends.

        Gradients go through it.
        """
        ids, _, mask = padded(rows, self._pad)
        device = self.encoder.device
        given = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
        with torch.set_grad_enabled(torch.is_grad_enabled() and states.requires_grad):
            output = self._head(**accepted(self._head, given), inputs_embeds=states.to(device, self._dtype))
        return tuple(output[name].float() for name in OUTPUTS[self.kind])

    @property
    def fingerprint(self) -> str:
        """Changes whenever its answers could change: the encoder's fingerprint, and the weights of the head alone."""
        return head_fingerprint(self._head, self.encoder, self._class.__name__)

    def on(self, encoder: HuggingFaceEncoder, seed: int = 0) -> HeadOnStates:
        """Another encoder of the same shape with its own head, where it has one in memory; or with a random one."""
        if encoder.whole is not None or encoder.span_model is not None:
            return head_on_states(encoder, self.kind)
        return HeadOnStates(encoder, random_model(self._class, self._config, self._dtype, seed), self.kind)


def head_on_states(encoder: HuggingFaceEncoder, kind: Kind) -> HeadOnStates:
    """The head that an encoder's model was saved with, or has in memory, loaded once; a ModelError where it has none.

    Example:
        >>> head = head_on_states(lamina.load_encoder("runs/minilm-pos"), "token-classification")  # doctest: +SKIP
        >>> head.labels[:3]  # doctest: +SKIP
        ('ADJ', 'ADP', 'ADV')
    """
    if kind not in OUTPUTS or head_kind(encoder) != kind:
        saved = class_name(encoder)
        raise ModelError(f"{encoder.name} was saved as {saved or 'a bare model'}: it has no head for {kind}")
    if encoder.head_on_states is None:
        refuse_spread(encoder.model, encoder.name, "its head can be run apart only on one")
        whole = encoder.whole or encoder.span_model
        if whole is None:
            whole = load_with_head(encoder, otherwise="name another model")
        head = HeadOnStates(encoder, whole, kind)
        _check(head, whole)
        encoder.head_on_states = head
    return encoder.head_on_states


def random_model(kind: type[PreTrainedModel], config: Any, dtype: torch.dtype, seed: int) -> PreTrainedModel:
    """A model of a class with new random weights, as its authors draw them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh: Any = kind(copy.deepcopy(config))
    return fresh.to(dtype).eval().requires_grad_(False)


def head_of(whole: Any, encoder: HuggingFaceEncoder, *, pooled: bool = False) -> Module:
    """The head of a model, called with states; it shares the weights of the encoder that the body shared with it.

    With `pooled`, the body's pooler counts as a part of the head.
    """
    prefix, body = whole.base_model_prefix, whole.base_model
    if body is whole or prefix not in whole._modules:
        raise ModelError(f"{encoder.name} ({type(whole).__name__}): its head cannot be separated from its body")
    shared: dict[int, Any] = {}
    if not is_spread(encoder.model):
        of_encoder = dict(encoder.model.named_parameters())
        shared = {id(weight): of_encoder[name] for name, weight in body.named_parameters() if name in of_encoder}
    # Copies of the modules, not of their weights: the model may be the user's own.
    head = _copied(whole, without=prefix)
    pooler = (body._modules.get("pooler") or (encoder.pooler if body is encoder.model else None)) if pooled else None
    head._modules[prefix] = _BodyStub(pooler, body._modules.get("pooler_activation"))
    for module in head.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = shared.setdefault(id(parameter), _moved(parameter, encoder))
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = buffer.to(encoder.device)
    # Of a model in memory, only the body was put into evaluation mode: heads have dropout of their own.
    return head.eval()


def head_fingerprint(head: Module, encoder: HuggingFaceEncoder, *about: Any) -> str:
    """Of an encoder, of the weights of a head on it that are its own, and of whatever else tells it from others."""
    digest = hashlib.sha256(" ".join(map(str, (encoder.fingerprint, *about))).encode())
    shared = {id(parameter) for parameter in encoder.model.parameters()}
    for name, tensor in chain(head.named_parameters(), head.named_buffers()):
        if id(tensor) not in shared:
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


class _BodyStub(Module):
    """Replaces the body: its input is returned as the last layer. It has the body's pooler, which some heads read."""

    def __init__(self, pooler: Module | None, activation: Module | None) -> None:
        super().__init__()
        self.pooler = None if pooler is None else _copied(pooler)
        self._activation = activation

    @property
    def decoder(self) -> Module:
        """The part of a body that some heads call (OPT)."""
        return self

    def forward(self, *_: Any, inputs_embeds: Tensor, **__: Any) -> Any:
        return _BodyOutput(inputs_embeds, self._pooled(inputs_embeds))

    def _pooled(self, states: Tensor) -> Tensor | None:
        if self.pooler is None:
            return None
        if isinstance(self.pooler, Linear) and self._activation is not None:
            # ALBERT has the two parts side by side.
            return self._activation(self.pooler(states[:, 0]))
        return self.pooler(states)


class _BodyOutput:
    """The output of a body: its last layer, and the pooler's output for it."""

    def __init__(self, states: Tensor, pooled: Tensor | None) -> None:
        self.last_hidden_state, self.pooler_output = states, pooled

    def __getitem__(self, index: Any) -> Any:
        outputs = (self.last_hidden_state, self.pooler_output)
        return outputs[: 1 if self.pooler_output is None else 2][index]

    def __getattr__(self, name: str) -> Any:
        # Maps, caches, routers' logits: whatever else a head passes on.
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def _copied(module: Module, without: str | None = None) -> Module:
    duplicate = copy.copy(module)
    duplicate._parameters, duplicate._buffers = dict(module._parameters), dict(module._buffers)
    duplicate._modules = {
        name: None if child is None else _copied(child) for name, child in module._modules.items() if name != without
    }
    return duplicate


def _moved(parameter: Parameter, encoder: HuggingFaceEncoder) -> Parameter:
    return Parameter(parameter.detach().to(encoder.device), requires_grad=False)


def _labels(whole: Any) -> tuple[str, ...]:
    return tuple(str(whole.config.id2label[number]) for number in range(whole.config.num_labels))


def _check(head: HeadOnStates, whole: Any) -> None:
    """Body and head, run separately on padded rows, must give the model's own answers for each row."""
    try:
        agree = _agree(head, whole)
    except (TypeError, ValueError, RuntimeError, IndexError, KeyError, AttributeError):
        # Whatever a head does with what it was not given by its own body.
        agree = False
    if not agree:
        raise ModelError(
            f"{head.encoder.name} ({type(whole).__name__}): its head reads more than its last layer, so lamina cannot "
            "ask it while parts of the model are changed; what probes read of it can be asked: probe:TASK@LAYER"
        )


def _agree(head: HeadOnStates, whole: Any) -> bool:
    encoder, body = head.encoder, whole.base_model
    rows = [row for number, text in enumerate(_TRIALS) for row in encoder.rows(number, encoder.word_tokenizer(text))]
    with torch.no_grad(), attention_by(encoder.model, None), _pooling(encoder, body):
        # Some models have no token to pad with, so each row is run alone.
        states = [encoder.model(**encoder.inputs([row])).last_hidden_state[0] for row in rows]
        whole = whole.to(encoder.device).eval()
        together = [whole(**accepted(whole, encoder.inputs([row]))) for row in rows]
        outputs = head(rows, torch.nn.utils.rnn.pad_sequence(states, batch_first=True))
    for name, output in zip(OUTPUTS[head.kind], outputs, strict=True):
        for row, logits, known in zip(rows, output, together, strict=True):
            within = logits if head.kind == "sequence-classification" else logits[: len(row.ids)]
            if apart(within, known[name][0].float()) > TOLERANCE[encoder.model.dtype]:
                return False
    return True


@contextmanager
def _pooling(encoder: HuggingFaceEncoder, body: Module) -> Iterator[None]:
    """Within the block, a body that is the encoder's own has its pooler back."""
    lent = body is encoder.model and encoder.pooler is not None
    if lent:
        body.register_module("pooler", encoder.pooler)
    try:
        yield
    finally:
        if lent:
            body.register_module("pooler", None)
