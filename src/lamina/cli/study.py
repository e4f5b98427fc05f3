"""Studies and sharing: `lamina study`, `lamina bundle`, `lamina open`, `lamina push`, and `lamina atlas`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lamina.cli import terminal

if TYPE_CHECKING:
    from lamina.studies.declaration import Study
    from lamina.studies.plan import CellRecord, StudyCell
    from lamina.studies.running import Place, StudyTracker


app = typer.Typer(no_args_is_help=True, help="Many models, corpora and analyses from one file.")

StudyFile = Annotated[Path, typer.Argument(metavar="[STUDY]", help="The study file.")]
OutFolder = Annotated[
    Path | None, typer.Option("--out", help="The study's folder; by default the file's `out`, else studies/NAME.")
]


@app.command()
def run(
    study: StudyFile = Path("study.toml"),
    out: OutFolder = None,
    engine: Annotated[
        Literal["ray", "slurm"] | None,
        typer.Option("--engine", help="ray: actors that keep their model; slurm: an array job; else this machine."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Processes here or actors of Ray (default 1), tasks of a SLURM array."),
    ] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="I/N", help="Run one part of the cells, counted from 0.")
    ] = None,
    store: terminal.StoreOption = None,
    device: terminal.DeviceOption = None,
    keep: terminal.KeepOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every cell with its cost, and what cannot be asked; run nothing.")
    ] = False,
) -> None:
    """Run the cells of a study that are not answered yet; write cells.parquet and one page.

    Answers are reused; a cell that fails does not stop the others. After Ctrl-C, the same command goes on. Exit status
    1 where a cell failed.

    Example: `lamina study run studies/pipeline.toml --dry-run`
    """
    from lamina.activations.extraction import parse_rank
    from lamina.studies.declaration import read_study
    from lamina.studies.plan import cells_of, claim_folder
    from lamina.studies.running import Place, in_shard, tracker_of

    read = read_study(study)
    rank = None if shard is None else parse_rank(shard)
    cells = cells_of(read)
    place = Place(out or read.out, store, device, keep)
    if rank is not None:
        cells = list(in_shard(cells, rank.number, rank.of))
    if engine == "slurm":
        _slurm(read, place, workers, dry_run=dry_run, rest=_options(out, store, device, keep))
        return
    if dry_run:
        _dry_run(cells, place)
        return
    claim_folder(read, place.out)
    tracker = tracker_of(read)
    records = _run(read, cells, place, engine, workers or 1, tracker)
    _tell(read, cells, records, place.out, tracker)


def _options(out: Path | None, store: Path | None, device: str | None, keep: bool | None) -> list[str]:
    words = [part for name, value in (("--out", out), ("--store", store), ("--device", device)) if value is not None
             for part in (name, str(value))]  # fmt: skip
    return words + ([] if keep is None else ["--keep" if keep else "--no-keep"])


def _slurm(study: Study, place: Place, tasks: int | None, *, dry_run: bool, rest: list[str]) -> None:
    from lamina.studies.plan import cells_of, claim_folder
    from lamina.studies.running import lamina_command, slurm_script, submit

    count = min(len(cells_of(study)), tasks or 16)
    command = [*lamina_command(), "study", "run", str(study.path.resolve()), *rest]
    script = slurm_script(command, count, place.out.resolve())
    if dry_run:
        print(script, end="")
        return
    claim_folder(study, place.out)
    print(submit(script, place.out))
    print(f"when the array has ended: lamina study run {study.path} writes the table and the page")


def _dry_run(cells: list[StudyCell], place: Place) -> None:
    """Every cell in a line, and the sum."""
    from lamina.framework.estimate import Cost
    from lamina.studies.running import CellWorker

    worker, costs, answered, refused = CellWorker(place, described=True), [], 0, 0
    for cell in cells:
        state = worker.look(cell)
        if isinstance(state, Cost):
            costs.append(state)
            words = f"about {max(1, round(state.seconds)):,} s, {state.memory / 1e9:.1f} GB, {state.disk / 1e6:,.0f} MB"
            print(f"{cell.name:<48} {words}", flush=True)
        elif state.state == "answered":
            answered += 1
            print(f"{cell.name:<48} answered", flush=True)
        else:
            refused += 1
            print(f"{cell.name:<48} cannot be asked: {state.why}", flush=True)
    seconds, cpu = (sum(getattr(cost, name) for cost in costs) for name in ("seconds", "cpu"))
    memory, disk = max((cost.memory for cost in costs), default=0), sum(cost.disk for cost in costs)
    print(f"{len(cells)} cells: {answered} answered, {refused} cannot be asked, {len(costs)} to run")
    print(f"about {seconds / 60:,.0f} min on this machine ({cpu / 60:,.0f} min of CPU time), at most "
          f"{memory / 1e9:.1f} GB of memory, {disk / 1e6:,.0f} MB of disk where states are stored")  # fmt: skip


def _run(
    study: Study, cells: list[StudyCell], place: Place, engine: str | None, workers: int, tracker: StudyTracker
) -> list[CellRecord]:
    from lamina.progress import progress, say
    from lamina.studies.running import CellProcesses, RayCells, refuse_room, run_crew, run_here

    records: list[CellRecord] = []
    refuse_room(cells)
    by_name = {cell.name: cell for cell in cells}
    with progress(f"study {study.name}", len(cells)) as advance:

        def note(record: CellRecord) -> None:
            records.append(record)
            advance(1, record.name)
            if record.state != "answered":
                say(f"{record.name} {'cannot be asked' if record.state == 'refused' else 'failed'}: {record.why}")
            tracker.cell(by_name[record.name], record, place.out)

        crew = None
        try:
            if engine == "ray":
                crew = RayCells(workers, place)
            elif workers > 1:
                crew = CellProcesses(min(workers, len(cells)), place)
            if crew is None:
                run_here(cells, place, note)
            else:
                run_crew(cells, crew, place, note)
        except KeyboardInterrupt:
            say(f"stopped: {len(records)} of {len(cells)} cells are done; the same command goes on")
            raise
        finally:
            if crew is not None:
                crew.end()
    return records


def _tell(study: Study, cells: list[StudyCell], records: list[CellRecord], out: Path, tracker: StudyTracker) -> None:
    """Write the table and the page, and print what failed; exit status 1 if anything did."""
    from lamina.studies.plan import cells_of
    from lamina.studies.table import write_study

    page, count = write_study(study, cells_of(study), out)
    tracker.end(out)
    states = {state: [record for record in records if record.state == state] for state in ("answered", "refused",
                                                                                         "failed")}  # fmt: skip
    reused = sum(record.reused for record in states["answered"])
    print(f"{len(states['answered'])} of {len(cells)} cells are answered ({reused} were before); {count:,} numbers in "
          f"{out / 'cells.parquet'}")  # fmt: skip
    for state, words in (("refused", "cannot be asked"), ("failed", "failed")):
        for record in states[state]:
            print(f"{record.name} {words}: {record.why}", file=sys.stderr)
    print(page)
    if states["failed"]:
        raise typer.Exit(1)


@app.command()
def status(study: StudyFile = Path("study.toml"), out: OutFolder = None) -> None:
    """Say which cells are answered, failed, cannot be asked or are still to run, without loading a model.

    Example: `lamina study status studies/pipeline.toml`
    """
    from lamina.studies.declaration import read_study
    from lamina.studies.plan import cells_of, read_record

    read = read_study(study)
    folder = out or read.out
    counts: dict[str, int] = {}
    words = {"answered": "answered", "failed": "failed", "refused": "cannot be asked", "open": "to run"}
    for cell in cells_of(read):
        record = read_record(folder, cell)
        counts[record.state] = counts.get(record.state, 0) + 1
        more = f": {record.why}" if record.why else f" in {record.seconds:,.0f} s" if record.seconds else ""
        print(f"{cell.name:<48} {words[record.state]}{more}")
    for model, why in read.absent.items():
        print(f"{model:<48} left out: {why}")
    print(", ".join(f"{count} {words[state]}" for state, count in counts.items()))


@app.command()
def schema() -> None:
    """Print the JSON schema of study files, which editors use to complete and check them.

    Example: `lamina study schema > study.schema.json`
    """
    from lamina.studies.declaration import study_schema

    print(json.dumps(study_schema(), indent=2, default=str))


@app.command()
def add(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Names, folders, patterns or series.")],
    study: Annotated[Path, typer.Option("--study", help="The study file.")] = Path("study.toml"),
) -> None:
    """Add models to a study file; its comments and layout stay.

    Example: `lamina study add mpnet --study studies/pipeline.toml`
    """
    from lamina.files.writing import write_text
    from lamina.studies.declaration import add_models, read_study

    read_study(study)
    changed = add_models(study.read_text(encoding="utf-8"), models, study)
    write_text(study, changed)
    print(study)


atlas_app = typer.Typer(no_args_is_help=True, help="A static site of studies, whose cells can be run again.")


def bundle(
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="A result's folder.")],
    out: Annotated[Path | None, typer.Option("--out", help="The file; by default NAME.lamina.")] = None,
) -> None:
    """Pack a result into one file that others can open: checked, and without code.

    Example: `lamina bundle results/probe --out probe.lamina`
    """
    from lamina.studies.sharing import bundle

    print(bundle(result, out))


def open_bundle(
    path: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A file that `lamina bundle` wrote.")],
    out: Annotated[Path | None, typer.Option("--out", help="The folder; by default results/NAME.")] = None,
) -> None:
    """Unpack a bundle into a result's folder; every file is compared with its hash, and nothing in it is run.

    Example: `lamina open probe.lamina --out results/probe`
    """
    from lamina.results import Result
    from lamina.studies.sharing import open_bundle

    folder = open_bundle(path, out)
    for finding in Result.load(folder).findings:
        print(f"{finding.status:<6} {finding.text}")
    print(folder)


def push(
    what: Annotated[Path, typer.Argument(metavar="WHAT", help="The folder of a result, a saved probe or a study.")],
    repo: Annotated[str, typer.Argument(metavar="hf:OWNER/NAME", help="A repository of the hub.")],
    eval_results: Annotated[
        str | None,
        typer.Option(
            "--eval-results",
            metavar="DATASET",
            help="Send the scores alone, for the model page of OWNER/NAME, as a pull request; DATASET is the hub's.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before sending.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent; send nothing.")] = False,
) -> None:
    """Send a result, a saved probe or a study to the Hugging Face hub, with a card made from its provenance.

    What will be sent is shown first, and nothing is sent without a yes. New repositories are private.

    Example: `lamina push results/probe hf:me/minilm-probe --dry-run`
    """
    from lamina.studies.sharing import send, shipment_of

    shipment = shipment_of(what, repo, eval_results=eval_results)
    print(shipment)
    if dry_run:
        for name, part in shipment.files.items():
            if isinstance(part, str):
                print(f"\n{name}:\n{part}")
        return
    if not yes and not typer.confirm("send it?"):
        print("nothing was sent")
        return
    print(send(shipment))


@atlas_app.command()
def build(
    studies: Annotated[list[Path], typer.Argument(metavar="STUDY...", help="Folders of studies.")],
    out: Annotated[Path, typer.Option("--out", help="The folder of the site.")] = Path("site"),
    title: Annotated[str, typer.Option("--title", help="Its title.")] = "Atlas",
) -> None:
    """Build a static site: a page per model, task, measure and cell; every cell has its request and its tables.

    Example: `lamina atlas build studies/pipeline --out site`
    """
    from lamina.studies.atlas import build_atlas

    print(build_atlas(studies, out, title=title))


@atlas_app.command()
def verify(
    site: Annotated[Path, typer.Argument(metavar="SITE", help="The folder of a site.")],
    cells: Annotated[int, typer.Option("--cells", min=1, help="Number of cells, drawn at random.")] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed of the draw.")] = 0,
    store: terminal.StoreOption = None,
    device: terminal.DeviceOption = None,
) -> None:
    """Run a random sample of an atlas's cells again, and say how many numbers lie inside their intervals.

    Exit status 1 where a number lies outside, or a cell could not be run.

    Example: `lamina atlas verify site --cells 20`
    """
    from lamina.activations import Runtime
    from lamina.studies.atlas import verify_atlas

    checks = verify_atlas(site, cells, seed=seed, runtime=Runtime(store, device))
    for check in checks:
        print(check)
    done = [check for check in checks if not check.fault]
    inside, known = sum(check.inside for check in done), sum(check.numbers for check in done)
    print(f"{len(done)} of {len(checks)} cells were run again: {inside:,} of {known:,} numbers lie inside their "
          "intervals")  # fmt: skip
    wrong = [check for check in checks if check.fault or check.inside < check.numbers]
    if wrong:
        print(f"{len(wrong)} cells differ or could not be run", file=sys.stderr)
        raise typer.Exit(1)
