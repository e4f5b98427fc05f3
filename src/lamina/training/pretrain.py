"""A small language model trained from nothing, as a series: a tokenizer of the text, log-spaced checkpoints."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from lamina.corpora.formats.lines import not_running_text
from lamina.corpora.loading import find_source, load_corpus
from lamina.corpora.question_sets import load_questions
from lamina.corpora.reading import raise_fault, read_lines
from lamina.errors import CorpusError, InputError, ModelError
from lamina.files.checking import read_json, write_json
from lamina.files.writing import fresh_folder, readable_write_errors
from lamina.models.running.devices import choose_device
from lamina.models.series import log_steps
from lamina.models.weights.hub import quiet_transformers
from lamina.progress import Advance, progress, say
from lamina.training.objective import IGNORED, Batch, hide
from lamina.training.running import are_sound, hashes, last_checkpoint, mixes, seal

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

PretrainingObjective = Literal["masked", "causal"]
ABOUT_SERIES = "pretraining.json"
"""Beside the checkpoints: how they were trained, and the losses."""
_HELD_OUT = 50
"""One document in 50 is not trained on; the loss is measured there."""
_MOST_HELD_OUT = 64
"""Rows of held-out text that the loss is measured on."""
_WARMUP, _DECAY = 0.06, 0.01
_SAVES = 10
"""How often a training is saved to be continued."""
_LEAST_ROWS = 8
_SHAPE = re.compile(r"(?P<blocks>\d{1,3})x(?P<width>\d{1,5})(?:x(?P<heads>\d{1,3}))?")
_SPECIAL = {"masked": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), "causal": ("<|pad|>", "<|end|>")}


class ModelShape(NamedTuple):
    """How large a new model is."""

    blocks: int
    width: int
    heads: int

    @classmethod
    def of(cls, written: str) -> ModelShape:
        """From BLOCKSxWIDTH or BLOCKSxWIDTHxHEADS; by default a head is 64 wide, and there are at least 2.

        Example:
            >>> ModelShape.of("4x256"), ModelShape.of("2x128x4")
            (ModelShape(blocks=4, width=256, heads=4), ModelShape(blocks=2, width=128, heads=4))
        """
        parts = _SHAPE.fullmatch(written.strip())
        if parts is None:
            raise InputError(f"the shape {written[:40]!r} cannot be read; write BLOCKSxWIDTH, for example 4x256")
        blocks, width = int(parts["blocks"]), int(parts["width"])
        heads = int(parts["heads"]) if parts["heads"] else max(2, width // 64)
        if not blocks or not heads or not width or width % heads:
            raise InputError(f"the shape {written!r} is not possible: the width has to be a multiple of {heads} heads")
        return cls(blocks, width, heads)


@dataclass(frozen=True)
class PretrainingPlan:
    """All settings of one pretraining."""

    shape: ModelShape
    objective: PretrainingObjective = "masked"
    steps: int = 1000
    checkpoints: int = 8
    """How many are kept after the untrained one."""
    seeds: int = 2
    seed: int = 0
    """The first."""
    vocabulary: int = 8192
    """Tokens of the tokenizer, at most."""
    batch: int = 32
    """Rows of a step."""
    length: int = 128
    """Tokens of a row."""
    lr: float = 1e-3
    """Highest learning rate; it rises over the first 6 % of the steps and falls to 0."""

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "shape": "x".join(map(str, self.shape))}


@dataclass(frozen=True, eq=False)
class PackedText:
    """A text as rows of tokens, the same for all seeds."""

    train: np.ndarray
    """[row, token]"""
    held_out: np.ndarray
    """[row, token] Of documents that are not trained on."""
    documents: int
    fingerprint: str


def train_series(
    text: Sequence[str | Path], out: str | Path, plan: PretrainingPlan, *, device: str | None = None
) -> Path:
    """Train models of several seeds on text and write a series: `out/seed0-step10`, ...; continues what was stopped.

    Each text is a file of plain text (one paragraph per line), a corpus file or a name of the catalogue; of questions,
    their contexts are read once each.

    Example:
        >>> plan = PretrainingPlan(ModelShape.of("2x128"), steps=500)
        >>> series = lamina.load_series(train_series(["squad"], "runs/small", plan))  # doctest: +SKIP
    """
    folder, where = Path(out), choose_device(device)
    if not isinstance(where, str) or where == "auto":
        raise InputError("a model is pretrained on one device; name one, such as cpu or cuda")
    documents = list(documents_of(text))
    about = {**plan.describe(), "text": [str(one) for one in text], "fingerprint": _fingerprint(documents)}
    with readable_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    _refuse_other(folder, about)
    tokenizer = _tokenizer_in(folder, documents, plan)
    packed = pack(documents, tokenizer, plan)
    seeds = range(plan.seed, plan.seed + plan.seeds)
    losses = [row for seed in seeds for row in _train_seed(folder, packed, tokenizer, plan, seed, torch.device(where))]
    tokens = plan.batch * plan.length
    described = {"tokens_per_step": tokens, "rows": len(packed.train), "documents": packed.documents, "losses": losses}
    write_json(folder / ABOUT_SERIES, {"format": 1, "plan": about, **described})
    shutil.rmtree(folder / _WORK, ignore_errors=True)
    return folder


_WORK = ".work"
"""What a stopped run continues from; deleted at the end."""


def documents_of(text: Sequence[str | Path]) -> Iterator[str]:
    """The documents of files and corpora, each once: the paragraphs of plain text, the contexts of questions.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.txt"
        >>> _ = path.write_text("Dogs bark.\\n\\nCats do not.\\n")
        >>> list(documents_of([path]))
        ['Dogs bark.', 'Cats do not.']
    """
    seen: set[bytes] = set()
    for one in text:
        for document in _documents(one):
            digest = hashlib.blake2b(document.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                yield document


def _documents(one: str | Path) -> Iterator[str]:
    path = Path(one)
    if path.is_file() and not_running_text(path) is None:
        yield from (line.text.strip() for line in read_lines(path, raise_fault) if line and line.text.strip())
        return
    source = find_source(one, None)
    if source.format.questions is not None:
        split = "train" if "train" in source.files else "all"
        for question in load_questions(one, split).questions():
            yield question.context
        return
    split = "train" if "train" in source.files else "all"
    for read in load_corpus(one, split, unit="document"):
        yield " ".join(read.words)


def _fingerprint(documents: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for document in documents:
        digest.update(hashlib.sha256(document.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()[:32]


def _refuse_other(folder: Path, about: dict[str, Any]) -> None:
    """Raise an InputError where the folder holds a series of other text or settings."""
    stored = folder / _PLAN
    if not stored.exists():
        others = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
        if others:
            raise InputError(f"{folder} holds other files ({others[0]}); name an empty folder")
        write_json(stored, about)
        return
    before = read_json(stored)
    different = sorted(name for name in about if json.dumps(before.get(name)) != json.dumps(about[name]))
    if different:
        raise InputError(
            f"{folder} holds a series with another {different[0]}; name another folder, or delete this one"
        )


_PLAN = ".plan.json"


# The tokenizer.


def _tokenizer_in(folder: Path, documents: Sequence[str], plan: PretrainingPlan) -> PreTrainedTokenizerFast:
    """The tokenizer of a stopped run; otherwise trained on the documents."""
    from transformers import PreTrainedTokenizerFast

    home = folder / _WORK / "tokenizer"
    if not (home / "tokenizer.json").is_file():
        tokenizer = train_tokenizer(documents, plan)
        home.parent.mkdir(exist_ok=True)
        with fresh_folder(home) as fresh:
            tokenizer.save_pretrained(fresh)
    # Read again, so that a run that is continued has the very same.
    return PreTrainedTokenizerFast.from_pretrained(home)


def train_tokenizer(documents: Iterable[str], plan: PretrainingPlan) -> PreTrainedTokenizerFast:
    """WordPieces without capitals for a masked model, byte-level BPE for a causal one.

    Example:
        >>> plan = PretrainingPlan(ModelShape.of("2x128"), vocabulary=60)
        >>> train_tokenizer(["dogs bark", "dogs run"], plan).tokenize("Dogs")
        ['dogs']
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = list(_SPECIAL[plan.objective])
    common: dict[str, Any] = {"vocab_size": plan.vocabulary, "special_tokens": special, "show_progress": False}
    if plan.objective == "masked":
        tokenizer = Tokenizer(models.WordPiece(unk_token=special[1]))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        tokenizer.train_from_iterator(documents, trainers.WordPieceTrainer(**common))
        ends = [(name, special.index(name)) for name in ("[CLS]", "[SEP]")]
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
        )
        names = {f"{name[1:-1].lower()}_token": name for name in special}
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        tokenizer.train_from_iterator(documents, trainers.BpeTrainer(initial_alphabet=alphabet, **common))
        names = {"pad_token": special[0], "bos_token": special[1], "eos_token": special[1], "unk_token": special[1]}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=plan.length, **names)


