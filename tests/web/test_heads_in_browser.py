"""Heads and Compare as a person uses them, in a real Chromium: tiny models, some with as many heads as large ones."""

from __future__ import annotations

import re

import pytest

import lamina
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from tests.web.large_models import save_roles, tiny

SENTENCE = "sentence=Dogs chase cats ."
WRITTEN = """
(() => {
  window.written = [];
  const write = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    window.written.push(text);
    return write.call(this, text, ...place);
  };
})();
"""
"""Keeps what is written on canvases."""

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(chromium, served, pets, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("results")
    corpus = lamina.corpus_from(SAMPLE_TEXTS, name="samples")
    own, other = TinyEncoder(), TinyEncoder(seed=7)
    other.name = "other"
    lamina.attention(own, corpus, samples=20).save(folder / "attention", charts=False)
    lamina.headmap(own, corpus, samples=20).save(folder / "headmap", charts=False)
    lamina.heads(own, lamina.load_corpus(str(pets), "dev"), samples=20).save(folder / "heads", charts=False)
    for name, encoder in (("tiny", own), ("other", other)):
        lamina.geometry(encoder, corpus, samples=20, min_count=2).save(folder / f"geometry-{name}", charts=False)
    deep = TinyEncoder(blocks=3, seed=3)
    deep.name = "deep"
    lamina.correspondence(other, deep, corpus, samples=20).save(folder / "correspondence", charts=False)
    large = {"wide": tiny("wide", 32, 32), "wider": tiny("wider", 48, 64)}
    for name, encoder in large.items():
        save_roles(encoder, folder / f"headmap-{name}")
    return served({"tiny": own, "other": other, "deep": deep, **large}, [folder], corpora=(str(pets),))


@pytest.fixture(scope="module")
def browser(chromium, tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile"), viewport={"width": 1200, "height": 900}) as context:
        context.set_default_timeout(180_000)
        context.add_init_script(WRITTEN)
        yield context


@pytest.fixture
def page(browser):
    page, logged = browser.new_page(), []
    page.on("pageerror", lambda error: logged.append(str(error)))
    yield page
    page.close()
    assert logged == []


def settled(page) -> None:
    """Everything that was asked for is there; pages begin busy."""
    page.wait_for_function("!document.querySelector('main [aria-busy]')")


def cell(page, head: str) -> dict[str, float]:
    """Where a head is on the atlas, while it is not zoomed."""
    layer, number = map(int, head.split("-"))
    size = page.evaluate("JSON.parse(document.querySelector('#atlas .atlas-grid').dataset.cell)")
    return {
        "x": size["left"] + (number - 0.5) * size["wide"],
        "y": size["top"] + (layer - 0.5) * size["tall"],
    }


def words_on(page, act) -> set[str]:
    """What is written on canvases after something was done."""
    page.evaluate("window.written = []")
    act()
    page.wait_for_timeout(200)
    return set(page.evaluate("window.written"))


def test_heads_are_coloured_by_role_at_first_and_a_head_has_an_address(page, address):
    page.goto(f"{address}/heads?{SENTENCE}&model=tiny")
    settled(page)
    assert page.locator("#measure").input_value() == "headmap.role"
    first = page.url
    # A link to the heads is one to the workbench of the sentence, with its words above.
    assert "/sentence?" in first
    assert page.locator("#words").is_visible()
    telling = re.search(r"\d-\d", page.locator("#card-title").inner_text())[0]
    page.locator("#atlas .atlas-grid").click(position=cell(page, "2-2" if telling != "2-2" else "1-1"))
    page.wait_for_function(f"location.href !== {first!r}")
    settled(page)
    chosen = re.search(r"head=(\d-\d)", page.url)[1]
    assert chosen in page.locator("#card-title").inner_text()
    assert page.locator("#card .says").inner_text()
    # The words have its card too, with the switch.
    assert chosen in page.locator("#head-title").inner_text()
    assert page.get_by_role("switch", name=f"Head {chosen} in this sentence").count() == 1
    assert page.locator(".evidence tbody tr").count() == 3
    assert page.locator(".examples li").count() == 5
    page.get_by_role("button", name="Draw the lines of example 1").click()
    page.locator("#on", has_text="On example 1, pets").wait_for()
    page.get_by_role("button", name="Back to the sentence").click()
    page.locator("#on", has_text="On example 1").wait_for(state="detached")
    page.go_back()
    page.wait_for_function(f"location.href === {first!r}")
    page.locator("#card-title", has_text=telling).wait_for()
    assert page.locator("#head").is_hidden()


def test_a_head_is_seen_to_fail_and_the_pane_shows_where_it_looks_instead(page, address):
    page.goto(f"{address}/heads?{SENTENCE}&model=tiny&head=2-1&measure=heads.all")
    settled(page)
    said = page.locator("#examples", has_text="Where it fails").inner_text()
    right, asked = map(int, re.search(r"it finds (\d+) of (\d+) all dependencies", said).groups())
    assert f"misses {asked - right}" in said
    misses = page.locator(".misses li")
    assert 0 < misses.count() <= 5
    words = misses.first.locator("mark").all_inner_texts()
    assert len(words) == 3
    assert re.search(r"[→←] .+ \(word \d\), .+; right: .+ \(word \d\)", misses.first.inner_text())
    page.get_by_role("button", name="Draw the lines of miss 1").click()
    page.locator("#on", has_text="On miss 1, pets").wait_for()
    # The word asked about is pinned: the pane says where it looks.
    asked_word = misses.first.locator("mark.from").inner_text()
    page.locator("#lines button[aria-pressed=true]", has_text=asked_word).wait_for()
    assert page.locator("#said").inner_text().startswith(asked_word)
    # What a head is not asked for cannot be missed.
    page.select_option("#measure", "sentence.to_self")
    page.locator("#examples", has_text="no link is right or wrong").wait_for()


def test_lines_stay_in_sight_and_can_be_read_as_a_table(page, address):
    page.goto(f"{address}/heads?{SENTENCE}&model=tiny&head=2-1")
    settled(page)
    assert page.locator("#looking").evaluate("(pane) => getComputedStyle(pane).position") == "sticky"
    page.wait_for_selector("#lines canvas")
    page.locator("#links summary").click()
    # Sinks are left out at first, and it is said how much that is.
    page.locator("#links td", has_text="chase").first.wait_for()
    assert page.locator("#links td", has_text="[special]").count() == 0
    assert re.search(r"sinks: attention to special tokens, \d+ % of 2-1", page.locator("#left-out").inner_text())
    page.check("#sinks")
    page.locator("#links td", has_text="[special]").first.wait_for()
    page.uncheck("#sinks")
    page.locator("#links td", has_text="[special]").first.wait_for(state="detached")
    page.locator("#links td", has_text="chase").first.wait_for()
    page.select_option("#weights", "norm")
    page.wait_for_function("location.search.includes('weights=norm')")
    page.select_option("#layout", "rollout")
    page.locator("#links td", has_text="rollout").first.wait_for()


def test_arrow_keys_move_over_the_heads_and_the_active_one_is_told(page, address):
    page.goto(f"{address}/heads?{SENTENCE}&model=tiny&head=1-1&measure=sentence.to_self")
    settled(page)
    page.locator("#atlas .atlas-grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    active = page.locator("#atlas [role=gridcell]")
    assert re.match(r"2-2: 0\.\d+ \(share of attention\), rank \d of 4", active.text_content())
    page.keyboard.press("Enter")
    page.wait_for_function("location.search.includes('head=2-2')")


@pytest.mark.parametrize(("model", "size"), [("wide", (32, 32)), ("wider", (48, 64))])
def test_large_models_are_legible(page, address, model, size):
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{address}/heads?{SENTENCE}&model={model}&head=9-9")
    settled(page)
    grid = page.locator("#atlas .atlas-grid")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert (grid.get_attribute("aria-rowcount"), grid.get_attribute("aria-colcount")) == tuple(map(str, size))
    roles = {"prev", "next", "sep", "syn", "broad", "coref", "punct"}
    # No word fits a cell of a few pixels; zoomed in, words are written, and panning stays inside.
    assert not words_on(page, lambda: page.select_option("#measure", "headmap.role")) & roles
    grid.focus()
    near = words_on(page, lambda: [page.keyboard.press("+") for _ in range(9)])
    assert near & roles
    page.keyboard.press("End")
    page.keyboard.press("0")
    page.locator("#atlas summary").click()
    page.locator("#atlas tbody tr").nth(size[0] - 1).wait_for()
    assert page.locator("#atlas tbody tr").count() == size[0]
    assert page.locator("#atlas tbody tr").first.locator("td").count() == size[1] + 1


def test_any_number_of_models_share_a_scale_and_one_is_pinned(page, address):
    page.goto(f"{address}/compare?{SENTENCE}&model=tiny&with=other&with=tiny (random)")
    settled(page)
    assert page.locator("#atlases [data-panel]").count() == 3
    assert page.locator("#heads-legend .scale").count() == 1
    # Only the twin has its heads at the same places: differences of others are not offered, and it is said why.
    assert page.locator("#differences [data-panel]").all_inner_texts()[0].startswith("tiny (random) minus tiny")
    assert page.locator("#differences [data-panel]").count() == 1
    assert "No difference head by head for other" in page.locator("#differences").inner_text()
    # Layers and heads of the first two can be measured; what fine-tuning changed only where one started from the other.
    assert "Not measured yet for tiny and other" in page.locator("#changed").inner_text()
    assert page.get_by_role("button", name="Compute what fine-tuning changed").count() == 0
    page.get_by_role("button", name="Pin tiny, random twin as the baseline").click()
    page.wait_for_function("location.search.includes('baseline=')")
    page.locator("#differences", has_text="tiny minus tiny (random)").wait_for()


def test_what_is_not_alike_is_told(page, address):
    page.goto(f"{address}/compare?{SENTENCE}&model=tiny&with=wide")
    page.locator("#not li", has_text="wide: no saved result of").wait_for()
    # Models of different depth can be matched too.
    name = "Measure which layers and heads of tiny and wide correspond"
    page.locator("#changed").get_by_role("button", name=name).wait_for()


def test_layers_and_heads_that_correspond_are_shown_in_either_order(page, address):
    page.goto(f"{address}/compare?{SENTENCE}&model=deep&with=other")
    page.locator("#changed .cka").wait_for()
    # In the order of the result: layers of `other` by layers of `deep`.
    assert page.locator("#changed .cka tbody tr").count() == 3
    assert page.locator("#changed .cka thead th").count() == 1 + 4
    assert page.locator("#changed .cka .best").count() >= 3
    page.locator("#changed", has_text="Heads that match").wait_for()
    page.goto(f"{address}/head/1-1?model=other")
    page.locator("[data-model=deep]", has_text="attends most alike").wait_for()
    page.goto(f"{address}/head/1-1?model=deep")
    page.locator(
        "[data-model=other]", has_text=re.compile("than like any other head of deep|as its best match")
    ).wait_for()


DRAWN = """
window.drawn = [];
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  window.drawn.push(text);
  return write.call(this, text, ...rest);
};
"""
"""Notes what is written on canvases."""


@pytest.mark.parametrize("width", [1280, 390])
def test_differences_above_0_are_written_too(page, address, width):
    page.add_init_script(DRAWN)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{address}/compare?{SENTENCE}&model=tiny&with=tiny (random)")
    panel = page.locator("#differences [data-panel]").first
    panel.wait_for()
    panel.locator("summary").click()
    cells = panel.locator("tbody td").all_inner_texts()
    above = {each for each in cells if each.startswith("+")}
    assert above
    page.wait_for_function(
        "(above) => above.every((text) => drawn.includes(text) || drawn.includes(text.slice(1)))", arg=list(above)
    )
