"""Study files: what they may say, and what is refused with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.__main__ import main
from lamina.errors import InputError
from lamina.studies.declaration import add_models, parse_study, read_study, study_schema
from lamina.studies.plan import cells_of

HEAD = '[study]\nname = "s"\nmodels = ["minilm", "mpnet"]\ncorpora = ["ewt"]\n'


def study(text: str):
    return parse_study(text, Path("s.toml"))


def test_cells_are_models_by_corpora_by_analyses_with_settings_inherited_and_overridden() -> None:
    text = HEAD + (
        "seeds = [1, 2]\n[data]\nlimit = 50\n[settings]\nsamples = 30\n[analyses.geometry]\n"
        "[analyses.short]\nanalysis = 'geometry'\ndata = { limit = 5 }\nmodels = ['mini*']\n"
        "[[override]]\nmodel = 'mpnet'\nsettings = { samples = 99 }\n"
        "[[exclude]]\nmodel = 'mpnet'\nseed = 2\n"
        "[[include]]\nmodel = 'smollm2'\nanalysis = 'geometry'\ncorpus = 'ud_english_ewt'\n"
    )
    cells = {cell.name: cell for cell in cells_of(study(text))}
    assert list(cells) == [
        "geometry/minilm/ewt/seed1", "geometry/minilm/ewt/seed2", "short/minilm/ewt/seed1", "short/minilm/ewt/seed2",
        "geometry/mpnet/ewt/seed1", "geometry/smollm2/ud_english_ewt/seed1", "geometry/smollm2/ud_english_ewt/seed2",
    ]  # fmt: skip
    request = cells["short/minilm/ewt/seed2"].request
    assert request.options == {"limit": 5}
    assert request.settings == {"samples": 30, "seed": 2}
    assert cells["geometry/mpnet/ewt/seed1"].request.settings["samples"] == 99
    assert cells["geometry/minilm/ewt/seed1"].request.command == (
        "lamina geometry minilm --limit 50 --samples 30 --seed 1"
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (HEAD + "[analyses.geometri]\n", 5, "did you mean geometry?"),
        (HEAD + "[analyses.geometry]\nsettings = { sampels = 3 }\n", 6, "did you mean samples?"),
        (HEAD + "[analyses.geometry.settings]\nsamples = 3\nlimit = 3\n", 7, "it belongs under data"),
        (HEAD + "[analyses.geometry.settings]\nsamples = 'many'\n", 6, "samples must be a whole number"),
        (HEAD + "[data]\nlimt = 3\n[analyses.geometry]\n", 6, "did you mean limit?"),
        (HEAD.replace("mpnet", "minilmm") + "[analyses.geometry]\n", 3, "did you mean minilm?"),
        (HEAD.replace('"mpnet"', '\n"minilmm"') + "[analyses.geometry]\n", 4, "did you mean minilm?"),
        (HEAD.replace('"ewt"', '"ewtt"') + "[analyses.geometry]\n", 4, "ewtt"),
        (HEAD + "format = 9\n[analyses.geometry]\n", 5, "update lamina"),
        (HEAD + "seeds = [1]\n[settings]\nseed = 3\n[analyses.geometry]\n", 7, "contradict each other"),
        (HEAD + "[analyses.geometry]\n[[exclude]]\nmodel = 'minlm'\n", 7, "did you mean minilm?"),
        (HEAD + "[analyses.geometry]\n[[overide]]\nmodel = 'minilm'\n", 6, "did you mean override?"),
        (HEAD + "[analyses.geometry]\n[[override]]\nmodel = 'minilm'\ndata = { limit = 1 }\n[[override]]\n"
         "corpus = 'ewt'\ndata = { limit = 2 }\n", 9, "two values of limit: 1 in line 6 and 2 here"),
        (HEAD + "[analyses.geometry]\n[[exclude]]\nmodel = 'mpnet'\n[[include]]\nmodel = 'mpnet'\n"
         "analysis = 'geometry'\n", 8, "excluded in line 6"),
        (HEAD + "[analyses.geometry]\n[[include]]\nmodel = 'mpnet'\nanalysis = 'geometry'\ndata = { limit = 3 }\n", 6,
         "already with other settings"),
        (HEAD + "[analyses.compare]\n", 5, "reads no model"),
        (HEAD + "[analyses.look]\n", 5, "give sentence"),
        (HEAD + "[analyses.geometry\n", 5, "this is not TOML"),
        (HEAD.replace("mpnet", "minilm") + "[analyses.geometry]\n", 3, "two models are called minilm"),
        ('[study]\nname = "s"\nmodels = ["/nowhere/at/all"]\n[analyses.geometry]\n', 3, "there is no folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_line_and_what_was_meant(text: str, line: int, message: str) -> None:
    with pytest.raises(InputError) as error:
        cells_of(study(text))
    assert str(error.value).startswith(f"s.toml:{line}: "), str(error.value)
    assert message in str(error.value)


def test_bad_files_end_with_status_2_and_write_nothing(
    study_file: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = study_file("[analyses.short]\nanalysis = 'geometry'\nsettings = {{ sampels = 1 }}\n")
    before = sorted(path.parent.rglob("*"))
    monkeypatch.setattr("sys.argv", ["lamina", "study", "run", str(path)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert f"{path}:14: geometry has no setting 'sampels'; did you mean samples?" in capsys.readouterr().err
    assert sorted(path.parent.rglob("*")) == before


def test_a_series_a_pattern_and_revisions_are_models_like_any_other(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    text = f'[study]\nname = "s"\nmodels = ["{checkpoints}", "owner/m@step10,step20"]\ncorpora = ["ewt"]\n'
    models = study(text + "[analyses.geometry]\n").models
    assert [model.name for model in models] == [
        "tiny-step100", "tiny-step200", "tiny-step300", "m@step10", "m@step20",
    ]  # fmt: skip
    assert [model.revision for model in models] == ["100", "200", "300", "step10", "step20"]


def test_models_are_added_without_touching_comments(study_file: Callable[..., Path], checkpoints: Path) -> None:
    path = study_file()
    changed = add_models(path.read_text(), ["minilm"], path)
    assert "enough for a test" in changed
    path.write_text(changed)
    assert [model.name for model in read_study(path).models][-1] == "minilm"
    listed = '[study]\nmodels = [\n    "minilm", # small\n]\n[analyses.geometry]\n'
    assert add_models(listed, ["mpnet"], path).splitlines()[2:5] == ['    "minilm", # small', '    "mpnet",', "]"]
    with pytest.raises(InputError, match="two models are called minilm"):
        add_models(changed, ["minilm"], path)


def test_the_schema_has_the_settings_of_every_analysis_and_takes_a_study() -> None:
    schema = study_schema()
    json.dumps(schema)
    probe = schema["properties"]["analyses"]["properties"]["probe"]["properties"]
    assert {"preset", "seeds", "tasks"} <= probe["settings"]["properties"].keys()
    assert "limit" in probe["data"]["properties"]
    assert "compare" not in schema["properties"]["analyses"]["properties"]


def test_the_study_that_is_shipped_is_sound_with_and_without_its_optional_models(
    monkeypatch: pytest.MonkeyPatch, checkpoints: Path
) -> None:
    path = Path(__file__).parents[2] / "studies" / "pipeline.toml"
    monkeypatch.delenv("LAMINA_DATA", raising=False)
    small = read_study(path)
    assert "LAMINA_DATA" in small.absent["growing_bert"]
    assert [cell.name for cell in cells_of(small)] == [
        f"probe/{model}/gum_open" for model in ("minilm", "glove", "mpnet", "smollm2")
    ]
    (checkpoints.parent / "data").mkdir(exist_ok=True)
    link = checkpoints.parent / "data" / "growing_bert"
    if not link.exists():
        link.symlink_to(checkpoints, target_is_directory=True)
    monkeypatch.setenv("LAMINA_DATA", str(link.parent))
    whole = read_study(path)
    assert not whole.absent
    assert len(cells_of(whole)) == 7
    assert whole.order == ("pos", "const", "dep", "ner")
