"""What comes from others: calls that could run their code, files without a hash, hostile archives and models."""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import re
import shutil
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lamina
from faults.campaign import Campaign
from lamina import assets
from lamina.assets.origins import Allowance, unpack
from lamina.assets.recipes import CorpusRecipe
from lamina.assets.sources import AssetSource, Hub, Url
from lamina.errors import AssetError

_CALLS = {"eval", "exec", "compile", "__import__", "execfile", "mktemp", "system", "popen", "urlopen", "urlretrieve"}
_HARMLESS = re.compile(r"re\.compile|.+\.eval", re.DOTALL)
"""Compiled patterns, and models put into evaluation mode."""
_MODULES = {"pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "yaml"}
_LOADS = {"torch.load", "np.load", "numpy.load", "pd.read_pickle", "pandas.read_pickle"}
_FALSE = {"trust_remote_code", "allow_pickle", "shell"}
"""Settings that may only be given as False."""
_TYPED = {"trust_remote_code"}
"""Those of them that a user may turn on: what was typed is handed on by name, and nothing but False is written down."""
_LIMIT = 50_000
"""Bytes an archive may unpack to."""


def run(campaign: Campaign) -> None:
    """Read lamina's source and cards, then unpack archives and load models made to do harm."""
    for path in sorted(Path(lamina.__file__).parent.rglob("*.py")):
        campaign.judge(f"source: {path.name}", "; ".join(risky_lines(path.read_text(encoding="utf-8"))))
    for card in assets.cards().values():
        for source in card.sources:
            campaign.judge(f"downloads: {card.name} from {source.place}", _not_pinned(source))
    for number in range(campaign.count(30, 20_000)):
        if campaign.left() < 1.5:
            break
        _try_archive(campaign, number)
    for name, build in _FOLDERS.items():
        _try_folder(campaign, name, build)


def risky_lines(source: str) -> Iterator[str]:
    """What in a source file could run somebody else's code."""
    for node in ast.walk(ast.parse(source)):
        for found in _risks(node):
            yield f"line {getattr(node, 'lineno', 0)}: {found}"


def _risks(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        named = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        yield from (f"imports {name}" for name in named if name.partition(".")[0] in _MODULES)
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        if called.rpartition(".")[2] in _CALLS and not _HARMLESS.fullmatch(called):
            yield f"calls {called}"
        if called in _LOADS and not re.search("allow_pickle=False|weights_only=True", ast.unparse(node)):
            yield f"calls {called}"
        for word in node.keywords:
            handed_on = word.arg in _TYPED and isinstance(word.value, ast.Name | ast.Attribute)
            if word.arg in _FALSE and not handed_on and ast.unparse(word.value) != "False":
                yield f"{word.arg}={ast.unparse(word.value)}"


def _not_pinned(source: AssetSource) -> str:
    if not source.hashes or not all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in source.hashes.values()):
        return "a file has no hash"
    if isinstance(source, Hub) and source.more:
        return "a file has no hash"
    if isinstance(source, CorpusRecipe) and not all(
        re.fullmatch("[0-9a-f]{40}", blob) for blob in source.blobs.values()
    ):
        return "a file has no blob id"
    # A version of a package never changes; a branch does.
    place = source.revision if isinstance(source, Hub) else source.base if isinstance(source, Url) else None
    return "no commit" if place is not None and not re.search("[0-9a-f]{40}", place) else ""


def _try_archive(campaign: Campaign, number: int) -> None:
    folder = campaign.folder / "archive"
    into = folder / "a" / "b" / "files"
    shutil.rmtree(folder, ignore_errors=True)
    into.mkdir(parents=True)
    archive = campaign.folder / f"hostile.{campaign.random.choice(('zip', 'tar'))}"
    with warnings.catch_warnings(action="ignore"):
        names = _write_archive(campaign, archive)
    fault = ""
    try:
        unpack(archive, into, ("*",), Allowance(_LIMIT))
    except (AssetError, OSError):
        pass  # an OSError, such as for a name that is too long, is reported as a cache that cannot be written
    except Exception as error:
        fault = f"{names}: {type(error).__name__}: {error}"
    everything = [path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()]
    if any(not path.is_relative_to(into) for path in everything):
        fault = f"{names}: a file was written outside"
    if any(not stat.S_ISREG(path.lstat().st_mode) for path in everything):
        fault = f"{names}: something other than a file was written"
    if sum(path.lstat().st_size for path in everything) > _LIMIT:
        fault = f"{names}: more was written than the card allows"
    campaign.judge(f"archives: {number}", fault)


_NAMES = (
    *(
        "a",
        "x/b",
        "x/./c",
        "x//d",
        "x/",
        "",
        ".",
        "..",
        "a\n",
        "x" * 300,
        "nul\0name",
        "~/up",
        "C:up",
        "C:\\up",
        "..\\up",
    ),
    *("../up", "x/../../up", "//up", "/tmp/lamina-escaped"),
)


def _write_archive(campaign: Campaign, path: Path) -> list[str]:
    draw = campaign.random
    names = [draw.choice(_NAMES) for _ in range(draw.randint(1, 4))]
    sizes = [draw.choice((0, 10, 1000, 40_000, 5_000_000)) for _ in names]
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, size in zip(names, sizes, strict=True):
                info = zipfile.ZipInfo("x")
                info.filename = name
                info.compress_type = zipfile.ZIP_DEFLATED
                kind = draw.choice((stat.S_IFREG, 0, stat.S_IFLNK, stat.S_IFIFO))
                info.external_attr = (kind | 0o777) << 16
                archive.writestr(info, b"../../up" if kind == stat.S_IFLNK else bytes(size))
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name, size in zip(names, sizes, strict=True):
                info = tarfile.TarInfo(name)
                info.type = draw.choice(
                    (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)
                )
                info.linkname, info.size = "../../up", size if info.type == tarfile.REGTYPE else 0
                archive.addfile(info, io.BytesIO(bytes(size)))
    if draw.random() < 0.3:
        content = bytearray(path.read_bytes())
        for _ in range(draw.randint(1, 8)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(bytes(content[: draw.choice((len(content), len(content) // 2))]))
    return names


def _try_folder(campaign: Campaign, name: str, build: Callable[[Path, Path], object]) -> None:
    """Load a model folder that tries to run code: making the folder `ran` is what its code would do."""
    folder, ran = campaign.folder / "model", campaign.folder / "ran"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(campaign.tiny_model(), folder)
    build(folder, ran)
    done = campaign.forked(lambda: _load(folder), seconds=20)
    fault = ""
    if ran.exists():
        ran.rmdir()
        fault = "its code was run"
    elif done.code is None:
        fault = "no end after 20 s"
    elif done.traceback or done.code < 0:
        fault = done.said or f"signal {-done.code}"
    campaign.judge(f"model folders: {name}", fault)


def _load(folder: Path) -> None:
    from lamina.errors import LaminaError

    try:
        lamina.load_encoder(str(folder), device="cpu")
    except LaminaError as error:
        if "\n" in str(error):
            raise


class _Evil:
    def __init__(self, ran: Path) -> None:
        self.ran = ran

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.ran),)


def _pickled_weights(folder: Path, ran: Path) -> None:
    import torch

    (folder / "model.safetensors").unlink()
    torch.save({"embeddings.word_embeddings.weight": _Evil(ran)}, folder / "pytorch_model.bin")


def _plain_pickle(folder: Path, ran: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Evil(ran)))


def _pickles_everywhere(folder: Path, ran: Path) -> None:
    for name in ("training_args.bin", "optimizer.pt", "scheduler.pt", "tokenizer.pkl", "vocab.pkl", "rng_state.pth"):
        (folder / name).write_bytes(pickle.dumps(_Evil(ran)))


def _code(folder: Path, ran: Path) -> None:
    for name in ("modeling_x", "configuration_x", "tokenization_x", "custom_generate", "__init__", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"import os\nos.mkdir({str(ran)!r})\n")


def _own_model_code(folder: Path, ran: Path) -> None:
    _code(folder, ran)
    _change(folder / "config.json", auto_map={"AutoConfig": "configuration_x.C", "AutoModel": "modeling_x.M"})


def _own_kind_of_model(folder: Path, ran: Path) -> None:
    _own_model_code(folder, ran)
    _change(folder / "config.json", model_type="x", architectures=["M"])


def _own_tokenizer_code(folder: Path, ran: Path) -> None:
    _code(folder, ran)
    where = {"AutoTokenizer": ["tokenization_x.T", "tokenization_x.T"]}
    _change(folder / "tokenizer_config.json", auto_map=where, tokenizer_class="T")


def _template(folder: Path, _ran: Path) -> None:
    evil = "{{ ''.__class__.__mro__[1].__subclasses__() }}{% for x in range(10**12) %}{% endfor %}"
    _change(folder / "tokenizer_config.json", chat_template=evil)
    (folder / "chat_template.jinja").write_text(evil)


def _change(path: Path, **settings: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | settings), encoding="utf-8")


def _with_config(**settings: Any) -> Callable[[Path, Path], object]:
    return lambda folder, _: _change(folder / "config.json", **settings)


def _pipe(name: str) -> Callable[[Path, Path], object]:
    def build(folder: Path, _: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return build


_FOLDERS: dict[str, Callable[[Path, Path], object]] = {
    "pickled weights": _pickled_weights,
    "a plain pickle as weights": _plain_pickle,
    "pickles beside the weights": _pickles_everywhere,
    "code of its own": _own_model_code,
    "a kind of model of its own": _own_kind_of_model,
    "a tokenizer of its own": _own_tokenizer_code,
    "an endless template": _template,
    "a billion layers": _with_config(num_hidden_layers=10**9),
    "a billion labels": _with_config(num_labels=10**9),
    "50 million words": _with_config(vocab_size=5 * 10**7),
    "a trillion wide": _with_config(hidden_size=10**12),
    "less than no layers": _with_config(num_hidden_layers=-3),
    "deep settings": lambda folder, _: (folder / "config.json").write_text('{"a":' * 100_000),
    "a pipe as config": _pipe("config.json"),
    "a pipe as tokenizer": _pipe("tokenizer.json"),
    "a pipe as weights": _pipe("model.safetensors"),
}
