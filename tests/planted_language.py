"""A language in which one head has to copy the subject's number to the verb, and small models that learned it.

A sentence is filler words, a noun, filler words, `now` and a verb in the noun's number, and filler again. Nouns also
have a kind (beast or tool) that nothing depends on. In training every head costs something but the largest of the
second block: it does the copying alone, above states in which number and kind are readable at the noun.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from lamina.corpora.suites.minimal_pairs import MinimalPairs, pairs_from
from lamina.models.loading import encoder_from
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.types import Edge, Span, Text

KINDS = {"beast": ("dog", "cat", "horse", "bird"), "tool": ("saw", "file", "drill", "plane")}
NOUNS = tuple(noun for some in KINDS.values() for noun in some)
VERBS = ("stay", "fall", "turn", "wait")
FILLERS = ("well", "so", "there", "again", "here", "today", "then", "still", "often", "soon", "once", "far")
CUE = "now"
"""The word before the verb; it says that a verb follows, and not which."""
BLOCKS, HEADS, WIDTH = 2, 4, 32
_START, _UNKNOWN = "<s>", "<unk>"
_VOCABULARY = (
    _START, _UNKNOWN, ".", CUE, *FILLERS, *(noun + end for noun in NOUNS for end in ("", "s")),
    *(verb + end for verb in VERBS for end in ("", "s")),
)  # fmt: skip
_IDS = {word: number for number, word in enumerate(_VOCABULARY)}
_STEPS, _BATCH, _RATE = 300, 48, 1e-2
_COST = 0.5
"""Of a head that is not the largest of the second block: times the norm of its value and output weights."""
_LEARNED, _STARTS = 1.7, 5
"""A loss on verbs that says that agreement was learned: log 4 is the best, log 8 is without it. Not every start gets
there."""
_NOISE = 0.01
"""Added to all weights at the end: no head is exactly dead."""


class Said(NamedTuple):
    """One sentence."""

    words: tuple[str, ...]
    noun: int
    """Where the subject is."""
    verb: int
    plural: bool
    """Whether the noun is."""

    @property
    def wrong(self) -> tuple[str, ...]:
        """The same with the verb in the other number."""
        verb = self.words[self.verb]
        other = verb.removesuffix("s") if verb.endswith("s") else f"{verb}s"
        return (*self.words[: self.verb], other, *self.words[self.verb + 1 :])


def said(seed: int, many: int, *, dependent: bool = True) -> list[Said]:
    """Sentences; without the dependency, the verb's number is drawn by itself."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(many):
        before, between, after = (list(rng.choice(FILLERS, rng.integers(*some))) for some in ((0, 4), (1, 6), (0, 3)))
        plural = bool(rng.integers(2))
        agreeing = plural if dependent else bool(rng.integers(2))
        noun = str(rng.choice(NOUNS)) + ("s" if plural else "")
        verb = str(rng.choice(VERBS)) + ("" if agreeing else "s")
        words = [*before, noun, *between, CUE, verb, *after, "."]
        found.append(Said(tuple(map(str, words)), len(before), len(before) + len(between) + 2, plural))
    return found


def sentences(seed: int, many: int, *, dependent: bool = True) -> list[Text]:
    """Sentences as texts, each a document; the noun is labelled with its number (`number`) and its kind (`kind`)."""
    made = []
    for at, each in enumerate(said(seed, many, dependent=dependent)):
        span = Span(each.noun, each.noun + 1)
        noun = each.words[each.noun].removesuffix("s")
        kind = next(name for name, some in KINDS.items() if noun in some)
        edges = {"number": (Edge(("plural" if each.plural else "singular",), span),), "kind": (Edge((kind,), span),)}
        made.append(Text(f"{seed}-{at}", each.words, edges=edges, doc=f"{seed}-{at}"))
    return made


def agreement_pairs(seed: int, many: int) -> MinimalPairs:
    """Sentences beside the same ones with the verb in the other number; none twice."""
    drawn = {(each.words, each.wrong) for each in said(seed, 2 * many)}
    some = sorted(drawn)[:many]
    return pairs_from([(" ".join(right), " ".join(wrong)) for right, wrong in some], name="agreement")


@cache
def planted(seed: int, dependent: bool = True) -> HuggingFaceEncoder:
    """A GPT-2 of two blocks with four heads each that learned the language; with its head, in memory."""
    with torch.random.fork_rng(devices=[]):
        model, loss = _trained(seed, dependent)
        for start in range(1, _STARTS):
            if loss < _LEARNED or not dependent:
                break
            model, loss = _trained(seed + 10_000 * start, dependent)
    encoder = encoder_from(model, _tokenizer(), name=f"planted {seed}")
    assert isinstance(encoder, HuggingFaceEncoder)
    return encoder


