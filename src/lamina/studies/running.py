"""Cells run: here, in processes bounded by memory, by Ray's actors, or as the tasks of a SLURM array; with trackers.

A worker holds the model it used last. Whatever runs them, cells are answered by the same code, and answers are found
again where they lie: a study that was stopped goes on. Trackers of experiments get the metrics of every cell, then the
page and the table.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lamina.activations.workers import ProcessPool, serve
from lamina.errors import CorpusError, InputError, LaminaError, ModelError, ResultError, RoomError, TaskError
from lamina.files.writing import write_text
from lamina.framework.passports import needs_of
from lamina.progress import VARIABLE as PROGRESS
from lamina.progress import say
from lamina.results.finding import rows_of
from lamina.results.result import COMMAND
from lamina.studies.plan import CellRecord, StudyCell, read_record, write_record
from lamina.studies.table import write_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.connection import Connection

    from lamina.activations import Runtime
    from lamina.framework.declare import Query
    from lamina.framework.estimate import Cost
    from lamina.models import Encoder
    from lamina.results import Result
    from lamina.studies.declaration import Study

_REFUSED = (CorpusError, ModelError, TaskError, InputError)
"""What a model or the data cannot do is known before the cell runs."""
_MOST_DEATHS = 2
"""Of processes that ran one cell, until it has failed."""
_PROCESS = 900 * 2**20
"""Bytes of a process that holds nothing yet."""


@dataclass(frozen=True)
class Place:
    """Where and how cells are run; sent to workers."""

    out: Path
    store: Path | None = None
    device: str | None = None
    keep: bool | None = None
    replace: bool = False
    threads: int | None = None

    def runtime(self) -> Runtime:
        """As analyses take it."""
        from lamina.activations import Runtime

        return Runtime(self.store, self.device, keep=self.keep)


class CellWorker:
    """Answers cells in this process; the model of the last cell stays loaded. One that only looks need not load any."""

    def __init__(self, place: Place, *, described: bool = False) -> None:
        self._place = place
        self._runtime = replace(place.runtime(), described=described)
        self._model: tuple[Any, Encoder] | None = None

    def query(self, cell: StudyCell) -> Query:
        """The cell with its inputs loaded; an error says why it cannot be asked."""
        from lamina.training.provenance import seed_folders

        request = cell.request
        if seed_folders(cell.source):
            return replace(request, store=None).analysis.ask(
                **request.inputs, **request.options, **request.settings, runtime=self._runtime
            )
        encoder = self._encoder(cell)
        options = {name: value for name, value in request.options.items() if name not in ("dtype", "chat")}
        return request.analysis.ask(
            **{**request.inputs, "model": encoder}, **options, **request.settings, runtime=self._runtime
        )

    def _encoder(self, cell: StudyCell) -> Encoder:
        from lamina.framework.inputs import as_encoder

        options = {name: cell.request.options[name] for name in ("dtype", "chat") if name in cell.request.options}
        key = (cell.source, tuple(sorted(options.items())))
        if self._model is None or self._model[0] != key:
            self._model = None  # its memory is needed
            encoder = as_encoder(cell.source, options, self._runtime)
            encoder.name = cell.model
            self._model = (key, encoder)
        return self._model[1]

    def look(self, cell: StudyCell) -> CellRecord | Cost:
        """Whether a cell is answered or cannot be asked; else what it takes."""
        from lamina.framework.estimate import estimate
        from lamina.framework.run import saved

        try:
            query = self.query(cell)
        except _REFUSED as error:
            return CellRecord(cell.name, "refused", str(error))
        if saved(query, self._place.out / cell.folder) is not None:
            return CellRecord(cell.name, "answered", reused=True)
        return estimate(query)

    def run(self, cells: Sequence[StudyCell]) -> list[CellRecord]:
        """Answer cells of one model and corpus; those that read attention maps share a pass."""
        if len(cells) > 1:
            # Whatever goes wrong with one of them: each is asked alone then, and the others are answered.
            with suppress(Exception):
                return self._together(cells)
        return [self._alone(cell) for cell in cells]

    def _together(self, cells: Sequence[StudyCell]) -> list[CellRecord]:
        from lamina.framework.run import ask_together, saved

        started = time.perf_counter()
        queries = [self.query(cell) for cell in cells]
        folders = [self._place.out / cell.folder for cell in cells]
        missing = [place for place, query in enumerate(queries) if saved(query, folders[place]) is None]
        results = ask_together(queries, folders, replace=self._place.replace)
        seconds = (time.perf_counter() - started) / max(1, len(missing))
        return [
            self._record(cell, result, seconds, reused=place not in missing)
            for place, (cell, result) in enumerate(zip(cells, results, strict=True))
        ]

    def _alone(self, cell: StudyCell) -> CellRecord:
        from lamina.framework.run import ask, saved

        folder, started = self._place.out / cell.folder, time.perf_counter()
        try:
            query = self.query(cell)
        except _REFUSED as error:
            return self._note(cell, CellRecord(cell.name, "refused", str(error), cell.digest))
        except Exception as error:
            return self._note(cell, CellRecord(cell.name, "failed", _in_words(error), cell.digest))
        token = COMMAND.set(cell.request.command)
        try:
            there = saved(query, folder)
            # A study's folder is its own: an answer to another request gives way to this one.
            result = there or ask(query, folder, replace=True)
        except (CorpusError, ModelError, TaskError) as error:
            # Some analyses find out while they run that a model has no head, or texts no labels.
            return self._note(cell, CellRecord(cell.name, "refused", str(error), cell.digest))
        except Exception as error:
            return self._note(cell, CellRecord(cell.name, "failed", _in_words(error), cell.digest))
        finally:
            COMMAND.reset(token)
        return self._record(cell, result, time.perf_counter() - started, reused=there is not None)

    def _record(self, cell: StudyCell, result: Result, seconds: float, *, reused: bool) -> CellRecord:
        from lamina.framework.estimate import memory_now

        before = read_record(self._place.out, cell)
        took = before.seconds if reused and before.state == "answered" else 0.0 if reused else seconds
        if reused and not took:
            took = float(result.provenance.cost.get("wall_seconds", result.provenance.cost.get("cpu_seconds", 0.0)))
        record = CellRecord(cell.name, "answered", "", cell.digest, result.key, round(took, 2), memory_now(), reused)
        if not (reused and before.key == result.key and before.state == "answered"):
            write_rows(self._place.out, cell, result, record.seconds)
        return self._note(cell, record)

    def _note(self, cell: StudyCell, record: CellRecord) -> CellRecord:
        write_record(self._place.out, cell, record)
        return record


def _in_words(error: BaseException) -> str:
    """Why a cell failed: one sentence for what a user can mend, else the error's class and first line."""
    if isinstance(error, LaminaError):
        return str(error)
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return "not enough memory; give fewer --workers, or a smaller part of the data (limit)"
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def portions_of(cells: Sequence[StudyCell]) -> list[list[StudyCell]]:
    """Cells that are answered together: those of one model and corpus that read attention maps; others alone.

    Example:
        >>> portions_of([])
        []
    """
    shared: dict[Any, list[StudyCell]] = {}
    for cell in cells:
        request = cell.request
        maps = "maps" in needs_of(request.analysis, {**_defaults(request.analysis), **request.settings})
        options = sorted((name, repr(value)) for name, value in request.options.items())
        key = (cell.source, cell.corpus, *options) if maps else cell.name
        shared.setdefault(key, []).append(cell)
    return list(shared.values())


