"""What strangers leave in a folder: models, adapters, tokenizers, templates, GGUF files and results.

Each is read or refused in a sentence, within a time and some memory; a server answers others meanwhile, and ends.
"""

from __future__ import annotations

import json
import resource
import shutil
import signal
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from faults.campaign import Campaign
from faults.served import SOUND, Server, save

_SECONDS = 30
"""For loading a folder and encoding a sentence."""
_MEMORY = 2 << 30
"""Bytes that a load may take beyond what this process has."""
_DEADLINE = 6.0
"""Of the server's requests, in seconds."""
_PATIENCE = 40.0
"""Seconds for an answer beside something hostile, on a busy machine."""


def run(campaign: Campaign) -> None:
    """Run the part."""
    _load_planted(campaign)
    if campaign.full:
        _serve_planted(campaign)


def _load_planted(campaign: Campaign) -> None:
    cases = [*_named_folders(), *_mutated_folders(campaign)]
    for name, build in cases if campaign.full else cases[::9]:
        if campaign.left() < 0.3 * campaign.seconds:
            break
        folder = campaign.folder / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(campaign.tiny_model(width=16), folder)
        source = build(folder) or folder
        done = campaign.forked(lambda source=source: _load_and_ask(source), seconds=_SECONDS)
        fault = ""
        if done.code is None:
            fault = f"no end after {_SECONDS} s"
        elif done.code:
            fault = f"exit status {done.code}: {done.said}"
        campaign.judge(f"{name.partition(':')[0]} loaded: {name.partition(':')[2].strip()}", fault)


def _load_and_ask(source: Path | str) -> None:
    """Load a model and encode a sentence; errors of lamina are fine, others and memory without bound are not."""
    import lamina
    from lamina.cli.terminal import in_one_sentence
    from lamina.errors import LaminaError
    from lamina.types import Text

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        encoder = lamina.load_encoder(str(source), device="cpu")
        list(encoder.encode([Text("s", ("the", "old", "dogs"))]))
    except LaminaError as error:
        if "\n" in str(error):
            raise
    except BaseException as error:
        # The command line has a sentence for panics of libraries too.
        if in_one_sentence(error) is None:
            raise
    taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if taken > _MEMORY:
        raise MemoryError(f"{taken:,} bytes")


Build = Callable[[Path], "Path | str | None"]


def _json(name: str, change: Callable[[dict[str, Any]], object]) -> Build:
    def build(folder: Path) -> None:
        path = folder / name
        content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        changed = change(content)
        path.write_text(json.dumps(content if changed is None else changed), encoding="utf-8")

    return build


def _set(**settings: object) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda content: content | settings


_ENDLESS = r"((\w+\.?)+)+X"
_SLOW = "a*" * 7 + r"\d"
_GROW = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 8}