def copying_head(encoder: HuggingFaceEncoder) -> tuple[int, int]:
    """(block, head), from 0, that copies the number by `copied`."""
    shares = copied(encoder)
    block, head = np.unravel_index(np.argmax(shares), shares.shape)
    return int(block), int(head)


def copied(encoder: HuggingFaceEncoder, many: int = 200) -> np.ndarray:
    """[block, head]: what each head brings from the noun to the cue for the verb in the right number, in logits.

    By attention and weights alone: the weight that the cue gives to the noun, times what value and output weights make
    of the noun's state, as it counts in the logit of the right form minus the wrong one. Nothing is taken away.
    """
    model: Any = encoder.whole
    sums = np.zeros((BLOCKS, HEADS))
    with torch.no_grad():
        for each in said(10_000, many):
            ids = torch.tensor([[_IDS[_START], *(_IDS[word] for word in each.words)]])
            run = model.transformer(ids, output_attentions=True, output_hidden_states=True)
            noun, cue = each.noun + 1, each.verb
            right, wrong = (_IDS[words[each.verb]] for words in (each.words, each.wrong))
            final = model.transformer.ln_f
            # The last hidden state is given after the final norm; the norm is linear once its scale is known.
            wanted = (model.lm_head.weight[right] - model.lm_head.weight[wrong]) * final.weight
            before = _before_norm(model, ids)[cue]
            wanted = (wanted - wanted.mean()) / before.std(correction=0)
            for block, layer in enumerate(model.transformer.h):
                values = (layer.ln_1(run.hidden_states[block][0, noun]) @ layer.attn.c_attn.weight)[2 * WIDTH :]
                values = values + layer.attn.c_attn.bias[2 * WIDTH :]
                out = layer.attn.c_proj.weight.unflatten(0, (HEADS, -1)) @ wanted
                moved = (values.unflatten(0, (HEADS, -1)) * out).sum(-1)
                sums[block] += (run.attentions[block][0, :, cue, noun] * moved).numpy()
    return sums / many


def _before_norm(model: Any, ids: Tensor) -> Tensor:
    kept: list[Tensor] = []
    handle = model.transformer.ln_f.register_forward_pre_hook(lambda _module, read: kept.append(read[0]))
    try:
        model.transformer(ids)
    finally:
        handle.remove()
    return kept[0][0]


def _trained(seed: int, dependent: bool) -> tuple[GPT2LMHeadModel, float]:
    """A model, and its loss on verbs at the end."""
    torch.manual_seed(seed)
    config: Any = GPT2Config(
        vocab_size=len(_VOCABULARY), n_positions=24, n_embd=WIDTH, n_layer=BLOCKS, n_head=HEADS, n_inner=8,
        initializer_range=0.15,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    config._attn_implementation = "eager"
    model: Any = GPT2LMHeadModel(config)
    with torch.no_grad():
        model.transformer.h[0].attn.c_proj.weight.zero_()
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=_STEPS)
    ids = _padded(said(seed + 1000, _STEPS * _BATCH // 4, dependent=dependent))
    rng = np.random.default_rng(seed)
    model.train()
    verb = torch.zeros(())
    for _ in range(_STEPS):
        batch = ids[rng.integers(len(ids), size=_BATCH)]
        logits = model(batch.clamp(min=0)).logits[:, :-1]
        losses = cross_entropy(logits.transpose(1, 2), batch[:, 1:], ignore_index=-100, reduction="none")
        verbs = batch[:, :-1] == _IDS[CUE]
        verb = losses[verbs].mean()
        loss = losses.mean() + verb
        first, second = (_norms(layer) for layer in model.transformer.h)
        # All heads that share the work pay, but the one that does most of it.
        cost = _COST * (first.sum() + second.sum() - second.max())
        (loss + cost).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for weight in model.parameters():
            weight += _NOISE * torch.randn_like(weight)
    return model.eval(), verb.item()


def _norms(layer: Any) -> Tensor:
    """Of each head's value and output weights."""
    both = (layer.attn.c_attn.weight[:, 2 * WIDTH :].T, layer.attn.c_proj.weight)
    return torch.cat([each.unflatten(0, (HEADS, -1)).flatten(1) for each in both], 1).norm(dim=1)


def _padded(some: list[Said]) -> Tensor:
    longest = max(len(each.words) for each in some) + 1
    ids = torch.full((len(some), longest), -100)
    for row, each in zip(ids, some, strict=True):
        row[: len(each.words) + 1] = torch.tensor([_IDS[_START], *(_IDS[word] for word in each.words)])
    return ids


def _tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel(_IDS, unk_token=_UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=_START, eos_token=_START, unk_token=_UNKNOWN, pad_token=_UNKNOWN
    )
