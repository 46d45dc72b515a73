"""Held-out problems for AutoGradaGrad's fourth version, of other kinds than the older ones. Sizes and steps were set
with tuned SGD, AdaGrad and Adam alone, so that the loss falls clearly, before AutoGradaGrad ran on any.

Where a problem needs noise of its own it is drawn once and is part of the rows, so a measure has no noise.
"""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional

from gradagrad_lab.data import bundled
from gradagrad_lab.problems.blocks import at_each_place
from gradagrad_lab.problems.breaking import LowRank
from gradagrad_lab.problems.held_out import PATCH, problem
from gradagrad_lab.problems.training import Task, TrainingProblem, layers, linear

CODE, CLASSES, GRADES, LABELS, EXPERTS, LETTERS, PLACES = 4, 10, 6, 40, 6, 128, 6
PRETRAINING, TEXT_WORDS = 200, 1024


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@functools.cache
def _digits() -> tuple[Tensor, Tensor]:
    loaded = bundled.load("digits")
    return torch.from_numpy(loaded.features).float(), torch.from_numpy(loaded.targets)


@functools.cache
def _pixels() -> tuple[Tensor, Tensor]:
    """Digits with pixels from 0 to 1, eight times, each beside the noise of its code."""
    pixels = (_digits()[0].repeat(8, 1) + 1.0) / 2.0
    return torch.cat([pixels, torch.randn(len(pixels), CODE, generator=_random(301))], dim=1), pixels


class _Coder(nn.Module):
    """A variational autoencoder; gives the scores of the pixels and how far each code is from a normal one."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = layers((64, 48, 2 * CODE), nn.ELU), layers((CODE, 48, 64), nn.ELU)

    def forward(self, rows: Tensor) -> Tensor:
        mean, spread = self.encode(rows[:, :64]).chunk(2, dim=1)
        strayed = (spread.exp() + mean.square() - 1.0 - spread).sum(1, keepdim=True) / 2.0
        return torch.cat([self.decode(mean + (spread / 2.0).exp() * rows[:, 64:]), strayed], dim=1)


def _bound(found: Tensor, pixels: Tensor) -> Tensor:
    missed = functional.binary_cross_entropy_with_logits(found[:, :-1], pixels, reduction="none")
    return (missed.sum(1) + found[:, -1]).mean()


@functools.cache
def _diffused() -> tuple[Tensor, Tensor]:
    """Squares of photographs under noise of any strength, beside a plane of that strength; the noise is to be told."""
    random, squares = _random(307), list[Tensor]()
    for picture in datasets.load_sample_images().images:
        cut = (torch.tensor(picture).float() / 128.0 - 1.0).unfold(0, PATCH, 12).unfold(1, PATCH, 12)
        squares.append(cut.flatten(0, 1))
    clean = torch.cat(squares)
    noise, share = torch.randn(clean.shape, generator=random), torch.rand(len(clean), 1, 1, 1, generator=random)
    mixed = (1.0 - share).sqrt() * clean + share.sqrt() * noise
    return torch.cat([mixed, share.expand(-1, 1, PATCH, PATCH)], dim=1), noise


class _UNet(nn.Module):
    """Down by two, a middle, up again beside what was there, with swish."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.middle, self.up = nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.last = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, pictures: Tensor) -> Tensor:
        high = functional.silu(self.first(pictures))
        low = functional.silu(self.middle(functional.silu(self.down(high))))
        return self.last(torch.cat([high, functional.silu(self.up(low))], dim=1))


@functools.cache
def _triples() -> tuple[Tensor, Tensor]:
    """Three noisy digits: the second is of the kind of the first, the third is not."""
    random = _random(311)
    pixels, kinds = _digits()
    of_kind = [torch.nonzero(kinds == kind).flatten() for kind in range(CLASSES)]
    first = torch.randint(len(kinds), (4000,), generator=random)
    other = (kinds[first] + torch.randint(1, CLASSES, (4000,), generator=random)) % CLASSES
    drawn = torch.rand(2, 4000, generator=random)
    picked = [
        torch.stack([of_kind[kind][int(part * len(of_kind[kind]))] for kind, part in zip(wanted, parts, strict=True)])
        for wanted, parts in zip((kinds[first].tolist(), other.tolist()), drawn.tolist(), strict=True)
    ]
    rows = pixels[torch.stack([first, *picked], dim=1)]
    return rows + 0.5 * torch.randn(rows.shape, generator=random), kinds[first]


