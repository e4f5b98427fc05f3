"""What all tests share: where the real corpora are, and no network by accident."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path

import hypothesis
import pytest
from jaxtyping import install_import_hook

# The shapes in annotations are checked while tests run.
SHAPED = (
    "lamina.models.contract",
    "lamina.activations.reading",
    "lamina.analyses.heads",
    "lamina.analyses.words",
    "lamina.analyses.layers.geometry",
    "lamina.comparison.similarity",
    "lamina.analyses.answering",
    "lamina.analyses.layers.trace",
    "lamina.probes",
    "lamina.stats",
)
install_import_hook(SHAPED, "beartype.beartype")

# The same examples in every run, and no more than show a property: a failure names them.
hypothesis.settings.register_profile("suite", max_examples=25, deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("suite")

CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

os.environ["HF_HUB_OFFLINE"] = "1"
# Assets may come from the package registry all the same.
os.environ.setdefault("LAMINA_OFFLINE", "0")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Threads that spin while they wait make tiny models ten times slower on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# One worker a core: more threads than that would only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Dozens of processes import lamina: where nothing may be written beside sources, each would compile it anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_configure(config: pytest.Config) -> None:
    """A cache of the session's own, for all that tests write; downloads and what was made of them are the user's."""
    from lamina.errors import DamagedError
    from lamina.files.checking import cache_dir, read_json, write_json

    if hasattr(config, "workerinput"):
        # A worker writes into the cache of the session that started it.
        return
    users, folder = cache_dir(), Path(tempfile.mkdtemp(prefix="lamina-test-cache-"))
    (users / "assets").mkdir(parents=True, exist_ok=True)
    (folder / "assets").symlink_to(users / "assets")
    for kind in ("parsed", "converted"):
        (folder / kind).mkdir()
        for made in (users / kind).glob("[!.]*"):
            if made.suffix != ".lock":
                (folder / kind / made.name).symlink_to(made)
    with suppress(OSError, DamagedError):
        hashes = read_json(users / "hashes.json")
        write_json(folder / "hashes.json", {key.replace(str(users), str(folder)): hashes[key] for key in hashes})
    os.environ["LAMINA_CACHE"] = str(folder)
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


LONGEST = (
    "test_documented_commands.py",
    "test_in_browser.py",
    "test_faults.py",
    "test_frame_in_browser.py",
    "test_notebooks.py",
    "test_accessibility.py",
    "test_learning.py",
    "test_study.py",
    "test_heads_in_browser.py",
    "test_report_in_browser.py",
    "test_workers.py",
    "test_ray.py",
    "test_claims.py",
    "test_description_length.py",
    "test_results_api.py",
    "test_probe_figures.py",
    "test_probe_commands.py",
    "test_serve_command.py",
    "test_advice.py",
    "test_atlas.py",
)
"""Files that take longest, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: last, one would keep a worker busy and the others waiting."""
    turns = {name: turn for turn, name in enumerate(LONGEST)}
    items.sort(key=lambda item: turns.get(item.path.name, len(turns)))


def pytest_collection_finish() -> None:
    """What is there before the first test stays to the end: the garbage collector need not look at it each time."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter) -> None:
    """The ten files that took longest, so that a slow one is noticed when it is written."""
    seconds: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration") and hasattr(report, "fspath"):
                seconds[report.fspath] = seconds.get(report.fspath, 0) + report.duration
    if sum(seconds.values()) > 60:
        terminalreporter.section("files that took longest, in seconds")
        for path in sorted(seconds, key=lambda path: -seconds[path])[:10]:
            terminalreporter.line(f"{seconds[path]:7.1f}  {path}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """What runs only beside the real data is not measured: coverage is what every machine sees, and takes its time."""
    if not (item.get_closest_marker("real") or item.get_closest_marker("data")):
        return (yield)
    measuring = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(measuring)


@pytest.fixture(scope="session", autouse=True)
def undrawn() -> Iterator[Callable[..., str]]:
    """Charts are specified but not drawn, which takes as long as all else; yields what would draw them."""
    import vl_convert

    draw = vl_convert.vegalite_to_svg
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "vegalite_to_svg", lambda *_, **__: "<svg/>")
        yield draw


@pytest.fixture(scope="module")
def drawn_charts(undrawn: Callable[..., str]) -> Iterator[None]:
    """Charts are drawn: for tests of what can be seen in them."""
    import vl_convert

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "vegalite_to_svg", undrawn)
        yield


FailingAt = Callable[..., Callable[[], int]]


@pytest.fixture
def failing_at() -> FailingAt:
    """Makes the n-th call to the system fail, of those that writing makes and of further (object, name) pairs.

    Gives a function that tells how many calls were made.
    """

    def patched(step: int, error: BaseException, patch: pytest.MonkeyPatch, *further: tuple[object, str]):
        made = 0

        def counted(real: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object, **more: object) -> object:
                nonlocal made
                made += 1
                if made == step:
                    raise error
                return real(*args, **more)

            return call

        steps = ("fsync", "rename", "replace", "mkdir", "open", "close", "unlink", "rmdir")
        for owner, name in (*((os, step) for step in steps), *further):
            patch.setattr(owner, name, counted(getattr(owner, name)))
        return lambda: made

    return patched


@pytest.fixture(params=[True, False], ids=["exchange", "two-renames"])
def exchanges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With the system's exchange of two folders, and without it."""
    if not request.param:
        monkeypatch.setattr("lamina.files.writing.exchanger", lambda: None)
    return request.param


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Syncing guards against power cuts, which no test makes, and takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real corpora; tests that need it are skipped where there is none."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ["LAMINA_DATA"]) if os.environ.get("LAMINA_DATA") else beside
    if not folder.is_dir():
        pytest.skip("no real corpora: set LAMINA_DATA to the folder that holds them")
    return folder


@pytest.fixture(scope="session")
def real_encoder():
    """The real default model; tests that need it are skipped where it is neither cached nor to be had."""
    from lamina import assets, load_encoder
    from lamina.errors import AssetError

    try:
        assets.locate("minilm")
    except AssetError as error:
        pytest.skip(f"no real model: {error}")
    return load_encoder("minilm", device="cpu")


@pytest.fixture(scope="session")
def chromium() -> Callable[..., AbstractContextManager]:
    """Opens the system's Chromium with a profile of its own; tests that need it are skipped where there is none."""
    binary = shutil.which("chromium")
    if binary is None:
        pytest.skip("no Chromium: install the system's package `chromium`")

    @contextmanager
    def opened(profile: Path, **options):
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            launch = playwright.chromium.launch_persistent_context
            context = launch(profile, executable_path=binary, args=CHROMIUM_FLAGS, **options)
            yield context
            context.close()

    return opened


SLIM: dict[str, tuple[str, dict[str, int]]] = {
    "minilm": ("AutoModel", {"hidden_size": 48, "intermediate_size": 192}),
    "smollm2": (
        "AutoModelForCausalLM",
        {"hidden_size": 36, "intermediate_size": 96, "head_dim": 4, "num_hidden_layers": 3},
    ),
}
"""Model -> the class it is saved as, and what makes it small; heads are its own."""


@pytest.fixture(scope="session")
def slim_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models with the tokenizer and the heads of real ones, but narrow and untrained, by the name of the real one."""
    import torch
    import transformers

    from lamina.errors import AssetError
    from lamina.models.loading import model_folder

    slim = {}
    for name, (kind, narrow) in SLIM.items():
        try:
            real = model_folder(name)
        except AssetError as error:
            pytest.skip(f"no real model: {error}")
        slim[name] = tmp_path_factory.mktemp("slim") / name
        shutil.copytree(real, slim[name], ignore=shutil.ignore_patterns("*.safetensors", "sealed.json"))
        config = transformers.AutoConfig.from_pretrained(slim[name])
        config.update(narrow)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            getattr(transformers, kind).from_config(config).save_pretrained(slim[name])
    return slim


@pytest.fixture
def slim_models(slim_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Names mean models with their own tokenizer and heads, but narrow and untrained."""
    from lamina import assets

    locate = assets.locate
    monkeypatch.setattr(assets, "locate", lambda name, **more: slim_folders.get(name) or locate(name, **more))


SHORT = 1500
"""Texts of a file that are enough to run a command or a notebook."""


@pytest.fixture
def short_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of real corpora end after their first texts: drawing from a treebank reads all of it, for each command.

    Questions are all read: their splits are made of all documents.
    """
    from itertools import islice

    from lamina.corpora import loading

    whole = loading._read_file

    def first_texts(form, *about):
        return whole(form, *about) if form.questions else islice(whole(form, *about), SHORT)

    monkeypatch.setattr(loading, "_read_file", first_texts)


@pytest.fixture
def hasty_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes trained for a moment, where it does not matter what they learn."""
    from dataclasses import replace

    from lamina.analyses.layers.probe.training import PRESETS

    quick = PRESETS["quick"]
    short = replace(quick.schedule, validate_every=2, max_validations=1)
    monkeypatch.setitem(PRESETS, "quick", replace(quick, schedule=short, small=short))


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory) -> Callable[[str], Path]:
    """Architecture -> a folder with a tiny random model of it, made once."""
    path = Path(__file__).parent / "models" / "tiny_models.py"
    spec = importlib.util.spec_from_file_location("tiny_models_for_all", path)
    assert spec is not None
    assert spec.loader is not None
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    return cache(lambda name: models.build(name, tmp_path_factory.mktemp("models") / name))


