"""The workloads: each names a model, its data, and the length of a run."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import update_bn

from gradagrad_lab.data.clicks.stream import HELD_OUT, TRAINING, ClickStream, Rows
from gradagrad_lab.data.pictures import Pair, pictures
from gradagrad_lab.evidence import data, models
from gradagrad_lab.evidence.methods import AVERAGED, COSINE, FREE, OURS, PLUS, TUNED_FREE, UNTUNED, Row
from gradagrad_lab.problems.blocks import Transformer, at_each_place
from gradagrad_lab.problems.clicks.dlrm import DLRM, Size

Batch = tuple[tuple[Tensor, ...], Tensor]
BATCH, MEASURED, CHUNK, REFRESHED = 128, 5_000, 500, 20
WINDOWS, CONTEXT, TEXTS, LENGTH, CLICK_CAP = 8, 64, 8, 32, 2_000_000


@dataclass
class Task:
    """A model from one seed: its mini-batches, and rows to measure on."""

    model: nn.Module
    batch: Callable[[int], Batch]
    fixed: dict[str, Batch]
    objective: Callable[..., Tensor] = at_each_place
    tables: list[nn.Parameter] = field(default_factory=list)

    @property
    def parameters(self) -> list[nn.Parameter]:
        return self.dense + self.tables

    @property
    def dense(self) -> list[nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad and not any(p is t for t in self.tables)]

    def loss_on(self, step: int) -> Tensor:
        inputs, targets = self.batch(step)
        return self.objective(self.model(*inputs), targets)

    @torch.no_grad()
    def measure(self, part: str) -> dict[str, float]:
        """The mean loss, and the accuracy where there are classes."""
        inputs, targets = self.fixed[part]
        self.model.eval()
        loss = right = 0.0
        for begin in range(0, len(targets), CHUNK):
            own = targets[begin : begin + CHUNK]
            scores = self.model(*(rows[begin : begin + CHUNK] for rows in inputs))
            loss += float(self.objective(scores, own, reduction="sum"))
            right += float((scores.argmax(-1) == own).sum()) if scores.shape[-1] == models.CLASSES else 0.0
        self.model.train()
        return {"loss": loss / targets.numel()} | ({"accuracy": right / len(targets)} if right else {})

    @contextmanager
    def fresh_statistics(self) -> Iterator[None]:
        """Batch normalisation's statistics at the present parameters, which training did not pass through."""
        kept = [buffer.clone() for buffer in self.model.buffers()]
        update_bn((self.batch(step)[0][0] for step in range(REFRESHED)), self.model)
        yield
        for buffer, before in zip(self.model.buffers(), kept, strict=True):
            buffer.copy_(before)


def _random(seed: int, number: int) -> torch.Generator:
    return torch.Generator().manual_seed(100_003 * seed + number)


def _classifier(parts: dict[str, Pair], model: nn.Module, seed: int, size: int, measured: int = MEASURED) -> Task:
    """Trains in whole epochs, each in an order of its own."""
    inputs, targets = parts["train"]
    per_epoch = len(targets) // size

    @functools.lru_cache(1)
    def order(epoch: int) -> Tensor:
        return torch.randperm(len(targets), generator=_random(seed, epoch))

    def batch(step: int) -> Batch:
        epoch, place = divmod(step, per_epoch)
        rows = order(epoch)[place * size : (place + 1) * size]
        return (inputs[rows],), targets[rows]

    fixed: dict[str, Batch] = {part: ((parts[part][0],), parts[part][1]) for part in ("validation", "test")}
    return Task(model, batch, fixed | {"train": ((inputs[:measured],), targets[:measured])})


def _pictures(name: str, model: Callable[[], nn.Module]) -> Callable[[int], Task]:
    return lambda seed: _classifier(pictures(name), model(), seed, BATCH)


def gpt(seed: int, width: int = 256, blocks: int = 5) -> Task:
    """Windows at random places to train on; 256 fixed ones of each part to measure."""
    texts = data.sources()

    def cut(text: Tensor, places: Tensor) -> Batch:
        window = text[places.unsqueeze(1) + torch.arange(CONTEXT + 1)]
        return (window[:, :-1],), window[:, 1:]

    def batch(step: int) -> Batch:
        last = len(texts["train"]) - CONTEXT - 1
        return cut(texts["train"], torch.randint(last, (WINDOWS,), generator=_random(seed, step)))

    fixed = {part: cut(text, torch.linspace(0, len(text) - CONTEXT - 2, 256).long()) for part, text in texts.items()}
    options: Any = {"heads": 8, "blocks": blocks, "wider": 4, "causal": True, "deviation": 0.02}
    return Task(
        Transformer(nn.Embedding(models.LETTERS, width), CONTEXT, width, models.LETTERS, **options), batch, fixed
    )


@functools.cache
def _tokens() -> dict[str, Pair]:
    folder, transformers = models.pretrained()
    tokenize = transformers.AutoTokenizer.from_pretrained(folder)

    def coded(texts: list[str]) -> Tensor:
        found = tokenize(texts, truncation=True, padding="max_length", max_length=LENGTH, return_tensors="pt")
        return torch.stack([found["input_ids"], found["attention_mask"]], dim=1)

    return {part: (coded(texts), names) for part, (texts, names) in data.docstrings().items()}


