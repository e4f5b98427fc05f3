"""Log-probabilities of texts, words, regions and fillers: against transformers' own loss and one mask at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import InputError
from lamina.models.language.language_model import (
    LanguageModel,
    WrittenPassage,
    cut_passages,
    language_model,
    parts_at,
    score_passages,
)
from lamina.models.language.slots import Gap, cannot_spell, fill_gaps, token_logprobs, top
from lamina.models.loading import encoder_from
from tests.language_models import HEADS, tiny_causal, tiny_language_model, tiny_masked

SENTENCES = ("The quick dogs barked, and the cats sat.", "Who can't say why?", "Unhesitatingly!", "I")
PASSAGES = [WrittenPassage.typed(str(number), text) for number, text in enumerate(SENTENCES)]
SLOT = Gap("gap", "The quick ", " barked.")


@cache
def model_of(name: str) -> LanguageModel:
    return language_model(tiny_language_model(name))


def ids_of(model: LanguageModel, text: str) -> list[int]:
    """As transformers' tokenizer gives them, with the token that begins a text."""
    ids = model.encoder.tokenizer(text)["input_ids"]
    return ids if model.start is None else [model.start, *ids]


def logits_of(model: LanguageModel, ids: Sequence[int | None]) -> torch.Tensor:
    whole: Any = model.encoder.whole
    with torch.no_grad():
        return whole(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)


def one_mask_at_a_time(model: LanguageModel, text: str) -> list[float]:
    ids = ids_of(model, text)
    found = []
    for place in range(1, len(ids) - 1):
        hidden = [model.mask if at == place else each for at, each in enumerate(ids)]
        found.append(logits_of(model, hidden)[place, ids[place]].item())
    return found


@pytest.mark.parametrize("name", [name for name, head in HEADS.items() if "Masked" in head])
def test_masked_scores_are_those_of_one_mask_at_a_time(name: str) -> None:
    model = model_of(name)
    for passage, scored in zip(PASSAGES, score_passages(model, PASSAGES), strict=True):
        np.testing.assert_allclose(scored.logprobs, one_mask_at_a_time(model, passage.text), atol=1e-5)
        assert scored.total == pytest.approx(np.nansum(scored.by_span))


@pytest.mark.parametrize("name", [name for name, head in HEADS.items() if "Causal" in head])
def test_causal_scores_are_transformers_own_loss(name: str) -> None:
    model = model_of(name)
    whole: Any = model.encoder.whole
    for passage, scored in zip(PASSAGES, score_passages(model, PASSAGES), strict=True):
        ids = torch.tensor([ids_of(model, passage.text)])
        with torch.no_grad():
            loss = whole(input_ids=ids, labels=ids).loss.item()
        assert -scored.total / scored.pieces == pytest.approx(loss, abs=1e-5)
        assert scored.pieces == ids.shape[1] - 1


def test_later_pieces_of_a_word_can_be_hidden_with_it() -> None:
    model = model_of("bert")
    passage = WrittenPassage.typed("x", "the unhesitating dog")
    ids = ids_of(model, passage.text)
    words = cut_passages(model, [passage])[0].tokens.words
    expected = []
    for place in range(1, len(ids) - 1):
        later = {at for at in range(place, len(ids)) if words[at] == words[place]}
        hidden = [model.mask if at in later else each for at, each in enumerate(ids)]
        expected.append(logits_of(model, hidden)[place, ids[place]].item())
    (plain,), (together,) = (list(score_passages(model, [passage], masking=masking)) for masking in ("piece", "word"))
    np.testing.assert_allclose(together.logprobs, expected, atol=1e-5)
    assert plain.logprobs[1] != pytest.approx(together.logprobs[1], abs=1e-3)
    assert plain.logprobs[-1] == pytest.approx(together.logprobs[-1], abs=1e-5)


@pytest.mark.parametrize("tiny", [tiny_masked, tiny_causal])
def test_long_texts_are_read_in_windows(tiny: Any) -> None:
    long = tiny()
    short = language_model(encoder_from(long.whole, long.tokenizer, limit=14))
    passage = WrittenPassage.typed("x", "the dog and the cat and the fox and the dog and the cat sat")
    (windowed,), (whole,) = (
        list(score_passages(short, [passage])),
        list(score_passages(language_model(long), [passage])),
    )
    assert (windowed.windows > 1, whole.windows, windowed.pieces) == (True, 1, whole.pieces)
    if short.kind == "causal":
        # The first window is read as the whole text is.
        np.testing.assert_allclose(windowed.logprobs[:13], whole.logprobs[:13], atol=1e-5)
    ids = cut_passages(short, [passage])[0].tokens.ids
    # The last piece is asked in the last window: the start, then as many of the last tokens as fit.
    if short.kind == "causal":
        last = [int(ids[0]), *map(int, ids[-13:])]
        expected = logits_of(short, last)[-2, last[-1]]
    else:
        last = [int(ids[0]), *map(int, ids[-13:])]
        hidden = [*last[:-2], short.mask or 0, last[-1]]
        expected = logits_of(short, hidden)[-2, last[-2]]
    assert windowed.logprobs[-1] == pytest.approx(expected.item(), abs=1e-5)


