"""Every view in both themes, as axe-core judges it: no serious or critical finding."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import lamina
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.web.app import QUESTIONS, VIEWS
from tests.language_models import tiny_causal

AXE = Path(sys.prefix) / "node_modules" / "axe-core" / "axe.min.js"
SENTENCE = "sentence=the dog sees the cat"
PAGES = {
    **{view.name: f"{view.path}?{SENTENCE}" for view in (*VIEWS, QUESTIONS)},
    "heads": f"/sentence?{SENTENCE}#heads",
    "head": f"/head/1-1?{SENTENCE}",
    "layer": "/layer/1",
    "task": "/task/pos",
    "decoder": f"/sentence?{SENTENCE}&model=causal&off=1-1&off_layer=2",
    "twin": f"/compare?{SENTENCE}&with=tiny (random)&with=causal",
    "api": "/api",
    "nowhere": "/nowhere",
}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not AXE.is_file(), reason=f"no axe-core at {AXE}: `make test` gets it from npm"),
]


@pytest.fixture(scope="module")
def address(chromium, served, pets, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("results")
    corpus = lamina.corpus_from(SAMPLE_TEXTS, name="samples")
    lamina.attention(TinyEncoder(), corpus, samples=20).save(folder / "attention", charts=False)
    lamina.headmap(TinyEncoder(), corpus, samples=20).save(folder / "headmap", charts=False)
    lamina.geometry(TinyEncoder(), corpus, samples=20, min_count=2).save(folder / "geometry", charts=False)
    return served({"tiny": TinyEncoder(), "causal": tiny_causal()}, [folder], corpora=(str(pets),))


@pytest.fixture(scope="module")
def browser(chromium, tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile"), viewport={"width": 1200, "height": 900}) as context:
        context.set_default_timeout(180_000)
        yield context


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(browser, address, name):
    page = browser.new_page()
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.goto(f"{address}{PAGES[name]}")
    page.wait_for_load_state("networkidle")
    page.wait_for_function("!document.querySelector('[aria-busy=true]')")
    for each in page.locator("details").all():
        each.evaluate("(details) => { details.open = true; }")
    # Evaluated, since the page's policy allows no script from elsewhere.
    page.evaluate(AXE.read_text(encoding="utf-8"))
    # A scheme changes colours alone: the other rules say the same of both.
    for scheme, rules in (("light", "{}"), ("dark", "{ runOnly: { type: 'rule', values: ['color-contrast'] } }")):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found = page.evaluate(f"axe.run(document, {{ resultTypes: ['violations'], ...{rules} }})")
        serious = [_told(each) for each in found["violations"] if each["impact"] in ("serious", "critical")]
        assert serious == [], f"{name}, {scheme}:\n" + "\n".join(serious)
    page.close()


def _told(violation: dict) -> str:
    places = [json.dumps(node["target"]) + ": " + node["failureSummary"] for node in violation["nodes"][:3]]
    return f"{violation['id']} ({violation['impact']}, {len(violation['nodes'])} places): " + "; ".join(places)