def _triplet(coded: Tensor, _: Tensor) -> Tensor:
    return functional.triplet_margin_loss(*functional.normalize(coded, dim=-1).unbind(1), margin=0.5)


@functools.cache
def _lines() -> tuple[Tensor, Tensor]:
    """Pictures of three thin lines under noise, and which pixels the lines cover: one in nine."""
    random = _random(313)
    angle, shift = torch.pi * torch.rand(1500, 3, 1, 1, generator=random), torch.rand(1500, 3, 1, 1, generator=random)
    line = torch.linspace(-1, 1, 20)
    away = angle.cos() * line.view(-1, 1) + angle.sin() * line + 1.4 * (shift - 0.5)
    covered = (away.abs() < 0.05).any(dim=1, keepdim=True).float()
    return covered + 0.5 * torch.randn(covered.shape, generator=random), covered


def _tversky(scores: Tensor, covered: Tensor) -> Tensor:
    """One minus the Tversky index of a mini-batch: a missed pixel counts .7, a false one .3."""
    likely = torch.sigmoid(scores)
    right, missed, wrong = ((a * b).sum() for a, b in ((likely, covered), (1 - likely, covered), (likely, 1 - covered)))
    return 1.0 - (right + 1.0) / (right + 0.7 * missed + 0.3 * wrong + 1.0)


def _finder(width: int = 8) -> nn.Module:
    sizes = (nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1))
    return nn.Sequential(*(part for own in sizes for part in (own, nn.ELU())), nn.Conv2d(width, 1, 3, padding=1))


class _CartPole(Task):
    """REINFORCE with a learnt baseline on many carts at once; a pole that has fallen stays down.

    The measure is the share of the time in which the pole is down, plus a tenth, so that it is never zero.
    """

    LONG, TESTED = 80, 64

    def __init__(self, seed: int, carts: int) -> None:
        self.policy, self.value = layers((4, 32, 2), nn.Tanh), layers((4, 32, 1), nn.Tanh)
        self.parameters = [*self.policy.parameters(), *self.value.parameters()]
        self._carts, self._draws = carts, _random(seed)

    @torch.no_grad()
    def _drive(self, carts: int, draws: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """What was seen, what was done and whether the pole still stood after it, step by step."""
        seen, done, stood = list[Tensor](), list[Tensor](), list[Tensor]()
        cart = 0.4 * torch.rand(carts, 4, generator=draws) - 0.2
        chance = torch.rand(self.LONG, carts, generator=draws)
        up = torch.ones(carts)
        for number in range(self.LONG):
            right = (self.policy(cart).softmax(1)[:, 1] > chance[number]).long()
            seen.append(cart)
            cart = self._moved(cart, 20.0 * right - 10.0)
            up = up * ((cart[:, 0].abs() < 2.4) & (cart[:, 2].abs() < 0.21))
            done.append(right)
            stood.append(up)
        return torch.stack(seen), torch.stack(done), torch.stack(stood)

    @staticmethod
    def _moved(cart: Tensor, force: Tensor, time: float = 0.04) -> Tensor:
        """Barto's cart and pole after a moment."""
        _, speed, angle, turning = cart.unbind(1)
        pushed = (force + 0.05 * turning.square() * angle.sin()) / 1.1
        bent = (9.8 * angle.sin() - angle.cos() * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * angle.cos().square() / 1.1))
        return cart + time * torch.stack([speed, pushed - 0.05 * bent * angle.cos() / 1.1, turning, bent], dim=1)

    def loss_on(self, step: int) -> Tensor:
        seen, done, stood = self._drive(self._carts, self._draws)
        reward = stood.flip(0).cumsum(0).flip(0) / self.LONG
        counts = torch.cat([torch.ones_like(stood[:1]), stood[:-1]])
        better = reward - self.value(seen).squeeze(2)
        logs = self.policy(seen).log_softmax(2).gather(2, done.unsqueeze(2)).squeeze(2)
        return (counts * (better.square() / 2.0 - better.detach() * logs)).sum() / counts.sum()

    def full_train_loss(self) -> float:
        return 1.1 - float(self._drive(self.TESTED, _random(0))[2].mean())

    def held_out(self) -> dict[str, float]:
        return {}


@functools.cache
def _moons() -> tuple[Tensor, Tensor]:
    """Two half circles of radius 3 with noise; no density of them is above one."""
    places, _ = datasets.make_moons(5000, noise=0.1, random_state=317)
    return 3.0 * torch.tensor(places).float(), torch.zeros(5000)


