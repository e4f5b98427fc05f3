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
from lamina.cli.results import saved_words
from lamina.corpora.splits import Splits
from lamina.framework.verify import check_findings, check_words
from lamina.report.page import write_report
from lamina.results import Result

VIEWS = ["/", "/sentence", "/sentence/question", "/heads", "/compare", "/runs"]
COUNT = """
addEventListener("click", (event) => {
  if (event.isTrusted && event.detail > 0) sessionStorage.clicks = Number(sessionStorage.clicks ?? 0) + 1;
}, true);
"""
"""Counts what a person clicks, from page to page."""
MARKS = ("from", "wrongly", "to")
"""Of a word that a head is asked about, of the one it chooses, and of the right one."""

pytestmark = [pytest.mark.browser, pytest.mark.real]


@pytest.fixture(scope="module")
def results(chromium, real_encoder, tmp_path_factory) -> Path:
    """Small runs of the real model: what they say does not matter here, what the pages make of it does."""
    root = tmp_path_factory.mktemp("app") / "results"
    dev = load_corpus("ewt", "dev", first=20)
    splits = Splits(load_corpus("ewt", "train", first=100), dev)
    short = {"schedule": "steps=10,hidden=16", "seeds": 1, "samples": 20, "twin": False, "store": root / ".store"}
    lamina.probe(real_encoder, splits, tasks=["pos", "dep"], **short, out=root / "probe")
    lamina.heads(real_encoder, dev, samples=20, out=root / "heads")
    lamina.headmap(real_encoder, dev, samples=20, out=root / "headmap")
    steps = {"task": "babi", "max_steps": 2, "limit": 20, "babi_tasks": [1], "batch": 4}
    lamina.finetune("minilm", "stories", **steps, out=root / "stories")
    write_report([Result.load(root / "heads")], root, title="What was found")
    return root


def test_findings_of_a_real_model_are_borne_out_by_their_tables(results):
    folders = [folder for folder in results.iterdir() if (folder / "result.json").is_file()]
    assert len(folders) == 4
    for folder in folders:
        result = Result.load(folder)
        assert check_findings(result) == []
        assert check_words(result, saved_words(folder, result)) == []


