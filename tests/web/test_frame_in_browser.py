"""What all tabs share, with a tiny model: the selection in the address, the strip, waiting, and what goes wrong."""

from __future__ import annotations

import httpx
import pytest

from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder
from lamina.web.state import TrainingStep

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(served, tmp_path_factory) -> str:
    results = tmp_path_factory.mktemp("served") / "results"
    tuned = results / "tuned"
    (config := tmp_path_factory.mktemp("model") / "config.json").write_text("{}")
    about = Provenance({"name": "tiny", "fingerprint": "t"}, {"name": "c", "fingerprint": "s"}, {})
    Result("finetune", {}, about, {"config.json": config}).save(tuned, charts=False)
    named = {"tiny": TinyEncoder(), "other": TinyEncoder(seed=1)}
    return served(named, [results], stray={str(tuned): TinyEncoder(seed=2)})


@pytest.fixture(scope="module")
def grown(served, tmp_path_factory) -> str:
    """A server with a series of three checkpoints, and a model of none."""
    names = ("grown@step1", "grown@step10", "grown")
    models = {name: TinyEncoder(seed=seed) for seed, name in enumerate(names)}
    steps = dict(zip(names, (TrainingStep("grown", step) for step in (1, 10, None)), strict=True))
    results = tmp_path_factory.mktemp("grown") / "results"
    return served({**models, "tiny": TinyEncoder(seed=9)}, [results], steps=steps)


@pytest.fixture(scope="module")
def browser(chromium, tmp_path_factory):
    options = {"viewport": {"width": 1200, "height": 900}, "has_touch": True}
    with chromium(tmp_path_factory.mktemp("profile"), **options) as context:
        context.set_default_timeout(60_000)
        # The neighbours of a word need a corpus, which has nothing to do with the frame.
        context.route("**/api/lens/neighbours", lambda route: route.fulfill(json=NO_NEIGHBOURS))
        yield context


NO_NEIGHBOURS = {"corpus": "none", "sentences": 0, "words": 0, "neighbours": []}


@pytest.fixture
def page(browser):
    page, wrong = browser.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    page.close()
    assert wrong == []


def word(page, at: int):
    return page.locator(f'#strip [data-word="{at}"]')


def chosen(page) -> str:
    """The chosen words in the strip."""
    return " ".join(page.locator('#strip [aria-selected="true"] .name').all_inner_texts())


def looks_at(page, name: str) -> None:
    """The panels of the word are there."""
    page.locator("#token-title q", has_text=name).wait_for()
    page.locator("#path svg").wait_for()


class Slowly:
    """Answers to one address come when they are let go; the test can look at the page meanwhile."""

    def __init__(self, page, address: str) -> None:
        self.held = []
        page.route(address, lambda route: self.held.append(route))

    def let_go(self, page, at: int) -> None:
        while len(self.held) <= at:
            page.wait_for_timeout(20)
        self.held[at].continue_()


class TestTheStrip:
    """Words and spans are chosen there; what is chosen is in the address."""

    @pytest.fixture
    def strip(self, page, address):
        page.goto(f"{address}/sentence?sentence=Dogs chase old cats .&word=0")
        word(page, 4).wait_for()
        return page

    def test_by_keyboard(self, strip):
        word(strip, 0).focus()
        strip.keyboard.press("ArrowRight")
        assert chosen(strip) == "Dogs"
        strip.keyboard.press("Enter")
        assert chosen(strip) == "chase"
        strip.keyboard.press("Shift+ArrowRight")
        strip.keyboard.press("Shift+ArrowRight")
        assert chosen(strip) == "chase old cats"
        assert "word=1-3" in strip.url
        strip.keyboard.press("Shift+ArrowLeft")
        assert chosen(strip) == "chase old"

    def test_by_mouse(self, strip):
        start, end = (word(strip, at).bounding_box() for at in (3, 2))
        strip.mouse.move(start["x"] + 4, start["y"] + 6)
        strip.mouse.down()
        strip.mouse.move(end["x"] + 4, end["y"] + 6, steps=3)
        strip.mouse.up()
        assert chosen(strip) == "old cats"
        word(strip, 4).click(modifiers=["Shift"])
        assert chosen(strip) == "old cats ."

    def test_by_touch(self, strip):
        word(strip, 1).tap()
        assert chosen(strip) == "chase"
        strip.locator("#extend").tap()
        word(strip, 3).tap()
        assert chosen(strip) == "chase old cats"

    def test_it_stays_in_sight_with_the_scrubber(self, strip):
        looks_at(strip, "Dogs")
        strip.set_viewport_size({"width": 1200, "height": 400})
        strip.mouse.wheel(0, 600)
        strip.wait_for_function("scrollY > 100")
        for part in ("#strip", "#layer"):
            assert 0 <= strip.locator(part).bounding_box()["y"] < 200


