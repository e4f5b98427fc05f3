"""The app as a person uses it: a real server, a real model, a real Chromium."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import lamina
from lamina import load_corpus
from lamina.corpora.learning import Splits

VIEWS = ["/", "/heads", "/questions", "/layers", "/compare", "/results"]

pytestmark = [pytest.mark.browser, pytest.mark.real]


@pytest.fixture(scope="module")
def results(chromium, real_encoder, tmp_path_factory) -> Path:
    """Small runs of the real model: what they say does not matter here, what the pages make of it does."""
    root = tmp_path_factory.mktemp("app") / "results"
    dev = load_corpus("ewt", "dev", limit=20)
    splits = Splits(load_corpus("ewt", "train", limit=100), dev)
    short = {"steps": 10, "hidden": 16, "seeds": 1, "samples": 20, "twin": False, "store": root / ".store"}
    lamina.probe(real_encoder, splits, tasks=["pos", "dep"], **short, out=root / "probe")
    lamina.heads(real_encoder, dev, samples=20, out=root / "heads")
    lamina.headmap(real_encoder, dev, samples=20, out=root / "headmap")
    steps = {"task": "babi", "max_steps": 2, "limit": 20, "babi_tasks": [1], "batch": 4}
    lamina.finetune("minilm", "stories", **steps, out=root / "stories")
    return root


@pytest.fixture(scope="module")
def address(results) -> Iterator[str]:
    command = [sys.executable, "-m", "lamina", "serve", str(results), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield re.match(r"http://[^/]+", process.stdout.readline())[0]
        process.terminate()


@pytest.fixture(scope="module")
def browser(chromium, tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile"), viewport={"width": 1200, "height": 900}) as context:
        context.set_default_timeout(60_000)
        yield context


@pytest.fixture
def page(browser, address):
    """A fresh page; afterwards: nothing was logged, and nothing left the machine."""
    page, logged, asked = browser.new_page(), [], []
    page.on("console", lambda message: logged.append(message.text))
    page.on("pageerror", lambda error: logged.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    page.close()
    assert logged == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def settled(page) -> None:
    page.wait_for_function("document.getElementById('status').textContent === ''")


def test_a_first_visit_shows_beliefs_and_a_word_typed_nothing(page, address):
    page.goto(f"{address}/")
    page.wait_for_selector("button.word .bars")
    assert page.locator("button.word[aria-pressed=true]").count() == 1
    page.wait_for_selector("#near table.brief")
    page.locator('button.word[data-word="3"]').click()
    page.wait_for_function("location.search.includes('word=3')")
    page.fill("#layer", "2")
    assert "2 of 6" in page.locator("#layer-said").inner_text()


def test_a_sentence_is_typed_and_a_script_in_it_is_text(page, address):
    page.goto(f"{address}/")
    page.wait_for_selector("button.word .bars")
    page.fill("#sentence", "Dogs <script>document.title='gone'</script> bark")
    page.click("#ask button[type=submit]")
    page.locator("button.word", has_text="script").first.wait_for()
    assert "Sentence lens" in page.title()
    assert "sentence=Dogs" in page.url


def test_a_span_is_marked_and_asked_about(page, address):
    page.goto(f"{address}/?sentence=Dogs chase cats .")
    page.wait_for_selector("button.word .bars")
    page.select_option("#task", "dep")
    page.locator('fieldset[data-span="1"] button[data-at="2"]').click()
    page.locator('fieldset[data-span="2"] button[data-at="1"]').click()
    page.click("#mark button[type=submit]")
    page.wait_for_selector('[data-mark="dep:2:1"]')


def test_the_slider_moves_the_tokens_of_both_models(page, address):
    page.goto(f"{address}/questions")
    page.wait_for_selector("#maps .token")
    settled(page)
    assert page.locator(".map-column").count() == 2
    places = "[...document.querySelectorAll('#maps .token')].map((each) => each.style.transform).join()"
    before = page.evaluate(places)
    page.locator("#layer").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("location.search.includes('layer=5')")
    page.wait_for_function(f"{places} !== {before!r}")
    page.click("#play")
    page.wait_for_function("document.getElementById('layer').value === '6'")


def test_a_question_is_typed_and_its_script_is_text(page, address):
    page.goto(f"{address}/questions")
    page.wait_for_selector("#maps .token")
    page.fill("#question", "Who barks?")
    page.fill("#context", "Dogs bark <script>document.title='gone'</script>. Cats mew.")
    page.click("#asking button[type=submit]")
    page.locator("#text", has_text="<script>").wait_for()
    assert "Questions" in page.title()


def test_a_chart_is_downloaded_in_every_kind(page, address):
    page.goto(f"{address}/layers?analysis=probe")
    page.wait_for_selector('[data-chart="curves"] .chart svg')
    for kind, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG"), ("PDF", b"%PDF"), ("scores.csv", b"model,task")):
        with page.expect_download() as download:
            page.locator('[data-chart="curves"]').get_by_role("link", name=kind, exact=True).click()
        assert Path(download.value.path()).read_bytes().startswith(start)
    page.select_option("#task", "pos")
    page.wait_for_function("location.search.includes('task=pos')")
    settled(page)
    assert "dep" not in page.locator('[data-chart="curves"] .chart').inner_text()


def test_results_tell_where_they_came_from(page, address):
    page.goto(f"{address}/results")
    page.get_by_role("link", name=lamina.probe.title).click()
    page.wait_for_selector("#one .command")
    (probed,) = (each for each in httpx.get(f"{address}/api/results").json() if each["analysis"] == "probe")
    assert page.locator("#one .command code").inner_text() == probed["command"]
    page.locator("#one details.provenance summary").click()
    assert "fingerprint" in page.locator("#one details.provenance").inner_text()
    assert [each["text"] for each in probed["findings"]]
    assert page.locator("#one .findings li").count() == len(probed["findings"])


def test_a_chart_stands_below_what_was_found(page, address):
    page.goto(f"{address}/layers?analysis=heads")
    page.wait_for_selector('[data-analysis="heads"] .chart svg')
    (scored,) = (each for each in httpx.get(f"{address}/api/results").json() if each["analysis"] == "heads")
    told = page.locator('[data-analysis="heads"] .findings li').all_inner_texts()
    assert told == [f"{each['status']} {each['text']}" for each in scored["findings"]]


def test_the_form_has_the_settings_that_the_analysis_declares(page, address):
    page.goto(f"{address}/results")
    page.select_option("#analysis", "geometry")
    page.locator(".settings summary").click()
    page.fill("#setting-samples", "0")
    page.get_by_role("button", name="Compute").click()
    page.get_by_role("alert").get_by_text("samples: fill in what fits").wait_for()
    declared = {each.replace("_", " ") for each in lamina.geometry.settings}
    assert declared <= set(page.locator(".field label").all_inner_texts())
    page.fill("#setting-samples", "10")
    page.select_option("#setting-twin", "false")
    page.fill("#data-limit", "20")
    page.get_by_role("button", name="Compute").click()
    page.locator("#jobs code", has_text="lamina geometry minilm --limit 20 --samples 10 --no-twin --out").wait_for()
    page.wait_for_selector('#jobs li[data-state="done"]', timeout=180_000)
    page.locator("#list", has_text=lamina.geometry.title).wait_for()
    page.select_option("#analysis", "finetune")
    assert page.locator("#input-data").input_value() == "stories"
    page.select_option("#analysis", "diff")
    assert page.locator("#input-other option").count() == 2


def test_what_the_server_refuses_is_said_beside_the_button(browser, address):
    page = browser.new_page()
    page.goto(f"{address}/results")
    page.select_option("#analysis", "probe")
    page.locator(".settings summary").click()
    page.fill("#setting-probes", "crystal ball")
    page.get_by_role("button", name="Compute").click()
    page.get_by_role("alert").get_by_text("probes takes a list").wait_for()
    page.close()


def test_the_card_of_a_model_shows_its_checks_and_the_form_what_it_refuses(page, address):
    card = httpx.get(f"{address}/api/models/minilm", timeout=60).json()
    page.goto(f"{address}/results")
    page.locator("#model-card summary").click()
    page.locator("#model-card summary", has_text=re.compile(r"minilm: all \d+ checks hold")).wait_for()
    told = page.locator("#model-card tbody tr td:first-child").all_inner_texts()
    assert told == [check["name"] for check in card["checks"]]
    why = "maps look ahead"
    wrong = card | {
        "checks": [{"name": "look-ahead", "verdict": "fails", "said": why}],
        "verdict": [f"look-ahead: {why}"],
        "refused": {"heads": why},
    }
    page.route("**/api/models/minilm", lambda route: route.fulfill(json=wrong))
    page.goto(f"{address}/results")
    page.select_option("#analysis", "heads")
    page.get_by_role("alert").get_by_text(f"Not possible with minilm: {why}").wait_for()
    assert page.get_by_role("button", name="Compute").is_disabled()
    page.select_option("#analysis", "geometry")
    page.wait_for_function("!document.querySelector('#start button.job').disabled")


def test_a_computation_runs_in_the_background_and_is_cancelled(page, address):
    page.goto(f"{address}/results")
    page.select_option("#analysis", "probe")
    page.get_by_role("button", name="Compute").click()
    page.wait_for_selector('#jobs li[data-state="running"]')
    page.goto(f"{address}/heads")
    page.locator("#jobs").get_by_role("button", name="Cancel").click()
    page.wait_for_selector('#jobs li[data-state="cancelled"]')


@pytest.mark.parametrize("path", VIEWS)
def test_no_view_scrolls_sideways_on_a_phone(page, address, path):
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{address}{path}")
    page.wait_for_selector("#main")
    page.wait_for_load_state("networkidle")
    # A loaded page follows a change of scheme.
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, scheme