@pytest.fixture(scope="module")
def address(results) -> Iterator[str]:
    command = [sys.executable, "-m", "lamina", "serve", str(results), "--port", "0", "--no-estimates"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        address = re.match(r"http://[^/]+", process.stdout.readline())[0]
        # Fine-tuned models of the results folder are loaded once somebody has confirmed them.
        for model in httpx.get(f"{address}/api/about", timeout=60).json()["models"]:
            if model["unconfirmed"]:
                httpx.post(
                    f"{address}/api/strange-models", json={"model": model["name"]}, timeout=60
                ).raise_for_status()
        yield address
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
    """Nothing is said to be under way, and no box of the view waits."""
    page.wait_for_function("document.getElementById('status').textContent === ''")
    page.wait_for_function("!document.querySelector('main [aria-busy=true]:not(.estimate)')")


def word(page, at: int):
    return page.locator(f'#strip [data-word="{at}"]')


def chosen(page) -> str:
    """The chosen words in the strip."""
    return " ".join(page.locator('#strip [aria-selected="true"] .name').all_inner_texts())


def test_home_is_the_models_card(page, address):
    page.goto(f"{address}/")
    # A paragraph in plain words; the tests behind it are folded.
    page.locator("#findings .summary").wait_for()
    assert "p <" not in page.locator("#findings .summary").inner_text()
    page.wait_for_selector("#glance .chart svg")
    assert page.locator("#chapters details").count() == 5
    page.locator("#unmeasured td", has_text=lamina.geometry.title).wait_for()
    assert page.locator("#examples a").count() >= 3
    page.locator('#chapters [data-chapter="heads"] > summary').click()
    # Charts are drawn when they are near the window: the chapter is the page's last but one.
    page.locator('#chapters [data-analysis="heads"] figure').first.scroll_into_view_if_needed()
    page.wait_for_selector('#chapters [data-analysis="heads"] .chart svg')
    # The layer is one in both figures and in the address.
    page.fill("#layer", "2")
    page.wait_for_function("location.search.includes('layer=2')")


def test_a_layer_pointed_at_lights_up_in_both_figures(page, address):
    page.goto(f"{address}/")
    cells = page.locator("#glance svg .mark-rect path")
    cells.first.wait_for()
    cells.nth(1).hover(force=True)
    page.wait_for_function("document.getElementById('layer-said').textContent !== '6 of 6'")
    lit = page.evaluate("""() => [...document.querySelectorAll('#glance svg .mark-rect')].map(
        (group) => new Set([...group.querySelectorAll('path')].map(
            (each) => `${each.getAttribute('opacity')} ${each.getAttribute('fill-opacity')}`)).size)""")
    assert lit.count(2) >= 2, lit


def test_a_sentence_shows_beliefs_and_a_word_unasked(page, address):
    page.goto(f"{address}/sentence")
    page.wait_for_selector("#words .bench-grid td.lit")
    assert page.locator("button.word[aria-pressed=true]").count() == 1
    assert len(chosen(page).split()) == 1
    page.locator("#turns b").first.wait_for()
    page.wait_for_selector("#near table.brief")
    word(page, 3).click()
    page.wait_for_function("location.search.includes('word=3')")
    page.fill("#layer", "2")
    assert "2 of 6" in page.locator("#layer-said").inner_text()
    # What each word is at this layer stands in the strip.
    assert page.locator("#strip .noted").count() == page.locator("#strip [role=option]").count()


def test_a_word_that_is_pointed_at_lights_up_without_a_click_or_a_question(page, address):
    page.goto(f"{address}/sentence?sentence=The keys to the cabinet are here .&word=1")
    page.wait_for_selector("#near table.brief")
    settled(page)
    assert page.locator("#words .decided td").count() == page.locator("#strip [role=option]").count()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    arcs = page.locator("#words .arcs").inner_html()
    page.locator("#words .bench-grid thead .word", has_text="are").hover()
    page.locator("#token-title q", has_text="are").wait_for()
    assert page.locator("#turns q").inner_text() == "are"
    assert page.locator("#words .arcs").inner_html() != arcs
    assert page.locator("#path svg").get_attribute("aria-label").startswith("The path of are")
    assert "word=1" in page.url
    assert asked == []
    # The pointer leaves, and the chosen word is back.
    page.locator("h1").hover()
    page.locator("#token-title q", has_text="keys").wait_for()


def test_a_head_is_switched_off_in_its_place(page, address):
    page.goto(f"{address}/sentence?sentence=The keys to the cabinet are here .&word=5")
    page.locator("#attended .strongest button").first.wait_for()
    assert re.search(r"\d+ % of its attention goes to special tokens", page.locator("#attended .sinks").inner_text())
    head = page.locator("#attended .strongest button").first.inner_text()
    page.locator("#attended .strongest button").first.click()
    page.locator("#head-title", has_text=f"Head {head}").wait_for()
    switch = page.get_by_role("switch", name=f"Head {head} in this sentence")
    switch.click()
    page.locator("#words .beside th", has_text=f"without {head}").wait_for()
    said = page.locator("#head .switched").inner_text()
    assert re.search(rf"Without {head} the final label of \d of 8 words changes", said)
    changed = int(re.search(r"label of (\d)", said)[1])
    assert page.locator("#words .beside .flip").count() == changed
    switch.click()
    page.locator("#words .beside").wait_for(state="detached")


def test_a_sentence_is_typed_and_a_script_in_it_is_text(page, address):
    page.goto(f"{address}/sentence")
    page.wait_for_selector("#words .bench-grid td.lit")
    page.fill("#sentence", "Dogs <script>document.title='gone'</script> bark")
    page.click("#ask button[type=submit]")
    page.locator("button.word", has_text="script").first.wait_for()
    page.locator("#strip", has_text="script").wait_for()
    assert "Sentence" in page.title()
    assert "sentence=Dogs" in page.url


def test_a_span_is_marked_and_asked_about(page, address):
    page.goto(f"{address}/sentence?sentence=Dogs chase cats .")
    page.wait_for_selector("#words .bench-grid td.lit")
    page.select_option("#task", "dep")
    word(page, 2).click()
    page.locator('input[name="slot"][value="word2"]').check()
    word(page, 1).click()
    assert page.locator("[data-slot]").all_inner_texts() == ["cats", "chase"]
    page.click("#mark button[type=submit]")
    page.wait_for_selector('[data-mark="dep:2:1"]')
    page.go_back()
    page.wait_for_selector('[data-mark="dep:2:1"]', state="detached")


def test_an_address_of_an_earlier_version_leads_to_the_same_view(page, address):
    page.goto(f"{address}/?sentence=Dogs chase cats .&word=1&layer=2")
    page.wait_for_url("**/sentence?*")
    page.locator("#token-title", has_text="chase").wait_for()
    assert "2 of 6" in page.locator("#layer-said").inner_text()


def test_the_report_is_shown_and_its_scripts_reach_nothing(browser, address, results):
    page = browser.new_page()
    page.goto(f"{address}/report")
    page.wait_for_selector(".chart svg")
    tried = "fetch('/api/about').then(() => 'reached', () => 'kept out')"
    assert page.evaluate(tried) == "kept out"
    page.get_by_role("navigation", name="The app").get_by_role("link", name="Overview").click()
    page.wait_for_selector("#findings .summary")
    page.close()


def test_the_slider_moves_the_tokens_of_both_models(page, address):
    page.goto(f"{address}/sentence/question")
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
    page.goto(f"{address}/sentence/question")
    page.wait_for_selector("#maps .token")
    page.fill("#question", "Who barks?")
    page.fill("#context", "Dogs bark <script>document.title='gone'</script>. Cats mew.")
    page.click("#asking button[type=submit]")
    page.locator("#text", has_text="<script>").wait_for()
    assert "A question" in page.title()
    page.go_back()
    page.locator("#text", has_text="<script>").wait_for(state="detached")


def result_of(address: str, analysis: str) -> dict:
    (found,) = (each for each in httpx.get(f"{address}/api/results").json() if each["analysis"] == analysis)
    return found


def test_a_chart_is_downloaded_in_every_kind(page, address):
    page.goto(f"{address}/runs?result={result_of(address, 'probe')['id']}")
    page.wait_for_selector('[data-chart="curves"] .chart svg')
    for kind, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG"), ("PDF", b"%PDF"), ("scores.csv", b"model,task")):
        with page.expect_download() as download:
            page.locator('[data-chart="curves"]').get_by_role("link", name=kind, exact=True).click()
        assert Path(download.value.path()).read_bytes().startswith(start)
    page.select_option("#task", "pos")
    page.wait_for_function("location.search.includes('task=pos')")
    page.wait_for_selector('[data-chart="curves"] .chart svg')
    assert "dep" not in page.locator('[data-chart="curves"] .chart').inner_text()
    page.go_back()
    page.wait_for_function("document.getElementById('task')?.value === ''")


CONTRAST = """(panel) => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const linear = (each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((each) => linear(each / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(panel).backgroundColor);
  const kinds = ["axis-label", "axis-title", "title-text", "legend-label"].map((kind) => `svg .role-${kind} text`);
  const outside = [...panel.querySelectorAll(kinds.join())];
  return outside.map((text) => light(getComputedStyle(text).fill)).map((each) =>
    (Math.max(each, paper) + 0.05) / (Math.min(each, paper) + 0.05));
}"""
"""How each word around the panels of a chart stands out from its paper."""


def test_charts_are_dark_on_a_dark_page_and_as_wide_as_their_place(page, address):
    page.emulate_media(color_scheme="dark")
    page.goto(f"{address}/runs?result={result_of(address, 'probe')['id']}")
    chart = page.locator('[data-chart="curves"] .chart')
    for width, scheme in ((1200, "dark"), (1200, "light"), (360, "light")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.wait_for_selector(f'[data-chart="curves"] .chart[data-paper="{scheme}"] svg')
        page.wait_for_function(
            """() => { const panel = document.querySelector('[data-chart="curves"] .chart');
              return panel.scrollWidth <= panel.clientWidth + 1; }"""
        )
        papers = page.evaluate("""() => ['body', '[data-chart="curves"] .chart'].map(
            (each) => getComputedStyle(document.querySelector(each)).backgroundColor)""")
        assert papers[0] == papers[1]
        contrasts = chart.evaluate(CONTRAST)
        assert len(contrasts) > 10
        assert min(contrasts) >= 4.5, scheme
        if width == 1200:
            drawn = float(chart.locator("svg").first.get_attribute("width"))
            assert drawn >= 0.7 * chart.bounding_box()["width"]


def test_an_order_of_colours_stays_one_on_dark_paper(page, address):
    page.goto(f"{address}/runs")
    page.emulate_media(color_scheme="dark")
    turned = "import('/static/drawing.js').then((each) => ['#a6cee8', '#5380a1', '#00305a'].map(each.turned))"
    lightness = [int(re.search(r"(\d+)%\)", each)[1]) for each in page.evaluate(turned)]
    assert lightness == sorted(lightness)
    assert lightness[0] >= 40


def test_runs_tell_where_they_came_from(page, address):
    page.goto(f"{address}/runs")
    page.get_by_role("link", name=lamina.probe.title).click()
    page.wait_for_selector("#one .command")
    probed = result_of(address, "probe")
    assert page.locator("#one .command code").inner_text() == probed["command"]
    page.locator("#one details.provenance summary").click()
    assert "fingerprint" in page.locator("#one details.provenance").inner_text()
    assert [each["text"] for each in probed["findings"]]
    assert page.locator("#one .findings li").count() == len(probed["findings"])
    page.go_back()
    page.wait_for_selector("#one .command", state="detached")


def test_a_chart_stands_below_what_was_found(page, address):
    page.goto(f"{address}/overview?analysis=heads")
    page.wait_for_selector('[data-analysis="heads"] .chart svg')
    scored = result_of(address, "heads")
    told = page.locator('[data-analysis="heads"] .findings li').all_inner_texts()
    assert [each.strip() for each in told] == [f"{each['status']} {each['text']}" for each in scored["findings"]]


def test_the_form_has_the_settings_that_the_analysis_declares(page, address):
    page.goto(f"{address}/runs")
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
    page.locator(".job-status", has_text="lamina geometry").wait_for()
    page.wait_for_selector('#jobs li[data-state="done"]', timeout=180_000)
    page.locator("#jobs code", has_text="lamina geometry minilm --limit 20 --samples 10 --no-twin --out").wait_for()
    page.locator(".job-status", has_text="Found: ").wait_for()
    page.locator("#list", has_text=lamina.geometry.title).wait_for()
    # The tray can be closed, and what is over can be dismissed.
    page.keyboard.press("Escape")
    assert page.locator("#jobs").is_hidden()
    assert page.locator("#tray").inner_text() == "Jobs: 1 done"
    page.click("#tray")
    page.locator("#jobs").get_by_role("button", name="Dismiss").click()
    page.wait_for_selector("#tray", state="hidden")
    page.select_option("#analysis", "finetune")
    assert page.locator("#input-data").input_value() == "stories"
    page.select_option("#analysis", "diff")
    assert page.locator("#input-other option").count() == 2


def test_what_the_server_refuses_is_said_beside_the_button(browser, address):
    page = browser.new_page()
    page.goto(f"{address}/runs")
    page.select_option("#analysis", "probe")
    page.locator(".settings summary").click()
    page.fill("#setting-probes", "crystal ball")
    page.get_by_role("button", name="Compute").click()
    page.get_by_role("alert").get_by_text("probes takes a list").wait_for()
    page.close()


def test_the_card_of_a_model_shows_its_checks_and_the_form_what_it_refuses(page, address):
    card = httpx.get(f"{address}/api/models/minilm", timeout=60).json()
    page.goto(f"{address}/runs")
    page.locator("#model-card summary").click()
    page.locator("#model-card summary", has_text=re.compile(r"minilm: all \d+ checks hold")).wait_for()
    told = page.locator("#model-card tbody tr td:first-child").all_inner_texts()
    assert told == [check["name"] for check in card["checks"]]
    why = "maps look ahead"
    wrong = card | {
        "checks": [{"name": "look-ahead", "verdict": "fails", "message": why}],
        "verdict": [f"look-ahead: {why}"],
        "refused": {"heads": why},
    }
    page.route("**/api/models/minilm", lambda route: route.fulfill(json=wrong))
    page.goto(f"{address}/runs")
    page.select_option("#analysis", "heads")
    page.get_by_role("alert").get_by_text(f"Not possible with minilm: {why}").wait_for()
    assert page.get_by_role("button", name="Compute").is_disabled()
    page.select_option("#analysis", "geometry")
    page.wait_for_function("!document.querySelector('#start button.job').disabled")


def test_a_computation_runs_in_the_background_and_is_cancelled(page, address):
    page.goto(f"{address}/runs")
    page.select_option("#analysis", "probe")
    page.get_by_role("button", name="Compute").click()
    page.click("#tray")
    page.wait_for_selector('#jobs li[data-state="running"]')
    # Nobody tried it, and nobody says how long it will take.
    page.locator("#jobs", has_text="so far; without an estimate").wait_for()
    page.goto(f"{address}/sentence")
    page.click("#tray")
    page.locator("#jobs").get_by_role("button", name="Cancel").click()
    page.wait_for_selector('#jobs li[data-state="cancelled"]')
    page.locator("#jobs").get_by_role("button", name="Dismiss").click()
    page.wait_for_selector("#tray", state="hidden")


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


class TestAFreshPersonsTasks:
    """What somebody new wants to do, from the first page, in the fewest clicks; typing is not counted, Enter is one."""

    @pytest.fixture
    def first(self, page, address):
        page.add_init_script(COUNT)
        page.goto(f"{address}/")
        page.wait_for_selector("#glance .chart svg")
        page.evaluate("sessionStorage.clicks = 0")
        return page

    def clicks(self, page) -> int:
        return int(page.evaluate("sessionStorage.clicks"))

    def test_where_does_to_become_a_preposition(self, first):
        first.fill("#typed", "She went to the store .")
        first.get_by_role("button", name="Look", exact=True).click()
        first.wait_for_selector("#words .bench-grid td.lit")
        word(first, 2).click()
        first.locator("#turns q", has_text="to").wait_for()
        assert re.search(r"at (layer \d|every layer)", first.locator("#turns").inner_text())
        assert self.clicks(first) == 2

    def test_which_head_finds_objects_and_where_does_it_fail(self, first):
        first.get_by_role("navigation", name="Views").get_by_role("link", name="Sentence").click()
        first.locator("#heads").scroll_into_view_if_needed()
        first.wait_for_selector("#lines canvas")
        settled(first)
        objects = first.locator("#measure option", has_text=re.compile(r"\bd?obj\b")).first
        first.select_option("#measure", objects.get_attribute("value"))
        first.locator("#readout", has_text=re.compile(r"\d+-\d+")).wait_for()
        layer, head = re.search(r"(\d+)-(\d+)", first.locator("#readout").inner_text()).groups()
        size = first.evaluate("JSON.parse(document.querySelector('#atlas .atlas-grid').dataset.cell)")
        place = {
            axis: size[start] + (int(at) - 0.5) * size[step]
            for axis, start, step, at in (("x", "left", "wide", head), ("y", "top", "tall", layer))
        }
        first.locator("#atlas canvas").first.click(position=place)
        first.locator("#card-title", has_text=f"{layer}-{head}").wait_for()
        # How often it is right is on its card; below, sentences of the corpus in which it is wrong.
        first.locator("#card", has_text="accuracy").wait_for()
        first.locator("#examples", has_text="Where it fails").wait_for()
        right, asked = re.search(r"it finds (\d+) of (\d+) d?obj", first.locator("#examples").inner_text()).groups()
        assert 0 < int(right) < int(asked)
        miss = first.locator(".misses li").first
        word_asked, chosen_word, right_word = (miss.locator(f"mark.{kind}").inner_text() for kind in MARKS)
        assert chosen_word in miss.locator(".soft").inner_text().partition("right:")[0]
        assert right_word in miss.locator(".soft").inner_text().partition("right:")[2]
        # Its lines are in the pane, those of the word that is asked about.
        miss.get_by_role("button", name="Draw the lines of miss 1").click()
        first.locator("#on", has_text="On miss 1").wait_for()
        first.locator("#lines button[aria-pressed=true]", has_text=word_asked).wait_for()
        # Beside these, one choice in the list of measures.
        assert self.clicks(first) == 3

    def test_two_models_are_compared(self, first):
        first.get_by_role("navigation", name="Views").get_by_role("link", name="Compare").click()
        first.wait_for_selector("main h2")
        settled(first)
        assert self.clicks(first) == 1

    def test_the_report_is_printed(self, first):
        first.get_by_role("link", name="The report").click()
        first.wait_for_url("**/report")
        first.wait_for_selector(".chart svg")
        assert first.pdf().startswith(b"%PDF")
        # In the sandbox of the report nothing can be counted; this was the only click.

    def test_a_link_is_shared(self, first, browser):
        first.locator("#examples a").nth(1).click()
        first.wait_for_selector("#words .bench-grid td.lit")
        word(first, 2).click()
        first.fill("#layer", "3")
        assert self.clicks(first) == 2
        other = browser.new_page()
        other.goto(first.url)
        other.locator("#token-title", has_text="to").wait_for()
        assert "3 of 6" in other.locator("#layer-said").inner_text()
        assert chosen(other) == chosen(first)
        other.close()


def shortened(request: dict | None) -> dict | None:
    """A request for a job with less to compute; those that only read have none."""
    return request and request | {"settings": request["settings"] | {"poolings": ["mean"], "samples": 20}}


def test_a_table_is_given_and_the_page_says_which_layer(page, address, tmp_path):
    lines = [f'"The day was {word} and had {n} hours of rain.",{word}' for n in range(12) for word in ("good", "bad")]
    table = tmp_path / "days.csv"
    table.write_text("review,mood\n" + "\n".join(lines) + "\n", encoding="utf-8")
    page.goto(f"{address}/runs")
    page.get_by_role("link", name="Which layer to use for the labels of a table").click()
    page.wait_for_url("**/runs/table*")
    page.set_input_files("#file", str(table))
    page.get_by_role("heading", name="24 rows").wait_for()
    assert (page.input_value("#text"), page.input_value("#label")) == ("review", "mood")
    # One pooling and few samples: what the page asks for by itself takes ten times as long.
    page.route("**/api/jobs", lambda route: route.continue_(post_data=shortened(route.request.post_data_json)))
    page.get_by_role("button", name="Which layer?").click()
    page.locator(".job-status", has_text="Found: ").wait_for(timeout=180_000)
    assert "layer" in page.locator(".job-status").inner_text()