def _defaults(analysis: Any) -> dict[str, Any]:
    return {name: setting.default for name, setting in analysis.settings.items() if not setting.required}


# Workers: some processes, or some actors of Ray, that are handed cells.


class CellReply(NamedTuple):
    """What came back from a worker."""

    worker: int
    records: list[CellRecord]
    died: str = ""
    """How it ended, if it did."""


class CellCrew(Protocol):
    """Workers by number, from 0."""

    size: int

    def send(self, worker: int, cells: list[StudyCell], /) -> None:
        """Have a worker answer some cells."""
        ...

    def reply(self) -> CellReply:
        """The next reply, waited for."""
        ...

    def replace(self, worker: int, /) -> None:
        """A new worker in the place of one that died."""
        ...

    def end(self) -> None:
        """End all workers."""
        ...


def run_here(cells: Sequence[StudyCell], place: Place, note: Callable[[CellRecord], None]) -> None:
    """Answer all cells in this process."""
    worker = CellWorker(place)
    for portion in portions_of(cells):
        for record in worker.run(portion):
            note(record)


def run_crew(cells: Sequence[StudyCell], crew: CellCrew, place: Place, note: Callable[[CellRecord], None]) -> None:
    """Answer all cells by a crew: a worker gets cells of the model it holds, and a new model only if memory allows."""
    waiting = portions_of(cells)
    deaths: dict[str, int] = {}
    holds: dict[int, str] = {}
    busy: dict[int, list[StudyCell]] = {}
    while waiting or busy:
        for worker in (number for number in range(crew.size) if number not in busy):
            portion = _next(waiting, holds, worker, busy)
            if portion is None:
                continue
            waiting.remove(portion)
            busy[worker], holds[worker] = portion, portion[0].source
            crew.send(worker, portion)
        answer = crew.reply()
        portion = busy.pop(answer.worker)
        for record in answer.records:
            note(record)
        if answer.died:
            holds.pop(answer.worker, None)
            crew.replace(answer.worker)
            for cell in portion:
                known = read_record(place.out, cell)
                if known.state in ("answered", "refused"):
                    # It was done, and its reply was lost.
                    note(known)
                    continue
                deaths[cell.name] = deaths.get(cell.name, 0) + 1
                if deaths[cell.name] >= _MOST_DEATHS:
                    why = f"its process died twice ({answer.died}); the usual cause is too little memory"
                    record = CellRecord(cell.name, "failed", why, cell.digest)
                    write_record(place.out, cell, record)
                    note(record)
                else:
                    say(f"a worker died ({answer.died}); {cell.name} is run again")
                    # Alone: whichever of a portion it was.
                    waiting.insert(0, [cell])