def _encoder(lora: bool) -> Callable[[int], Task]:
    return lambda seed: _classifier(_tokens(), models.Encoder(lora), seed, TEXTS, measured=300)


@functools.cache
def _clicked(stream: int, begin: int, end: int) -> Batch:
    rows: Rows = ClickStream(stream, CLICK_CAP).rows(end).cut(begin, end)
    return (torch.tensor(rows.dense), torch.tensor(rows.ids).long()), torch.tensor(rows.clicks)


def clicks(seed: int, size: int = BATCH, steps: int = 4_000) -> Task:
    """Facebook's click model. Its tables have more than ten million rows and sparse gradients."""
    inputs, targets = _clicked(TRAINING, 0, steps * size)
    model = DLRM(ClickStream(TRAINING, CLICK_CAP).table_sizes, Size(CLICK_CAP, 4, (32, 16), (32, 16)), seed=seed)
    order = torch.randperm(steps, generator=_random(seed, 0))

    def batch(step: int) -> Batch:
        begin = int(order[step]) * size
        return tuple(rows[begin : begin + size] for rows in inputs), targets[begin : begin + size]

    fixed = {"validation": _clicked(HELD_OUT, 0, 8_192), "test": _clicked(HELD_OUT, 8_192, 32_768)}
    fixed["train"] = tuple(rows[:MEASURED] for rows in inputs), targets[:MEASURED]
    objective: Any = functional.binary_cross_entropy_with_logits
    return Task(model, batch, fixed, objective, list(model.tables.parameters()))


@dataclass(frozen=True)
class Workload:
    """``tuning`` is the length of the runs that search a learning rate; ``like`` takes them from another workload."""

    title: str
    make: Callable[[int], Task]
    steps: int
    tuning: int
    seconds: float  # for a step, until a record knows better
    metric: str = "accuracy"
    swept: bool = False
    like: str = ""
    chosen: bool = False  # its validation part served to choose AutoGradaGrad's constants
    text: bool = False  # AdamW is trained with warm-up and clipping, too
    rows: tuple[Row, ...] = ()  # all if empty
    seeds: int = 3
    refined: bool = True  # the rates of the summary's rivals are tuned at whole length in the end
    points: tuple[float, ...] = (0.02, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # shares of a run after which it is tested

    @property
    def unit(self) -> str:
        return "accuracy, %" if self.metric == "accuracy" else self.metric


EPOCH = 55_000 // BATCH
_mlp, _cnn, _vit = (_pictures("fashion-mnist", model) for model in (models.mlp, models.cnn, models.vit))
_mnist, _lora, _full = _pictures("mnist", models.mlp), _encoder(lora=True), _encoder(lora=False)
_few = (COSINE, Row("AdamW"), TUNED_FREE, *UNTUNED, Row(OURS), AVERAGED)
_long: dict[str, Any] = {"rows": _few, "chosen": True}
_main = (COSINE, TUNED_FREE, FREE, PLUS, Row(OURS), AVERAGED)
_longer: dict[str, Any] = {**_long, "rows": _main, "refined": False, "seeds": 1}
_text: dict[str, Any] = {"chosen": True, "text": True}
WORKLOADS = {
    "fashion-mlp": Workload("Fashion-MNIST, MLP", _mlp, 5 * EPOCH, 5 * EPOCH, 0.003, swept=True, chosen=True),
    "mnist-mlp": Workload("MNIST, MLP", _mnist, 5 * EPOCH, EPOCH, 0.003),
    "fashion-cnn": Workload("Fashion-MNIST, residual CNN", _cnn, 5 * EPOCH, EPOCH, 0.02, chosen=True),
    "fashion-vit": Workload("Fashion-MNIST, ViT", _vit, 5 * EPOCH, EPOCH, 0.04, chosen=True),
    "gpt": Workload("GPT, Python's sources", gpt, 1_000, 125, 0.14, metric="loss", **_text),
    "clicks": Workload("Click model, 10 million rows", clicks, 4_000, 1_000, 0.005, metric="loss"),
    "fashion-long": Workload(
        "Fashion-MNIST, MLP, 100 epochs", _mlp, 100 * EPOCH, 0, 0.003, like="fashion-mlp", **_long
    ),
    "minilm": Workload("MiniLM, all weights", _full, 240, 120, 0.2, points=(1.0,), **_text),
    "minilm-lora": Workload("MiniLM, LoRA", _lora, 240, 120, 0.13, points=(0.5, 1.0), **_text),
    "cnn-long": Workload("Fashion-MNIST, CNN, 20 epochs", _cnn, 20 * EPOCH, 0, 0.02, like="fashion-cnn", **_longer),
    "vit-long": Workload("Fashion-MNIST, ViT, 20 epochs", _vit, 20 * EPOCH, 0, 0.04, like="fashion-vit", **_longer),
}
