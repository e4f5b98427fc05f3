"""Trackers of experiments, by one hook: metrics of every cell, then the page and the table."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lamina.errors import InputError
from lamina.results.finding import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lamina.studies.declaration import Study
    from lamina.studies.plan import CellRecord, StudyCell

_KNOWN = ("mlflow", "wandb")
_MOST = 2000
"""Metrics of a cell that are handed on; the table has all."""


class Tracker(Protocol):
    """What follows a study; `[study] track = "module:function"` names a function that makes one of the study's name."""

    def log_cell(self, name: str, about: Mapping[str, str], metrics: Mapping[str, float]) -> None:
        """One answered cell: its name, what it was (model, corpus, analysis ...), its numbers."""
        ...

    def log_files(self, files: list[Path]) -> None:
        """The page and the table, at the end."""
        ...


class StudyTracker:
    """Hands answered cells to a tracker; without one, does nothing."""

    def __init__(self, tracker: Tracker | None) -> None:
        self._tracker = tracker

    def cell(self, cell: StudyCell, record: CellRecord, out: Path) -> None:
        """One cell was run."""
        if self._tracker is None or record.state != "answered":
            return
        about = {"model": cell.model, "revision": cell.revision, "corpus": cell.corpus, "analysis": cell.question,
                 "fingerprint": record.key, "reused": str(record.reused)}  # fmt: skip
        self._tracker.log_cell(cell.name, about, metrics_of(cell, out) | {"seconds": record.seconds})

    def end(self, out: Path) -> None:
        """All cells were run."""
        if self._tracker is not None:
            files = [out / name for name in ("index.html", "cells.parquet")]
            self._tracker.log_files([path for path in files if path.is_file()])


def metrics_of(cell: StudyCell, out: Path) -> dict[str, float]:
    """The numbers of a cell by name, as in `pos/f1, cumulative probe/layer 3`."""
    from lamina.studies.table import read_cells, rows_path

    path = rows_path(out, cell)
    if not path.is_file():
        return {}
    metrics: dict[str, float] = {}
    for row in rows_of(read_cells(path).head(_MOST)):
        layer = "" if row.layer is None or row.layer != row.layer or str(row.layer) == "<NA>" else f"layer {row.layer}"
        metrics["/".join(filter(None, (row.task, row.measure, layer)))] = float(row.value)
    return metrics


def tracker_of(study: Study) -> StudyTracker:
    """The tracker that a study names; an InputError where it cannot be loaded."""
    name = study.track
    if not name:
        return StudyTracker(None)
    if name in _KNOWN:
        from lamina.extras import installed

        if not installed(name):
            package = "mlflow-skinny" if name == "mlflow" else name
            raise InputError(f'{study.path}: track = "{name}" needs the package {package}: pip install {package}')
        return StudyTracker({"mlflow": MlflowTracker, "wandb": WandbTracker}[name](study.name))
    module, colon, function = name.partition(":")
    if not colon:
        raise InputError(f'{study.path}: track is one of {", ".join(_KNOWN)} or "module:function"; got {name!r}')
    try:
        tracker = getattr(import_module(module), function)(study.name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{study.path}: track = {name!r} cannot be used: {error}") from None
    return StudyTracker(tracker)


class MlflowTracker:
    """Runs of MLflow, one per cell, in an experiment with the study's name; MLFLOW_TRACKING_URI says where."""

    def __init__(self, study: str) -> None:
        self._mlflow: Any = import_module("mlflow")
        self._study = study
        self._mlflow.set_experiment(study)

    def log_cell(self, name: str, about: Mapping[str, str], metrics: Mapping[str, float]) -> None:
        """See `Tracker.log_cell`."""
        with self._mlflow.start_run(run_name=name):
            self._mlflow.log_params(dict(about))
            self._mlflow.log_metrics({_plain(one): value for one, value in metrics.items()})

    def log_files(self, files: list[Path]) -> None:
        """See `Tracker.log_files`."""
        with self._mlflow.start_run(run_name=self._study):
            for file in files:
                self._mlflow.log_artifact(str(file))


class WandbTracker:
    """Runs of Weights & Biases, one per cell, in a project with the study's name."""

    def __init__(self, study: str) -> None:
        self._wandb: Any = import_module("wandb")
        self._study = study

    def log_cell(self, name: str, about: Mapping[str, str], metrics: Mapping[str, float]) -> None:
        """See `Tracker.log_cell`."""
        run = self._wandb.init(project=self._study, name=name, config=dict(about), reinit=True)
        run.log(dict(metrics))
        run.finish()

    def log_files(self, files: list[Path]) -> None:
        """See `Tracker.log_files`."""
        run = self._wandb.init(project=self._study, name=self._study, reinit=True)
        for file in files:
            run.save(str(file), base_path=str(file.parent))
        run.finish()


def _plain(name: str) -> str:
    """A name as MLflow takes it: letters, digits, dashes, dots, spaces, slashes.

    Example:
        >>> _plain("pos/f1, cumulative probe")
        'pos/f1 cumulative probe'
    """
    return "".join(letter for letter in name if letter.isalnum() or letter in "_-. /:")[:250]