def _next(
    waiting: list[list[StudyCell]], holds: dict[int, str], worker: int, busy: dict[int, list[StudyCell]]
) -> list[StudyCell] | None:
    """The next portion for a worker: of the model it holds, else of one that no worker holds, else any."""
    mine = holds.get(worker)
    others = {holds[number] for number in busy if number in holds}
    ranked = sorted(waiting, key=lambda portion: (portion[0].source != mine, portion[0].source in others))
    if not ranked:
        return None
    first = ranked[0]
    return first if not busy or first[0].source == mine or _fits(first[0]) else None


def _fits(cell: StudyCell) -> bool:
    """Whether there is room for one more model beside those that are loaded."""
    import psutil

    return psutil.virtual_memory().available > memory_for(cell.source)


def memory_for(source: str) -> int:
    """Bytes that a process takes with a model, from the size of its files: weights are widened to float32.

    Example:
        >>> memory_for("a-name-of-the-hub") > 10**9
        True
    """
    from lamina import assets

    card = assets.cards().get(source)
    folder = assets.local_folder(source) if card is not None else Path(source)
    size = 0
    if folder is not None and folder.exists():
        files = [folder] if folder.is_file() else [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files if path.suffix in (".safetensors", ".bin", ".gguf", ".txt"))
        size *= 4 if any(path.suffix == ".gguf" for path in files) else 2
    return _PROCESS + (size or 2**29)