def pack(documents: Sequence[str], tokenizer: PreTrainedTokenizerFast, plan: PretrainingPlan) -> PackedText:
    """Rows of `length` tokens, cut out of all documents one after the other; what fills no row at the end is left out.

    A masked model's rows begin with [CLS] and end with [SEP], as at other times; documents of a causal model end with
    the end token.
    """
    order = [hashlib.sha256(document.encode("utf-8", "surrogatepass")).digest() for document in documents]
    chosen = set(sorted(range(len(documents)), key=order.__getitem__)[: max(1, len(documents) // _HELD_OUT)])
    train, held_out = (
        _rows((document for number, document in enumerate(documents) if (number in chosen) is out), tokenizer, plan)
        for out in (False, True)
    )
    if len(train) < _LEAST_ROWS or not len(held_out):
        raise CorpusError(
            f"the text fills {len(train)} rows of {plan.length} tokens; at least {_LEAST_ROWS} are needed, and 1 of "
            "documents that are not trained on: give more text, or a smaller --length"
        )
    return PackedText(train, held_out[:_MOST_HELD_OUT], len(documents), _fingerprint(documents))


def _rows(documents: Iterable[str], tokenizer: PreTrainedTokenizerFast, plan: PretrainingPlan) -> np.ndarray:
    listed, masked = list(documents), plan.objective == "masked"
    # Of the tokenizer below: transformers warns of texts longer than a row, which are cut here.
    encoded = tokenizer.backend_tokenizer.encode_batch(listed, add_special_tokens=False)
    end = [] if masked else [_id(tokenizer, "eos_token")]
    ids = np.array([id for document in encoded for id in (*document.ids, *end)], np.int32)
    room = plan.length - 2 if masked else plan.length
    rows = ids[: len(ids) // room * room].reshape(-1, room)
    if not masked:
        return rows
    ends = [np.full((len(rows), 1), _id(tokenizer, f"{name}_token"), np.int32) for name in ("cls", "sep")]
    return np.concatenate([ends[0], rows, ends[1]], axis=1)


def _id(tokenizer: PreTrainedTokenizerFast, name: str) -> int:
    number: Any = tokenizer.convert_tokens_to_ids(getattr(tokenizer, name))
    return int(number)


# The model and its training.


def new_model(plan: PretrainingPlan, tokenizer: PreTrainedTokenizerFast, seed: int) -> PreTrainedModel:
    """A BERT or a GPT-2 of this shape, its weights drawn with the seed; without dropout, which so short a training does
    not need."""
    from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

    shape, words = plan.shape, len(tokenizer)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if plan.objective == "masked":
            return BertForMaskedLM(
                BertConfig(
                    vocab_size=words,
                    hidden_size=shape.width,
                    num_hidden_layers=shape.blocks,
                    num_attention_heads=shape.heads,
                    intermediate_size=4 * shape.width,
                    max_position_embeddings=max(plan.length, 512),
                    hidden_dropout_prob=0.0,
                    attention_probs_dropout_prob=0.0,
                    pad_token_id=_id(tokenizer, "pad_token"),
                )
            )
        return GPT2LMHeadModel(
            GPT2Config(
                vocab_size=words,
                n_embd=shape.width,
                n_layer=shape.blocks,
                n_head=shape.heads,
                n_positions=max(plan.length, 512),
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                bos_token_id=_id(tokenizer, "eos_token"),
                eos_token_id=_id(tokenizer, "eos_token"),
                pad_token_id=_id(tokenizer, "pad_token"),
            )
        )


class PackedBatches:
    """Makes batches of rows of one length; what is masked follows from the seed and the rows of a batch."""

    def __init__(self, plan: PretrainingPlan, tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
        special = set(tokenizer.all_special_ids)
        self._plan, self._seed = plan, seed
        self._mask = _id(tokenizer, "mask_token") if plan.objective == "masked" else -1
        self._special = torch.tensor(sorted(special))
        self._others = torch.tensor([id for id in range(len(tokenizer)) if id not in special])

    def __call__(self, rows: Sequence[dict[str, Any]]) -> Batch:
        ids = torch.from_numpy(np.stack([row["input_ids"] for row in rows]).astype(np.int64))
        if self._plan.objective == "causal":
            return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}
        seen, labels = hide(ids, ~torch.isin(ids, self._special), self._mask, self._others, self._seed)
        return {"input_ids": seen, "attention_mask": torch.ones_like(ids), "labels": labels}


def masked_loss(model: Any, batch: Batch) -> torch.Tensor:
    """The loss of `model(**batch)` for a BERT, with logits of the masked tokens alone: a fraction of the work."""
    batch = dict(batch)
    labels = batch.pop("labels")
    chosen = labels != IGNORED
    states = model.bert(**batch).last_hidden_state[chosen]
    return torch.nn.functional.cross_entropy(model.cls(states).float(), labels[chosen])


class RisingAndFalling:
    """The learning rate at a step, as a share of the highest.

    Example:
        >>> rate = RisingAndFalling(100)
        >>> round(rate(0), 2), rate(5), rate(53)
        (0.17, 1.0, 0.5)
    """

    def __init__(self, steps: int) -> None:
        self._steps, self._warm = steps, max(1, round(_WARMUP * steps))

    def __call__(self, step: int) -> float:
        return min((step + 1) / self._warm, (self._steps - step) / max(1, self._steps - self._warm))


class _SeriesTrainer(Trainer):
    """The Trainer, whose masked models compute the logits that the loss needs."""

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        if "bert" in model.config.model_type and not return_outputs:
            return masked_loss(model, inputs)
        return super().compute_loss(model, inputs, return_outputs)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The rate rises to its highest and falls to 0; the first step learns already, unlike in transformers' own."""
        learned: Any = optimizer or self.optimizer
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(learned, RisingAndFalling(num_training_steps))
        self._created_lr_scheduler = True
        return self.lr_scheduler


class _SeriesCallback(TrainerCallback):
    """Keeps checkpoints of the series, with their loss on held-out text, and moves the progress bar."""

    def __init__(self, keep: Sequence[int], every: int, save: Any, advance: Advance) -> None:
        self._keep, self._every, self._save, self._advance = frozenset(keep), every, save, advance

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._advance(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._advance()
        if state.global_step in self._keep:
            self._save(state.global_step)
        control.should_save = state.global_step % self._every == 0 and state.global_step < state.max_steps

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        seal(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if logs and "loss" in logs:
            self._advance(0, note=f"loss {logs['loss']:.3f}")


class LossPoint(NamedTuple):
    """The loss of a checkpoint on held-out text, in nats per scored token."""

    seed: int
    step: int
    tokens: int
    """Read up to there."""
    loss: float


def _train_seed(
    folder: Path,
    packed: PackedText,
    tokenizer: PreTrainedTokenizerFast,
    plan: PretrainingPlan,
    seed: int,
    device: torch.device,
) -> list[dict[str, Any]]:
    """Train one seed, continue it, or read what is finished; its losses by checkpoint."""
    keep = [0, *log_steps(plan.steps, plan.checkpoints)]
    work = folder / _WORK / f"seed{seed}"
    targets = {step: folder / f"seed{seed}-step{step}" for step in keep}
    done = work / "done.json"
    losses = _stored_losses(work)
    if done.is_file() and all(_is_whole(target) for target in targets.values()) and len(losses) == len(keep):
        return [losses[step] for step in keep]
    work.mkdir(parents=True, exist_ok=True)
    model: Any = new_model(plan, tokenizer, seed)
    model = model.to(device)
    batches = PackedBatches(plan, tokenizer, seed)

    def save(step: int) -> None:
        loss = held_out_loss(model, packed.held_out, PackedBatches(plan, tokenizer, 0), plan.batch)
        if not np.isfinite(loss):
            raise ModelError(f"seed {seed}: the loss is not a number at step {step}; give a smaller --lr")
        point = LossPoint(seed, step, step * plan.batch * plan.length, loss)._asdict()
        with fresh_folder(targets[step]) as fresh:
            model.save_pretrained(fresh)
            tokenizer.save_pretrained(fresh)
        write_json(work / f"step{step}.json", {**point, "files": hashes(targets[step])})
        losses[step] = point

    checkpoint = last_checkpoint(work)
    every = max(1, -(-plan.steps // _SAVES))
    if checkpoint is None:
        with quiet_transformers():
            save(0)
    with quiet_transformers(), progress(f"seed {seed}: {plan.steps:,} steps", plan.steps) as advance:
        data: Any = [{"input_ids": row} for row in packed.train]
        trainer = _SeriesTrainer(
            model,
            _arguments(plan, work, seed, device),
            data_collator=batches,
            train_dataset=data,
            callbacks=[_SeriesCallback(keep, every, save, advance)],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    write_json(done, {"seed": seed})
    for old in work.glob("checkpoint-*"):
        shutil.rmtree(old)
    return [losses[step] for step in keep]


def _arguments(plan: PretrainingPlan, work: Path, seed: int, device: torch.device) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(work),
        max_steps=plan.steps,
        per_device_train_batch_size=plan.batch,
        learning_rate=plan.lr,
        weight_decay=_DECAY,
        max_grad_norm=1.0,
        optim="adamw_torch_fused",
        seed=seed,
        data_seed=seed,
        save_strategy="no",
        save_total_limit=2,
        logging_steps=max(1, plan.steps // 100),
        logging_nan_inf_filter=False,
        bf16=mixes(device),
        use_cpu=device.type == "cpu",
        dataloader_pin_memory=device.type != "cpu",
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to="none",
    )


def _stored_losses(work: Path) -> dict[int, dict[str, Any]]:
    """The losses of checkpoints that a stopped run kept."""
    stored: dict[int, dict[str, Any]] = {}
    for path in work.glob("step*.json"):
        content = read_json(path)
        target = work.parent.parent / f"seed{content['seed']}-step{content['step']}"
        if are_sound(target, content.pop("files")):
            stored[int(content["step"])] = content
        else:
            say(f"{target} is not as it was written; it is trained again")
    return stored


def _is_whole(target: Path) -> bool:
    return (target / "config.json").is_file() and (target / "model.safetensors").is_file()


def held_out_loss(model: Any, rows: np.ndarray, batches: PackedBatches, batch: int) -> float:
    """The mean loss on rows that are not trained on, in nats; of a masked model, with the same tokens masked every
    time."""
    device, training = next(model.parameters()).device, model.training
    model.eval()
    total, count = 0.0, 0
    for start in range(0, len(rows), batch):
        inputs = batches([{"input_ids": row} for row in rows[start : start + batch]])
        inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
        with torch.no_grad():
            loss = masked_loss(model, inputs) if "bert" in model.config.model_type else model(**inputs).loss
        scored = inputs["labels"] if "bert" in model.config.model_type else inputs["labels"][:, 1:]
        size = int((scored != IGNORED).sum())
        total, count = total + float(loss) * size, count + size
    model.train(training)
    return total / count
