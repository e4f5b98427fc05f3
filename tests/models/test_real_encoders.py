"""Real models on real sentences."""

from __future__ import annotations

import itertools

import pytest
import torch

import lamina
from lamina import assets
from lamina.corpora.formats import conllu
from lamina.models import SPECIAL
from lamina.models.running.tokens import InputFormat, WordTokenizer
from lamina.testing import SAMPLE_TEXTS, check_encoder
from lamina.types import Text


@pytest.fixture(scope="module")
def optional_encoder():
    """Name -> a larger model, for those who have it already: hundreds of megabytes are not fetched for a test."""

    def load(name):
        if assets.local_folder(name) is None:
            pytest.skip(f"{name} is not on this machine: lamina assets get {name}")
        return lamina.load_encoder(name, device="cpu")

    return load


@pytest.fixture(scope="module")
def sentences(data_dir) -> list[Text]:
    """The development part of the English Web Treebank."""
    return list(conllu.read(data_dir / "ud_english_ewt" / "en_ewt-ud-dev.conllu"))


def count_glued(encoder, texts) -> int:
    """Texts whose pieces are not those of the words joined by spaces."""
    cut = ((text, encoder.tokenize(text)) for text in texts)
    return sum(t.ids[t.words != SPECIAL].tolist() != encoder.joined_ids(text.words) for text, t in cut)


@pytest.mark.real
def test_minilm(real_encoder):
    e = real_encoder
    assert (e.name, e.blocks, e.heads, e.width, e.limit, e.causal) == ("minilm", 6, 12, 384, 512, False)
    check_encoder(e)
    # The tokenizer's own file would cut this at 128 pieces.
    (made,) = e.encode([Text("long", ("dog",) * 600)], ("states", "maps"))
    assert len(made.tokens.ids) == 602
    assert (made.windows, made.maps) == (2, None)


@pytest.mark.real
@pytest.mark.data
def test_minilm_on_real_sentences(real_encoder, sentences):
    assert len(sentences) == 2001
    check_encoder(real_encoder, sentences[:24])
    assert count_glued(real_encoder, sentences) == 0
    assert sum(real_encoder.tokenize(text).unknown for text in sentences) == 0


@pytest.mark.real
def test_mpnet(optional_encoder):
    encoder = optional_encoder("mpnet")
    assert (encoder.blocks, encoder.heads, encoder.width, encoder.limit, encoder.causal) == (12, 12, 768, 512, False)
    check_encoder(encoder, SAMPLE_TEXTS[:2])


@pytest.mark.real
def test_smollm2(optional_encoder):
    encoder = optional_encoder("smollm2")
    assert (encoder.blocks, encoder.heads, encoder.width, encoder.limit, encoder.causal) == (30, 9, 576, 8192, True)
    assert encoder.tokenize(SAMPLE_TEXTS[0]).words.tolist()[0] == 0, "it has no token before the first word"
    check_encoder(encoder, SAMPLE_TEXTS[:2])
    (made,) = encoder.encode(SAMPLE_TEXTS[:1])
    # What makes float16 a bad home for it: one value of the first token is huge.
    assert 10_000 < made.states.abs().max() < 65_504
    assert made.states.isfinite().all()
    # Its own chat template: the template is no word.
    said = [{"role": "user", "content": " ".join(SAMPLE_TEXTS[0].words)}]
    whole = encoder.tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False)
    tokens, *_ = WordTokenizer(encoder.tokenizer, InputFormat(chat=True))(SAMPLE_TEXTS[0])
    assert tokens.ids.tolist() == encoder.tokenizer(whole, add_special_tokens=False)["input_ids"]
    assert encoder.tokenizer.decode(tokens.ids[tokens.words >= 0]) == said[0]["content"]


@pytest.mark.real
@pytest.mark.data
@pytest.mark.parametrize("name", ["mpnet", "smollm2"])
def test_real_sentences_are_cut_as_their_joined_text(name, optional_encoder, sentences):
    encoder = optional_encoder(name)
    assert count_glued(encoder, sentences) == 0
    assert sum(encoder.tokenize(text).unknown for text in sentences) == 0


@pytest.mark.real
def test_a_real_twin_keeps_the_embedding_layer(real_encoder):
    twin = real_encoder.random_twin(0, keep_embeddings=True)
    for mine, theirs in itertools.islice(
        zip(twin.encode(SAMPLE_TEXTS), real_encoder.encode(SAMPLE_TEXTS), strict=True), 3
    ):
        assert torch.equal(mine.states[:, 0], theirs.states[:, 0])
        assert not torch.isclose(mine.states[:, 1:], theirs.states[:, 1:], atol=1e-3).all(-1).any()