def _split(pattern: str) -> dict[str, object]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _named_folders() -> Iterator[tuple[str, Build]]:
    for name, pre in (("never ends", _split(_ENDLESS)), ("is slow", _split(_SLOW)), ("is no pattern", _split("(["))):
        yield f"tokenizers: a pattern that {name}", _json("tokenizer.json", _set(pre_tokenizer=pre))
    grow = {"type": "Sequence", "normalizers": [_GROW] * 12}
    yield "tokenizers: texts grow", _json("tokenizer.json", _set(normalizer=grow))
    for size in (10**6, 10**12):
        padding = {"strategy": {"Fixed": size}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}
        yield f"tokenizers: padded to {size}", _json("tokenizer.json", _set(padding=padding))
    yield "tokenizers: no vocabulary", _json("tokenizer.json", lambda content: content["model"].update(vocab={}))
    yield (
        "tokenizers: ids beyond the model",
        _json("tokenizer.json", lambda content: content["model"]["vocab"].update(the=10**9)),
    )
    yield "tokenizers: negative ids", _json("tokenizer.json", lambda content: content["model"]["vocab"].update(the=-5))
    yield "tokenizers: a list", _json("tokenizer.json", lambda _: [])
    yield "tokenizers: an odd kind", _json("tokenizer.json", lambda content: content["model"].update(type="Nothing"))
    yield "tokenizers: deep", lambda folder: _write(folder / "tokenizer.json", "[" * 10**5)
    yield "tokenizers: sparse terabyte", lambda folder: _sparse(folder / "tokenizer.json")
    yield "tokenizers: a long name of a token", _json("tokenizer_config.json", _set(cls_token="x" * 10**6))
    yield "tokenizers: an endless length", _json("tokenizer_config.json", _set(model_max_length=10**30))
    for name, template in (
        ("loops", "{% for x in range(10**12) %}x{% endfor %}"),
        ("reaches out", "{{ ''.__class__.__mro__[1].__subclasses__() }}"),
        ("multiplies", "{{ 'x' * 10**11 }}"),
        ("never closes", "{% for"),
        ("calls itself", "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}"),
        ("is long", "x" * (3 << 20)),
    ):
        yield f"templates: one that {name}", lambda folder, template=template: _template(folder, template)
    for name, settings in (
        ("a pattern that never ends", {"target_modules": _ENDLESS}),
        ("all modules by a pattern", {"target_modules": "(.*)*query"}),
        ("a base of the hub", {"base_model_name_or_path": "someone/else"}),
        ("a base outside", {"base_model_name_or_path": "../../.."}),
        ("a base that is itself", {"base_model_name_or_path": "."}),
        ("a rank of a billion", {"r": 10**9}),
        ("a negative rank", {"r": -1}),
        ("a list of odd modules", {"target_modules": [None, 3, "query"]}),
        ("ranks by pattern", {"rank_pattern": {_ENDLESS: 4}}),
        ("code of its own", {"auto_mapping": {"base_model_class": "x", "parent_library": "os"}}),
        ("an odd kind", {"peft_type": "NOTHING"}),
        ("layers by pattern", {"layers_pattern": _ENDLESS, "layers_to_transform": [0]}),
    ):
        yield f"adapters: {name}", lambda folder, settings=settings: _adapter(folder, settings)
    for name, content in _gguf_files():
        yield f"GGUF files: {name}", lambda folder, content=content: _gguf(folder, content)
    for name, settings in (
        ("a million layers", {"num_hidden_layers": 10**6}),
        ("a width that does not fit", {"hidden_size": 17}),
        ("heads that do not fit", {"num_attention_heads": 7}),
        ("no width", {"hidden_size": 0}),
        ("text for a number", {"num_hidden_layers": "two"}),
        ("infinite", {"layer_norm_eps": 1e400}),
        ("another kind", {"model_type": "gpt2"}),
        ("an unknown kind", {"model_type": "nothing"}),
        ("quantised by others", {"quantization_config": {"quant_method": "gptq", "bits": 4}}),
    ):
        yield f"configs: {name}", _json("config.json", _set(**settings))


def _write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")


def _sparse(path: Path) -> None:
    with path.open("ab") as file:
        file.truncate(1 << 40)


def _template(folder: Path, template: str) -> None:
    _json("tokenizer_config.json", _set(chat_template=template))(folder)
    _write(folder / "chat_template.jinja", template)


def _adapter(folder: Path, settings: dict[str, Any]) -> str:
    """An adapter beside the tiny model, named with it, as a user has to."""
    import torch
    from safetensors.torch import save_file

    adapter = folder.with_name("adapter")
    shutil.rmtree(adapter, ignore_errors=True)
    adapter.mkdir()
    about = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["query"], "task_type": None}
    _write(adapter / "adapter_config.json", json.dumps(about | {"base_model_name_or_path": str(folder)} | settings))
    name = "base_model.model.encoder.layer.0.attention.self.query.lora_{}.weight"
    pair = {name.format("A"): torch.zeros(2, 16), name.format("B"): torch.zeros(16, 2)}
    save_file(pair, adapter / "adapter_model.safetensors")
    return f"{folder}+{adapter}"