class _Flow(nn.Module):
    """Six affine couplings; gives minus the logarithm of the density."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(layers((1, 32, 2), nn.Softplus) for _ in range(6))

    def forward(self, places: Tensor) -> Tensor:
        kept, moved = places.split(1, dim=1)
        shrunk = torch.zeros(len(places))
        for part in self.parts:
            scale, shift = part(kept).chunk(2, dim=1)
            moved, kept = kept, moved * scale.tanh().exp() + shift
            shrunk = shrunk + scale.tanh().squeeze(1)
        return (kept.square() + moved.square()).squeeze(1) / 2.0 + math.log(2.0 * math.pi) - shrunk


@functools.cache
def _spread() -> tuple[Tensor, Tensor]:
    """Numbers whose mean and whose noise both depend on eight others."""
    random = _random(331)
    features, noise = torch.randn(5000, 8, generator=random), torch.randn(5000, generator=random)
    mean = 3.0 * features[:, 0].sin() + features[:, 1] * features[:, 2]
    return features, mean + (0.8 * features[:, 3]).exp() * noise


def _likelihood(found: Tensor, targets: Tensor) -> Tensor:
    """Minus the logarithm of a normal density with the mean and log variance that were found."""
    mean, spread = found.unbind(1)
    return ((targets - mean).square() * (-spread).exp() + spread + math.log(2.0 * math.pi)).mean() / 2.0


class _Experts(nn.Module):
    """Small nets, and a gate that weighs their answers."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(10, EXPERTS)
        self.experts = nn.ModuleList(layers((10, 8, 1), nn.SiLU) for _ in range(EXPERTS))

    def forward(self, rows: Tensor) -> Tensor:
        return (self.gate(rows).softmax(1) * torch.cat([expert(rows) for expert in self.experts], dim=1)).sum(1)


@functools.cache
def _pieces() -> tuple[Tensor, Tensor]:
    """One of eight linear functions, by the signs of three numbers, with noise."""
    random = _random(337)
    features, slopes = torch.randn(5000, 10, generator=random), torch.randn(8, 10, generator=random)
    piece = ((features[:, :3] > 0).long() * torch.tensor([1, 2, 4])).sum(1)
    return features, (features * slopes[piece]).sum(1) / 2.0 + 0.3 * torch.randn(5000, generator=random)


@functools.cache
def _text() -> tuple[Tensor, Tensor]:
    """Every ninth piece of Python's help: the next letter is to be named at every place."""
    text = " ".join(topics.values()).encode("ascii", "replace")
    pieces = torch.frombuffer(bytearray(text), dtype=torch.uint8).long().unfold(0, 25, 9 * 24)
    return pieces[:, :-1], pieces[:, 1:]


class _Writer(nn.Module):
    """A long short-term memory that names the next letter."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.letters, self.memory = nn.Embedding(LETTERS, 32), nn.LSTM(32, width, batch_first=True)
        self.last = nn.Linear(width, LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        return self.last(self.memory(self.letters(letters))[0])


@functools.cache
def _parts() -> tuple[Tensor, Tensor]:
    """The places and entries of a 150 × 100 matrix without negative entries, of rank 5, with noise."""
    random = _random(347)
    factors = [torch.rand(count, 5, generator=random).pow(3) for count in (150, 100)]
    entries = 4.0 * factors[0] @ factors[1].T + 0.1 * torch.randn(150, 100, generator=random)
    return torch.cartesian_prod(torch.arange(150), 150 + torch.arange(100)), entries.flatten()


class _Positive(nn.Module):
    """Factors that a softplus keeps above zero."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(250, 8, _weight=torch.randn(250, 8) - 2.0)

    def forward(self, places: Tensor) -> Tensor:
        return functional.softplus(self.table(places)).prod(1).sum(1)


@functools.cache
def _grades() -> tuple[Tensor, Tensor]:
    """Six grades of a sum of columns whose sizes go from 1/30 to 30."""
    random = _random(349)
    columns = torch.randn(4000, 20, generator=random)
    score = columns @ torch.randn(20, generator=random) + 2.0 * torch.randn(4000, generator=random)
    grades = torch.bucketize(score, score.quantile(torch.tensor([0.3, 0.6, 0.8, 0.92, 0.98])))
    return columns * torch.logspace(-1.5, 1.5, 20)[torch.randperm(20, generator=random)], grades