class CellProcesses(ProcessPool):
    """Processes of this machine; see `CellCrew`."""

    def __init__(self, workers: int, place: Place) -> None:
        import torch

        here = replace(place, threads=place.threads or max(1, torch.get_num_threads() // workers))
        super().__init__(_run_cells, [(here,)] * workers)

    def reply(self) -> CellReply:
        """See `CellCrew.reply`."""
        worker, records, died = self.receive()
        return CellReply(worker, records or [], died or "")


def _run_cells(pipe: Connection, place: Place) -> None:
    """The work of a process: cells in, their records out."""
    serve(pipe, lambda: _prepared(place).run)


def _prepared(place: Place) -> CellWorker:
    import torch

    os.environ[PROGRESS] = "none"
    if place.threads:
        torch.set_num_threads(place.threads)
    return CellWorker(place)


class RayCells:
    """Actors of Ray, one cell at a time each, in which a model stays loaded; see `CellCrew`."""

    def __init__(self, workers: int, place: Place) -> None:
        from lamina.activations.workers import connect_ray

        self.size = workers
        self._ray = connect_ray()
        self._place = replace(place, out=place.out.resolve(), threads=place.threads or 1)
        self._actors = [self._start() for _ in range(workers)]
        self._busy: dict[Any, int] = {}

    @property
    def pids(self) -> list[int]:
        """The numbers of the actors' processes."""
        return self._ray.get([actor.pid.remote() for actor in self._actors])

    def send(self, worker: int, cells: list[StudyCell], /) -> None:
        """See `CellCrew.send`."""
        self._busy[self._actors[worker].run.remote(cells)] = worker

    def reply(self) -> CellReply:
        """See `CellCrew.reply`."""
        (ready, *_), _ = self._ray.wait(list(self._busy), num_returns=1)
        worker = self._busy.pop(ready)
        try:
            return CellReply(worker, self._ray.get(ready))
        except self._ray.exceptions.RayError as error:
            return CellReply(worker, [], type(error).__name__)

    def replace(self, worker: int, /) -> None:
        """See `CellCrew.replace`."""
        self._actors[worker] = self._start()

    def end(self) -> None:
        """See `CellCrew.end`."""
        for actor in self._actors:
            self._ray.kill(actor)

    def _start(self) -> Any:
        return self._ray.remote(num_cpus=self._place.threads, max_restarts=0)(_RayWorker).remote(self._place)


class _RayWorker:
    def __init__(self, place: Place) -> None:
        self._worker = _prepared(place)

    def pid(self) -> int:
        return os.getpid()

    def run(self, cells: list[StudyCell]) -> list[CellRecord]:
        return self._worker.run(cells)


# SLURM: an array of shards, each of which runs the same command.


def slurm_script(command: Sequence[str], shards: int, out: Path, *, at_once: int | None = None) -> str:
    """The job script of an array of `shards` tasks.

    Example:
        >>> print(slurm_script(["lamina", "study", "run", "study.toml"], 4, Path("out")).splitlines()[2])
        #SBATCH --array=0-3
    """
    some = f"%{at_once}" if at_once else ""
    lines = [
        "#!/bin/sh",
        "#SBATCH --job-name=lamina-study",
        f"#SBATCH --array=0-{shards - 1}{some}",
        f"#SBATCH --output={out / 'slurm' / '%a.log'}",
        f'exec {shlex.join(command)} --shard "$SLURM_ARRAY_TASK_ID/{shards}"',
    ]
    return "\n".join(lines) + "\n"


def submit(script: str, out: Path) -> str:
    """Write a job script and hand it to sbatch; returns what sbatch said."""
    folder = out / "slurm"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.sh"
    write_text(path, script)
    try:
        answer = subprocess.run(["sbatch", str(path)], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError(
            f"there is no sbatch on this machine; hand {path} to the cluster's, or run the shards by hand (--shard)"
        ) from None
    if answer.returncode:
        raise ResultError(f"sbatch refused {path}: {answer.stderr.strip() or f'exit status {answer.returncode}'}")
    return answer.stdout.strip()


def lamina_command() -> list[str]:
    """How this lamina is started by another process."""
    return [sys.executable, "-m", "lamina"]


def in_shard(cells: Iterable[StudyCell], number: int, of: int) -> Iterator[StudyCell]:
    """The cells of one shard: those of a model stay together as far as shards are filled evenly.

    Example:
        >>> list(in_shard([], 0, 2))
        []
    """
    listed = list(cells)
    start, end = (len(listed) * place // of for place in (number, number + 1))
    yield from listed[start:end]


def refuse_room(cells: Sequence[StudyCell]) -> None:
    """Raise a RoomError where not even one model of a study fits into this machine's memory."""
    import psutil

    total = psutil.virtual_memory().total
    for source in dict.fromkeys(cell.source for cell in cells):
        if memory_for(source) > total:
            raise RoomError(
                f"{source} takes about {memory_for(source) / 1e9:.1f} GB, and this machine has {total / 1e9:.1f} GB"
            )


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