def _text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


def _gguf_files() -> Iterator[tuple[str, bytes]]:
    def head(tensors: int, count: int) -> bytes:
        return b"GGUF" + struct.pack("<IQQ", 3, tensors, count)

    yield "nothing behind the head", head(0, 0)
    yield "entries without end", head(0, 1 << 60)
    yield "tensors without end", head(1 << 60, 0)
    yield "a string of a petabyte", head(0, 1) + struct.pack("<Q", 1 << 50)
    yield "an array of a petabyte", head(0, 1) + _text(b"k") + struct.pack("<IIQ", 9, 4, 1 << 50)
    yield "arrays within arrays", head(0, 1) + _text(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 10_000
    kind = _text(b"general.architecture") + struct.pack("<I", 8)
    yield "an unknown kind", head(0, 1) + kind + _text(b"nothing")
    large = _text(b"llama.block_count") + struct.pack("<II", 4, 1 << 31)
    yield "two billion layers", head(0, 2) + kind + _text(b"llama") + large
    tensor = _text(b"t") + struct.pack("<IQQIQ", 2, 1 << 31, 1 << 31, 0, 0)
    yield "a tensor of exabytes", head(1, 1) + kind + _text(b"llama") + tensor
    yield "names that are no text", head(0, 1) + _text(b"\xff\xfe") + struct.pack("<If", 6, 1.0)
    yield "only its name", b"GGUF"
    yield "an old version", b"GGUF" + struct.pack("<IQQ", 1, 0, 0)


def _gguf(folder: Path, content: bytes) -> Path:
    path = folder / "odd.gguf"
    path.write_bytes(content)
    return path


def _mutated_folders(campaign: Campaign) -> Iterator[tuple[str, Build]]:
    """Bytes and values of a sound model's small files changed at random."""
    for number in range(campaign.count(6, 60)):
        seed = campaign.random.random()
        name = campaign.random.choice(("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"))
        yield f"random changes: {name} {number}", lambda folder, name=name, seed=seed: _mutate(folder / name, seed)


def _mutate(path: Path, seed: float) -> None:
    import random

    draw, content = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 3, 20))):
        # The head of weights, and all of a small file.
        at = draw.randrange(min(len(content), 3000))
        content[at] = draw.choice((48, 57, 44, 34, 91, 123, 0, 255, draw.randrange(256)))
    path.write_bytes(bytes(content[: draw.choice((len(content), len(content), len(content) // 2))]))


def _serve_planted(campaign: Campaign) -> None:
    """A server over a folder in which everything is planted, asked for all of it at once."""
    from faults.served import Answer

    hostile = campaign.folder / "hostile"
    shutil.copytree(campaign.tiny_model(width=16), hostile)
    slow = {"type": "Sequence", "pretokenizers": [_split(_SLOW), {"type": "WhitespaceSplit"}]}
    _json("tokenizer.json", _set(pre_tokenizer=slow))(hostile)
    server = Server(campaign, "planted", "--model", str(hostile), "--deadline", f"{_DEADLINE:g}")
    try:
        names = _plant(server.results)
        start = time.monotonic()
        listed = server.ask("GET", "/api/results")
        campaign.judge("planted results: the list", listed.fault(200))
        campaign.note(f"the first list of {len(names)} planted results took {time.monotonic() - start:.1f} s")
        endless = " ".join("a" * 26 + first + second for first in "bcdefghijklm" for second in "bcdefghijklm")
        asked: list[tuple[str, str, object]] = [("POST", "/api/lens", {"model": str(hostile), "sentence": endless})]
        for entry in json.loads(listed.body) if listed.status == 200 else []:
            base = f"/api/results/{entry['id']}"
            tails = (
                "",
                "/charts/x.svg",
                "/charts/x.png",
                "/charts/endless.svg",
                "/tables/scores.csv",
                "/tables/large.csv",
            )
            asked += [("GET", f"{base}{tail}", None) for tail in tails]
        asked += [("GET", path, None) for path in ("/report", "/api/overview/x", "/api/passed-over", "/api/about")]
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = [pool.submit(_timed, server, *request) for request in asked]
            beside = [pool.submit(_timed, server, "POST", "/api/lens", _sound_request(server)) for _ in range(5)]
            for request, future in zip(asked, answers, strict=True):
                answer, seconds = future.result()
                slow_answer = f"{seconds:.0f} s" if seconds > _PATIENCE else ""
                allowed: tuple[int, ...] = (200, 400, 404, 413, 422, 429, 503, 504)
                # 504: the deadline of a request.
                fault = "" if answer.status == 504 else answer.fault(*allowed)
                campaign.judge(f"planted results: {request[0]} {request[1]}", slow_answer or fault)
            for number, future in enumerate(beside):
                answer, seconds = future.result()
                answered: Answer = answer
                fault = f"{seconds:.0f} s" if seconds > _PATIENCE else answered.fault(200)
                campaign.judge(f"requests beside hostile ones: {number}", fault)
        answer, seconds = _timed(server, "GET", "/api/results")
        campaign.judge(
            "planted results: listed again", answer.fault(200) or (f"{seconds:.1f} s" if seconds > 5 else "")
        )
        with ThreadPoolExecutor(2) as pool:
            # While a model hangs and a chart is drawn, the server ends.
            pool.submit(_timed, server, "POST", "/api/lens", {"model": str(hostile), "sentence": endless})
            time.sleep(1.5)
            seconds = server.stop(signal.SIGINT)
        campaign.judge("Ctrl-C ends the server", f"it took {seconds:.0f} s" if seconds > 10 else "")
        campaign.note(f"Ctrl-C took {seconds:.1f} s beside a model that hung")
        said = server.log.read_text(errors="replace")
        campaign.judge("no traceback in the log", said[-600:] if "Traceback" in said else "")
    finally:
        server.end()


def _sound_request(server: Server) -> dict[str, str]:
    return {"model": server.model, "sentence": "the old dogs see ."}


def _timed(server: Server, method: str, path: str, body: object = None) -> tuple[Any, float]:
    start = time.monotonic()
    return server.ask(method, path, body), time.monotonic() - start


def _plant(results: Path) -> list[str]:
    """Results as strangers would leave them; their names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def planted(name: str, **changes: object) -> Path:
        save(results / name, SOUND | changes)
        return results / name

    endless = {
        "mark": "point",
        "data": {"sequence": {"start": 0, "stop": 1e13, "as": "x"}},
        "encoding": {"x": {"field": "x"}},
    }
    for number in range(4):
        folder = planted(f"chart without end {number}")
        for name in ("endless", "x"):
            (folder / f"{name}.vl.json").write_text(json.dumps(endless))
    wide = planted("large head", padding="x" * 40_000_000)
    (wide / "x.vl.json").write_text("[" * 10**6)
    folder = planted("a table that unpacks", tables={"large": {"value": "float"}})
    pq.write_table(pa.table({"value": pa.array([0.0] * 40_000_000)}), folder / "large.parquet", compression="zstd")
    folder = planted("an adapter", analysis="finetune", files=["adapter_config.json"])
    (folder / "adapter_config.json").write_text(
        json.dumps({"target_modules": _ENDLESS, "base_model_name_or_path": "a/b"})
    )
    folder = planted("a tokenizer", analysis="finetune", files=["config.json", "tokenizer.json"])
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 10**9}))
    _sparse(folder / "tokenizer.json")
    (results / "index.html").write_text("<body" * 60_000)
    (results / "nested").mkdir()
    (results / "nested" / "index.html").write_text("<table" * 60_000)
    return [path.name for path in results.iterdir()]