@pytest.fixture(scope="session")
def make_geometry():
    """Makes a geometry result by hand, as plausible as a real one, for those who only show results.

    With `measures`, only those: each is a panel, and panels are slow to draw.
    """
    import pandas as pd

    from lamina.results import Provenance, Result

    def make(
        model: str = "minilm", corpus: str = "ewt", layers: int = 7, measures: Collection[str] | None = None
    ) -> Result:
        rows = []
        for name, learned in ((model, 1.0), (f"{model} (random)", 0.1)):
            for layer in range(layers):
                depth = learned * layer / max(1, layers - 1)
                spread, same, near = 0.05 + 0.3 * depth, 0.98 - 0.5 * depth, 0.3 + 0.25 * depth
                values = {
                    "anisotropy": spread,
                    "self_similarity": same,
                    "intra_similarity": near,
                    "self_similarity_adjusted": same - spread,
                    "intra_similarity_adjusted": near - spread - 0.3 * (1 - learned),
                    "max_explainable_variance": 0.9 - 0.8 * depth,
                    "max_explainable_variance_baseline": 0.1 + 0.05 * depth,
                    "max_explainable_variance_adjusted": 0.8 - 0.85 * depth,
                }
                kept = {measure: v for measure, v in values.items() if measures is None or measure in measures}
                rows += [(name, layer, measure, v, v - 0.015, v + 0.015) for measure, v in kept.items()]
        table = pd.DataFrame(rows, columns=["model", "layer", "measure", "value", "low", "high"])
        provenance = Provenance(
            model={"name": model, "fingerprint": "f" * 64},
            corpus={"name": corpus, "split": "dev", "fingerprint": "c" * 64, "files": {"dev.json": "a" * 64}},
            parameters={"samples": 1000, "twin": True},
            seeds=(0,),
            skipped={"word types seen fewer than 5 times": 4120, "texts too long": 0},
            command=f"lamina report {model} --corpus {corpus} --out report",
        )
        return Result("geometry", {"layers": table}, provenance)

    return make