class TestTheSelection:
    """One for all tabs, with a history."""

    def test_back_and_forward_go_through_what_was_chosen(self, page, address):
        page.goto(f"{address}/sentence?sentence=Dogs chase cats .&word=0")
        looks_at(page, "Dogs")
        word(page, 2).click()
        looks_at(page, "cats")
        page.fill("#layer", "1")
        page.fill("#layer", "0")
        page.fill("#sentence", "Birds sing .")
        page.keyboard.press("Enter")
        page.locator("#strip", has_text="sing").wait_for()
        assert "word=2" not in page.url
        page.get_by_role("navigation", name="Views").get_by_role("link", name="Runs").click()
        page.wait_for_url("**/runs?*sentence=Birds*layer=0*")
        page.go_back()
        page.locator("#strip", has_text="sing").wait_for()
        page.go_back()
        looks_at(page, "cats")
        assert page.input_value("#sentence") == "Dogs chase cats ."
        # Scrubbing left no place of its own in the history.
        page.go_back()
        looks_at(page, "Dogs")
        page.go_forward()
        looks_at(page, "cats")

    def test_another_model_is_a_step_too(self, page, address):
        page.goto(f"{address}/sentence?sentence=Dogs bark .&word=1")
        looks_at(page, "bark")
        page.select_option("#model", "other")
        page.wait_for_url("**model=other**")
        looks_at(page, "bark")
        page.go_back()
        page.wait_for_function("document.getElementById('model').value === 'tiny'")

    def test_an_address_of_an_earlier_version_leads_to_the_same_view(self, page, address):
        page.goto(f"{address}/?sentence=Dogs chase cats .&word=1&layer=1")
        page.wait_for_url("**/sentence?*")
        looks_at(page, "chase")
        assert page.locator("#layer-said").inner_text() == "1 of 2"

    def test_layers_are_played(self, page, address):
        page.goto(f"{address}/sentence?sentence=Dogs bark .")
        page.locator("#play:enabled").click()
        page.wait_for_function("document.getElementById('layer-said').textContent.startsWith('0 of 2')")
        page.click("#play")
        assert page.locator("#play").inner_text() == "Play"

    def test_a_link_to_the_heads_puts_them_in_sight(self, page, address):
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(f"{address}/sentence?sentence=Dogs chase cats .&word={width % 3}#heads")
            # Below the strip, which stays in sight.
            page.wait_for_function("""() => {
                const top = document.getElementById("heads").getBoundingClientRect().top;
                return top > document.getElementById("selection").getBoundingClientRect().bottom - 10 && top < 300;
            }""")


class TestSteps:
    """A series of checkpoints: a slider over its steps beside the one over layers."""

    def test_the_same_word_at_the_same_layer_of_another_checkpoint(self, page, grown):
        page.goto(f"{grown}/sentence?model=grown@step1&sentence=Dogs bark .&word=1&layer=1")
        looks_at(page, "bark")
        said = page.locator("#step-said")
        assert said.inner_text() == "1 (1 of 3)"
        with page.expect_request("**/api/lens/reading") as asked:
            page.locator("#step").fill("1")
        assert asked.value.post_data_json["model"] == "grown@step10"
        page.wait_for_function("new URLSearchParams(location.search).get('model') === 'grown@step10'")
        looks_at(page, "bark")
        assert said.inner_text() == "10 (2 of 3)"
        assert "word=1" in page.url
        assert page.locator("#layer-said").inner_text() == "1 of 2"
        page.select_option("#model", "grown")
        page.wait_for_function("document.getElementById('step-said').textContent === 'the end (3 of 3)'")

    def test_a_model_of_no_series_has_no_steps(self, page, grown):
        page.goto(f"{grown}/sentence?model=tiny&sentence=Dogs bark .")
        page.locator("#layer:enabled").wait_for()
        assert page.locator("#step").is_disabled()
        assert page.locator("#step-said").inner_text() == "no checkpoint"

    def test_training_is_played_to_its_end(self, page, grown):
        page.goto(f"{grown}/sentence?model=grown@step10&sentence=Dogs bark .&word=0")
        looks_at(page, "Dogs")
        page.click("#grow")
        page.wait_for_function("document.getElementById('step-said').textContent.startsWith('the end')")
        page.wait_for_function("document.getElementById('grow').textContent === 'Play'")

    def test_a_server_without_a_series_has_no_such_slider(self, page, address):
        page.goto(f"{address}/sentence?sentence=Dogs bark .")
        page.locator("#layer:enabled").wait_for()
        assert not page.locator("#step").count()

    def test_nothing_is_pushed_away_while_it_arrives(self, page, grown):
        page.add_init_script(SHIFTS)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(f"{grown}/sentence?model=grown&sentence=Dogs chase cats .", wait_until="networkidle")
            page.wait_for_function("!document.querySelector('[data-later]')")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("window.shifted") < MOST_SHIFTED, width


SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) if (!each.hadRecentInput) window.shifted += each.value;
}).observe({ type: "layout-shift", buffered: true });
"""
"""Sums how far what is on the screen is pushed away while a page arrives."""
VIEWS = (
    "/overview",
    "/sentence",
    "/sentence/question",
    "/heads",
    "/compare",
    "/runs",
    "/head/1-1",
    "/layer/1",
    "/task/pos",
)
WIDTHS = (360, 390, 768, 1280, 1600)
MOST_SHIFTED = 0.1


@pytest.mark.parametrize("path", VIEWS)
def test_nothing_is_pushed_away_while_a_view_arrives(page, address, path):
    page.add_init_script(SHIFTS)
    view = VIEWS.index(path)
    # Styles change at 640 and 992 pixels: a phone, a tablet and a screen for each view.
    for turn, width in enumerate((WIDTHS[view % 2], 768, WIDTHS[3 + view // 2 % 2])):
        page.emulate_media(color_scheme=("light", "dark")[(turn + view // 2) % 2])
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{address}{path}?sentence=Dogs chase cats .", wait_until="networkidle")
        # The whole page is there in the end, its last line included.
        page.wait_for_function("!document.querySelector('[data-later]')")
        assert page.locator("footer").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("window.shifted") < MOST_SHIFTED, (path, width)


class TestSearch:
    """One box for heads, layers, tasks and words."""

    def test_enter_leads_to_the_first_hit(self, page, address):
        page.goto(f"{address}/runs")
        page.locator("#find").fill("layer 1")
        page.locator("#hits", has_text="Layer 1").wait_for()
        assert page.get_attribute("#find", "aria-activedescendant") == "hit-0"
        page.locator("#find").press("Enter")
        page.wait_for_url("**/layer/1?*model=tiny*")
        page.locator("h1", has_text="Layer 1").wait_for()

    def test_a_head_is_there_in_every_model(self, page, address):
        page.goto(f"{address}/runs?model=other")
        page.locator("#find").fill("2-1")
        hits = page.locator("#hits [role=option]")
        hits.first.wait_for()
        assert hits.first.inner_text().split() == ["head", "Head", "2-1", "of", "other"]
        page.keyboard.press("Escape")
        assert page.locator("#hits").is_hidden()

    def test_a_word_leads_to_a_sentence(self, page, address):
        page.goto(f"{address}/runs")
        page.locator("#find").fill("Birds sing now")
        page.locator("#hits a", has_text="Look at").click()
        page.locator("#strip", has_text="sing").wait_for()


class TestComparing:
    """Which models are compared."""

    def test_the_last_model_can_be_unticked(self, page, address):
        page.goto(f"{address}/compare?sentence=Dogs bark .")
        tick = page.locator("#models input[value=other]")
        tick.wait_for()
        assert tick.is_checked()
        tick.uncheck()
        page.locator("#scores", has_text="Pick another model").wait_for()
        assert not page.locator("#models input[value=other]").is_checked()
        page.reload()
        page.locator("#scores", has_text="Pick another model").wait_for()
        page.locator("#models input[value=other]").check()
        page.locator("#lacking", has_text="Measure what is missing").wait_for()


class TestWaiting:
    """It is visible, and nothing old is shown as new."""

    def test_an_old_answer_is_not_shown(self, page, address):
        page.goto(f"{address}/sentence?sentence=Dogs chase cats .")
        looks_at(page, "")
        slow = Slowly(page, "**/api/lens")
        for sentence in ("Cats sleep .", "Old birds sing ."):
            page.fill("#sentence", sentence)
            page.keyboard.press("Enter")
            page.locator("#strip", has_text=sentence.split()[1]).wait_for()
            for box in ("#words", "#path .box", "#near .box", "#attended .box"):
                assert page.get_attribute(box, "aria-busy") == "true"
                assert page.locator(f"{box} .skeleton").count() == 1
            assert page.locator("#token-title q").count() == 0
        # The first answer comes last, when nobody waits for it any more.
        slow.let_go(page, 1)
        page.locator("#words", has_text="4 words").wait_for()
        page.locator("#path svg").wait_for()
        assert page.locator("main [aria-busy=true]").count() == 0

    def test_what_fails_is_said_in_its_place_and_can_be_tried_again(self, page, address):
        page.route("**/api/lens", lambda route: route.fulfill(status=503, json={"error": "the disk is full"}))
        page.goto(f"{address}/sentence?sentence=Dogs bark .")
        page.locator("#words", has_text="the disk is full").wait_for()
        # Other panels may still be waiting for their own answers.
        assert page.locator("#words[aria-busy=true]").count() == 0
        page.unroute("**/api/lens")
        page.locator("#words").get_by_role("button", name="Try again").click()
        page.locator("#words", has_text="3 words").wait_for()

    def test_a_model_that_cannot_be_loaded_is_said(self, page, address):
        about = httpx.get(f"{address}/api/about").json()
        about["models"][0]["trouble"] = "its weights are damaged"
        page.route("**/api/about", lambda route: route.fulfill(json=about))
        for path in ("/runs", "/"):
            page.goto(f"{address}{path}")
            page.get_by_role("alert").get_by_text("tiny cannot be loaded: its weights are damaged").wait_for()

    def test_a_page_that_is_not_there_leads_on(self, page, address):
        assert page.goto(f"{address}/nowhere").status == 404
        page.locator("main").get_by_role("link", name="Overview").click()
        page.locator("h1", has_text="Overview").wait_for()


JOB = {
    "id": "1", "state": "running", "command": "lamina geometry tiny", "what": "encoding", "done": 1, "total": 4,
    "message": "", "elapsed": 30.0, "estimate": 180.0, "result": None,
}  # fmt: skip


class TestTheTray:
    """Computations with what is known of their time, and no more."""

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({}, "30 s of about 3 min: encoding"),
            ({"elapsed": 400.0}, "7 min so far, longer than the estimated 3 min"),
            ({"estimate": None}, "30 s so far; without an estimate"),
            ({"state": "queued"}, "waiting for the others; about 3 min once it runs"),
            ({"state": "failed", "message": "there is no such corpus"}, "failed after 30 s"),
        ],
        ids=["on time", "late", "unknown", "queued", "failed"],
    )
    def test_its_time(self, page, address, changed, said):
        page.route("**/api/jobs", lambda route: route.fulfill(json=[JOB | changed]))
        page.goto(f"{address}/runs")
        page.locator("#tray").click()
        page.locator("#jobs p", has_text=said).wait_for()
        page.keyboard.press("Escape")
        assert page.locator("#jobs").is_hidden()

    def test_it_is_beside_its_button_at_once_and_ends_with_what_was_found(self, page, address):
        found = {
            "id": "a", "name": "geometry-tiny", "analysis": "geometry", "title": "Geometry",
            "model": "tiny", "corpus": "c", "split": "dev", "created": "2026-01-01", "sample": "",
            "partial": "", "command": "", "tables": [],
            "findings": [{"text": "Layer 1 is round.", "status": "clear", "weight": 1}],
        }  # fmt: skip
        jobs = []

        def answer(route):
            if route.request.method == "POST":
                jobs.append(JOB | {"state": "running"})
                route.fulfill(status=202, json=jobs[0])
            else:
                route.fulfill(json=jobs)

        page.route("**/api/jobs", answer)
        page.goto(f"{address}/runs")
        page.select_option("#analysis", "geometry")
        page.get_by_role("button", name="Compute").click()
        page.locator(".job-status", has_text="30 s of about 3 min: encoding").wait_for()
        # It stays in sight wherever the page is.
        page.set_viewport_size({"width": 1200, "height": 400})
        page.evaluate("scrollTo(0, 0)")
        assert 0 < page.locator("#tray").bounding_box()["y"] < 400
        jobs[0] |= {"state": "done", "result": found}
        page.locator(".job-status", has_text="Found: Layer 1 is round.").wait_for()
        page.locator("#jobs", has_text="Layer 1 is round.").wait_for()


def test_a_model_of_a_result_folder_is_loaded_when_somebody_says_so(page, address):
    page.goto(f"{address}/sentence?model=results/tuned&sentence=Dogs bark .")
    notice = page.locator("#trouble")
    load = notice.get_by_role("button", name="Load this model")
    load.wait_for()
    assert "results/tuned was not named when this server was started" in notice.inner_text()
    load.click()
    looks_at_first = page.locator("#token-title q")
    looks_at_first.wait_for()
    assert not page.locator("#trouble p").count()
