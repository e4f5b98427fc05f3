"""Run the notebooks and keep their outputs: `python -m notebooks.run [NAME ...]`.

Needs nbclient and ipykernel (`pip install -e ".[notebooks]"`). The line that installs lamina is not run: it is for
readers who open a notebook elsewhere.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def run(path: Path) -> float:
    """Run one notebook in a folder of its own and save it with its outputs; the seconds it took."""
    notebook = nbformat.read(path, as_version=4)
    (install,) = [cell for cell in notebook.cells if "install" in cell.metadata.get("tags", ())]
    line, install.source = install.source, ""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=900, resources={"metadata": {"path": folder}}).execute()
        notebook.cells = [
            nbformat.from_dict(cell) for cell in json.loads(json.dumps(notebook.cells).replace(folder, "."))
        ]
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    cells[0].source = line
    for number, cell in enumerate(cells):
        cell.metadata.pop("execution", None)
        cell.execution_count = number or None
        # Progress bars say nothing once they are done.
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    nbformat.write(notebook, path)
    return time.monotonic() - start


if __name__ == "__main__":
    names = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    for name in names:
        print(f"{name}: {run(FOLDER / f'{name}.ipynb'):.0f} s", flush=True)