def test_order_and_company_change_nothing() -> None:
    model = model_of("bert")
    forth, back = list(score_passages(model, PASSAGES)), list(score_passages(model, PASSAGES[::-1]))[::-1]
    for one, other in zip(forth, back, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)
        assert one.id == other.id


def test_regions_get_the_pieces_that_begin_in_them() -> None:
    model = model_of("gpt2")
    passage = WrittenPassage.regions("x", ["The dogs", "", " can", "'t", " sit."])
    (scored,) = score_passages(model, [passage])
    by_region = scored.by_span
    assert np.isnan(by_region[1])
    assert np.nansum(by_region) == pytest.approx(scored.total)
    (words,) = score_passages(model, [WrittenPassage.typed("x", passage.text)])
    assert words.by_span[2] == pytest.approx(by_region[2] + by_region[3])
    assert words.by_span[:2].sum() == pytest.approx(by_region[0])


@given(st.lists(st.text("ab .\u3000", min_size=1, max_size=4), min_size=1, max_size=6))
def test_every_character_that_is_written_belongs_to_its_region(regions: list[str]) -> None:
    passage = WrittenPassage.regions("x", regions)
    found = parts_at(passage, range(len(passage.text)))
    owners = [number for number, region in enumerate(regions) for _ in region]
    for at, character in enumerate(passage.text):
        if not character.isspace():
            assert found[at] == owners[at]


def test_fillers_of_a_masked_model_are_masked_all_at_once() -> None:
    model = model_of("bert")
    ((short, long),) = fill_gaps(model, [SLOT], [["dog", "unhesitating"]])
    ids = ids_of(model, "the quick unhesitating barked.")
    start = len(ids_of(model, "the quick")) - 1
    inside = range(start, start + long.pieces)
    hidden = logits_of(model, [model.mask if at in inside else each for at, each in enumerate(ids)])
    assert long.pieces > 1
    assert short.pieces == 1
    assert long.logprob == pytest.approx(sum(hidden[at, ids[at]].item() for at in inside), abs=1e-5)
    assert np.isnan(short.whole)
    assert piece_of(model, "dog") == pytest.approx(short.logprob, abs=1e-5)


def piece_of(model: LanguageModel, word: str) -> float:
    (logprobs,) = token_logprobs(model, [SLOT])
    assert logprobs.exp().sum().item() == pytest.approx(1, abs=1e-5)
    ids = model.encoder.tokenizer.backend_tokenizer.encode(f" {word}", add_special_tokens=False).ids
    return logprobs[ids[0]].item()


def test_fillers_of_a_causal_model_follow_the_chain_rule() -> None:
    model = model_of("gpt2")
    ((short, long),) = fill_gaps(model, [SLOT], [["dogs", "quick brown fox"]], whole=True)
    for filled, candidate in ((short, "dogs"), (long, "quick brown fox")):
        (whole,) = score_passages(model, [SLOT.filled(candidate)])
        (before,) = score_passages(model, [WrittenPassage.typed("x", SLOT.before.rstrip())])
        assert filled.whole == pytest.approx(whole.total - before.total, abs=1e-5)
        assert filled.logprob == pytest.approx(whole.by_span[1], abs=1e-5)
    best = next(top(model, [SLOT], 5))
    assert [each.logprob for each in best] == sorted((each.logprob for each in best), reverse=True)
    assert next(token_logprobs(model, [SLOT]))[best[0].id].item() == pytest.approx(best[0].logprob)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_gaps_in_long_texts_keep_what_is_around_them(name: str) -> None:
    model = model_of(name)
    far = "the dog and " * 30
    near = Gap("near", "the quick ", " barked.")
    away = Gap("away", f"{far}the quick ", " barked." + (" the cat" * 30 if name == "bert" else ""))
    ((one,), (other,)) = fill_gaps(model, [near, away], [["dog"], ["dog"]])
    assert np.isfinite(other.logprob)
    assert other.logprob != one.logprob


def test_pieces_that_the_vocabulary_lacks_are_counted() -> None:
    texts = [PASSAGES[0], WrittenPassage.typed("x", "日 dog 本")]
    assert [scored.unknown for scored in score_passages(model_of("bert"), texts)] == [0, 2]


def test_candidates_that_cannot_be_spelt_are_named() -> None:
    model = model_of("bert")
    with pytest.raises(InputError, match="gap: the vocabulary of tiny bert cannot spell '日本'"):
        list(fill_gaps(model, [SLOT], [["dog", "日本"]]))
    assert cannot_spell(model, ["dog", "日本"]) == ["日本"]
    with pytest.raises(InputError, match="a candidate for The quick ___ barked"):
        list(fill_gaps(model, [SLOT], [[" "]]))