class _Ordered(nn.Module):
    """One linear score and thresholds in ascending order; gives the logits of "above a threshold"."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.gaps = linear(20, 1), nn.Parameter(torch.zeros(GRADES - 1))

    def forward(self, rows: Tensor) -> Tensor:
        return self.score(rows) - torch.cat([self.gaps[:1], functional.softplus(self.gaps[1:])]).cumsum(0)


def _above(scores: Tensor, grades: Tensor) -> Tensor:
    above = grades.unsqueeze(1) > torch.arange(GRADES - 1)
    return functional.binary_cross_entropy_with_logits(scores, above.float())


@functools.cache
def _labels() -> tuple[Tensor, Tensor]:
    """Forty labels, of which the first has a fifth of the rows and the last one in two hundred."""
    random = _random(353)
    features = torch.randn(6000, 30, generator=random)
    hidden = (features @ torch.randn(30, 60, generator=random) / 4.0).tanh() @ torch.randn(60, LABELS, generator=random)
    hidden = hidden + torch.randn(6000, LABELS, generator=random)
    share = 1.0 - 0.2 / torch.arange(1, LABELS + 1)
    edges = torch.stack([column.quantile(part) for column, part in zip(hidden.T, share, strict=True)])
    return features, (hidden > edges).float()


@functools.cache
def _words() -> tuple[Tensor, Tensor]:
    """Which of the commonest words stand in twenty words of Python's help, and which of its twelve longest topics."""
    spoken = {name: text.lower().split() for name, text in sorted(topics.items())}
    every = [word for words in spoken.values() for word in words]
    known = {word: place for place, word in enumerate(sorted(set(every), key=lambda w: (-every.count(w), w)))}
    rows, kinds = list[Tensor](), list[int]()
    for kind, name in enumerate(sorted(spoken, key=lambda name: (-len(spoken[name]), name))[:12]):
        places = torch.tensor([known[word] for word in spoken[name] if known[word] < TEXT_WORDS])
        for piece in places.unfold(0, 20, 20):
            rows.append(torch.zeros(TEXT_WORDS).index_fill(0, piece, 1.0))
            kinds.append(kind)
    return torch.stack(rows), torch.tensor(kinds)


@functools.cache
def _tumours() -> tuple[Tensor, Tensor]:
    """scikit-learn's tumours, which thirty measurements can tell apart without an error."""
    loaded = bundled.load("breast_cancer")
    return torch.from_numpy(loaded.features).float(), torch.from_numpy(loaded.targets)


@functools.cache
def _mirrored() -> tuple[Tensor, Tensor]:
    """Six digits, to be named from the last to the first; a tenth of the targets is wrong."""
    random = _random(359)
    rows, wrong = torch.randint(10, (2, 5000, PLACES), generator=random)
    return rows, torch.where(torch.rand(rows.shape, generator=random) < 0.1, wrong, rows).flip(1)


