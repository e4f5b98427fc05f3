"""Texts as the user's message in a chat template: the template is no word, and words stay where they are."""

from __future__ import annotations

import pytest
from transformers import AutoTokenizer

from lamina.errors import ModelError
from lamina.models import SPECIAL
from lamina.models.loading import encoder_from
from lamina.models.running.tokens import InputFormat, WordTokenizer
from lamina.types import Text

TEXT = Text("t", ("Who", "barked", "?", "The", "unhesitating", "dogs", "did", "."))
BRACKETS = "{{ bos_token }}{% for m in messages %}[INST] {{ m['content'] | trim }} [/INST]{% endfor %}"
LINES = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ '\n' + m['content'] + '\n' }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
ASIDE = "You are kind.\n\n{{ messages[0]['content'] }}\n\nAnswer:"


def expected(tokenizer):
    """The ids of the whole conversation, cut by transformers."""
    message = [{"role": "user", "content": " ".join(TEXT.words)}]
    whole = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    return tokenizer(whole, add_special_tokens=False)["input_ids"]


def chatting(tiny_encoder, architecture, template, **settings):
    base = tiny_encoder(architecture)
    tokenizer = AutoTokenizer.from_pretrained(base.tokenizer.name_or_path)
    tokenizer.chat_template = template
    return encoder_from(base.model, tokenizer, name="tiny", chat=True, **settings)


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
@pytest.mark.parametrize("template", [BRACKETS, LINES, ASIDE], ids=["brackets", "lines", "aside"])
def test_the_ids_are_those_of_the_template(tiny_encoder, architecture, template):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder(architecture).tokenizer.name_or_path)
    tokenizer.chat_template = template
    tokens, *_ = WordTokenizer(tokenizer, InputFormat(chat=True))(TEXT)
    assert tokens.ids.tolist() == expected(tokenizer)
    for at, word in enumerate(TEXT.words):
        assert tokenizer.decode(tokens.ids[tokens.words == at]).strip() == word
    around = tokenizer.decode(tokens.ids[tokens.words == SPECIAL])
    assert not any(word in around for word in ("barked", "dogs"))


def test_it_is_part_of_the_fingerprint_and_of_provenance(tiny_encoder):
    plain, one, other = (
        tiny_encoder("gpt2"),
        chatting(tiny_encoder, "gpt2", "U: {{ messages[0]['content'] }}\n"),
        chatting(tiny_encoder, "gpt2", "V: {{ messages[0]['content'] }}\n"),
    )
    assert len({plain.fingerprint, one.fingerprint, other.fingerprint}) == 3
    assert "chat" in one.describe()
    assert "chat" not in plain.describe()
    (made,) = one.encode([Text("t", ("the", "dog"))])
    assert made.states.shape[0] == len(made.tokens.ids)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (None, "its tokenizer has no chat template"),
        ("{{ messages[0]['content'] | upper }}", "shows the user's message 0 times, or changes it"),
        ("{{ messages[0]['content'] }} {{ messages[0]['content'] }}", "shows the user's message 2 times"),
        ("{{ raise_exception('system first') }}", "cannot be used with one message of the user (system first)"),
        ("{{ messages[0]['content'] }}" + 40 * " word", "leaves room for"),
    ],
    ids=["none", "changed", "twice", "refuses", "too long"],
)
def test_a_template_that_cannot_be_used_is_named(tiny_encoder, template, said):
    with pytest.raises(ModelError) as caught:
        chatting(tiny_encoder, "gpt2", template)
    assert said in str(caught.value)