class _PostNorm(nn.Module):
    """Attention as it was first published: normalised after each sum."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first, self.places = nn.Embedding(10, width), nn.Parameter(0.1 * torch.randn(PLACES, width))
        block = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=False)
        self.blocks = nn.TransformerEncoder(block, 3, enable_nested_tensor=False)
        self.last = nn.Linear(width, 10)

    def forward(self, rows: Tensor) -> Tensor:
        return self.last(self.blocks(self.first(rows) + self.places))


@functools.cache
def _times() -> tuple[Tensor, Tensor]:
    """Places x from −1 to 1 and times t from 0 to 1."""
    points = torch.rand(4000, 2, generator=_random(367)) * torch.tensor([2.0, 1.0]) - torch.tensor([1.0, 0.0])
    return points, torch.zeros(4000)


class _Carried(nn.Module):
    """A net u with u_t + u·u_x = .03·u_xx that starts from −sin(πx) (Burgers); gives what it lacks, squared."""

    def __init__(self) -> None:
        super().__init__()
        self.u = layers((2, 32, 32, 1), nn.Tanh)

    def forward(self, points: Tensor) -> Tensor:
        with torch.enable_grad():
            points = points.detach().requires_grad_()
            u = self.u(points)
            (slope,) = torch.autograd.grad(u.sum(), points, create_graph=True)
            (bend,) = torch.autograd.grad(slope[:, 0].sum(), points, create_graph=True)
        lacks = slope[:, 1] + u.squeeze(1) * slope[:, 0] - 0.03 * bend[:, 0]
        x = points.detach()[:, 0]
        ends = self.u(torch.stack([x.sign(), points.detach()[:, 1]], dim=1))
        start = self.u(torch.stack([x, torch.zeros_like(x)], dim=1)).squeeze(1) + (torch.pi * x).sin()
        return lacks.square() + 4.0 * start.square() + ends.squeeze(1).square()


def _adapted() -> nn.Module:
    """A net that Adam trained on digits, frozen but for low-rank additions."""
    net = layers((64, 64, 64, CLASSES), nn.Tanh)
    adam, (pixels, kinds) = torch.optim.Adam(net.parameters()), _digits()
    for _ in range(PRETRAINING):
        adam.zero_grad()
        functional.cross_entropy(net(pixels), kinds).backward()
        adam.step()
    return nn.Sequential(*(LowRank(layer) if isinstance(layer, nn.Linear) else layer for layer in net))


@functools.cache
def _turned() -> tuple[Tensor, Tensor]:
    """Digits turned by a quarter, under noise, five times."""
    pixels, kinds = _digits()
    turned = pixels.view(-1, 8, 8).rot90(1, (1, 2)).flatten(1).repeat(5, 1)
    return turned + 0.6 * torch.randn(turned.shape, generator=_random(373)), kinds.repeat(5)


@functools.cache
def _one_hot() -> tuple[Tensor, Tensor]:
    """Noisy digits, and for each of ten sigmoids whether it is meant."""
    pixels, kinds = (part.repeat(4, *[1] * (part.ndim - 1)) for part in _digits())
    return pixels + 0.6 * torch.randn(pixels.shape, generator=_random(379)), functional.one_hot(kinds, CLASSES).float()


def _brier(scores: Tensor, targets: Tensor) -> Tensor:
    return (torch.sigmoid(scores) - targets).square().sum(1).mean()


def _first(losses: Tensor, _: Tensor) -> Tensor:
    """The mean of what a model gives that computes its own loss."""
    return losses.mean()


def _drives(seed: int, steps: int, batch: int, data_dir: Path | None) -> Task:
    return _CartPole(seed, batch)


_silu: Callable[[], nn.Module] = nn.SiLU
FOURTH = (
    problem("digits-vae", "a variational autoencoder", 400, 32, _pixels, _Coder, _bound),
    problem("diffusion-unet", "a U-net with swish tells noise in photographs", 200, 16, _diffused, _UNet,
            functional.mse_loss),
    problem("digits-triplet", "a triplet loss", 400, 32, _triples, lambda: layers((64, 48, 8)), _triplet),
    problem("lines-tversky", "thin lines in noise, Tversky loss, ELU", 250, 16, _lines, _finder, _tversky),
    problem("digits-brier", "swish and sigmoids at the end, squared error", 500, 32, _one_hot,
            lambda: layers((64, 48, 48, CLASSES), _silu), _brier),
    TrainingProblem("cart-pole", "cart-pole", "net", 80, 16, _drives, "a policy gradient with a learnt baseline"),
    problem("moons-flow", "a normalising flow", 400, 64, _moons, _Flow, _first),
    problem("spread", "regression with a learnt variance", 600, 16, _spread,
            lambda: layers((8, 32, 32, 2), _silu), _likelihood),
    problem("experts", "a mixture of six experts", 500, 32, _pieces, _Experts, functional.mse_loss),
    problem("help-lstm", "an LSTM writes Python's help", 300, 16, _text, _Writer, at_each_place),
    problem("parts", "a matrix by factors that a softplus keeps positive", 1500, 64, _parts, _Positive,
            functional.mse_loss),
    problem("grades", "ordinal regression, columns of sizes from 1/30 to 30", 800, 16, _grades, _Ordered, _above),
    problem("rare-labels", "forty rare labels by sigmoids, ELU", 500, 32, _labels,
            lambda: layers((30, 64, LABELS), nn.ELU), functional.binary_cross_entropy_with_logits),
    problem("topics-softmax", "softmax regression on words; convex and separable", 500, 16, _words,
            lambda: linear(TEXT_WORDS, 12)),
    problem("tumours", "softmax regression on tumours; convex and separable", 800, 16, _tumours,
            lambda: linear(30, 2)),
    problem("mirror-postnorm", "a transformer with norms after its sums", 400, 32, _mirrored, _PostNorm, at_each_place),
    problem("burgers", "a net that solves Burgers' equation, four points at a time", 800, 4, _times, _Carried, _first),
    problem("turned-lora", "low-rank additions from zero to a trained net", 400, 32, _turned, _adapted),
)  # fmt: skip
"""Reported once, and never used for a choice."""
