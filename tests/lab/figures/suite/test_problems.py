"""The suite's problems: a seed decides everything, the gradient points downhill, and no global state changes."""

import hashlib
from dataclasses import replace

import pytest
import torch

from gradagrad_lab.average import Average
from gradagrad_lab.data import keel as archive
from gradagrad_lab.errors import UserError
from gradagrad_lab.figures.suite.plan import OURS, PROBLEMS, problems_at_hand
from gradagrad_lab.methods import entry_of
from gradagrad_lab.problems import convex, fresh, keel, language
from gradagrad_lab.problems.fresh import SECOND_HELD_OUT
from gradagrad_lab.problems.held_out import HELD_OUT
from gradagrad_lab.problems.training import ACCURACY, LOSS, RowOrder, split
from gradagrad_lab.single import Single, has_diverged, outcome_of

STEPS = 30
BUNDLED = [entry.problem for entry in PROBLEMS.values() if not entry.needs and "KEEL" not in entry.problem.describe]


def evaluate(problem, name, seed=0, **options):
    training = Single(problem.make(seed, steps=STEPS), entry_of(name), options, seed, STEPS)
    for number in range(training.rounds):
        training.advance(number)
    return outcome_of(training.curves()[0])


def gradients(task, step=0):
    for parameter in task.parameters:
        parameter.grad = None
    loss = task.loss_on(step)
    loss.backward()
    return float(loss.detach()), [parameter.grad.to_dense().clone() for parameter in task.parameters]


def _made_up(name, data_dir=None):
    """A table of the right form, so that no test needs the archive: numbers, or few categories, then a class."""
    random = torch.Generator().manual_seed(3)
    columns = {"phoneme": 5, "splice": 60, "marketing": 13, "movement_libras": 90, "satimage": 36}.get(name, 20)
    return [
        [*(str(number) for number in torch.randint(4, (columns,), generator=random).tolist()), str(row % 2)]
        for row in range(200)
    ]


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setattr(archive, "table", _made_up)
    yield
    keel._measured.cache_clear()
    keel._categories.cache_clear()


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("problem", [*BUNDLED, *SECOND_HELD_OUT, *HELD_OUT], ids=lambda problem: problem.name)
def test_a_seed_decides_everything(problem):
    before = torch.random.get_rng_state()
    first, again, other = (problem.make(seed, steps=STEPS) for seed in (3, 3, 4))
    assert torch.equal(before, torch.random.get_rng_state()), "the global generator is left alone"
    loss, found = gradients(first)
    assert (loss, first.full_train_loss()) == (gradients(again)[0], again.full_train_loss())
    for own, same in zip(found, gradients(again)[1], strict=True):
        assert torch.equal(own, same)
    # Another seed: another start, or at least other mini-batches. (From zero the first loss is the same for all rows.)
    differs = [not torch.equal(a, b) for a, b in zip(found, gradients(other)[1], strict=True)]
    assert any(differs)


@pytest.mark.parametrize("problem", BUNDLED, ids=lambda problem: problem.name)
def test_the_gradient_leads_down(problem):
    outcome = evaluate(problem, "adam", 1, lr=1e-3)
    assert outcome.train < outcome.initial
    assert not outcome.diverged
    assert len(outcome.curve) <= 40
    assert outcome.held_out[LOSS] > 0
    assert 0 <= outcome.held_out.get(ACCURACY, 0.5) <= 1


def test_rows_are_visited_equally_often_and_batches_are_full():
    order = RowOrder(seed=0, rows=10, steps=5, batch=4)
    seen = torch.cat([order[step] for step in range(5)])
    assert torch.equal(torch.bincount(seen, minlength=10), torch.full((10,), 2))


def test_held_out_rows_are_never_trained_on_and_the_same_for_all():
    rows = (torch.arange(50), torch.arange(50))
    train, held_out = split(rows)
    assert len(held_out[0]) == 10
    assert sorted([*train[0].tolist(), *held_out[0].tolist()]) == list(range(50))
    assert torch.equal(split(rows)[1][0], held_out[0])


def test_the_text_is_the_same_in_every_python():
    text = "\n".join(language.names())
    known = "6567aa10d28e69f4ab1cdec6560b9eb96f17e201d25a70a1268094306f69346d"
    assert hashlib.sha256(text.encode()).hexdigest() == known


def test_one_vs_rest_is_a_binary_loss_per_class():
    scores = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    by_hand = sum(
        torch.nn.functional.softplus(-score if right else score)
        for score, right in ((scores[0, 0], True), (scores[0, 1], False), (scores[1, 0], False), (scores[1, 1], True))
    )
    assert float(convex.one_vs_rest(scores, torch.tensor([0, 1]))) == pytest.approx(float(by_hand) / 2)


def test_stand_ins_only_where_no_set_is_at_hand(tmp_path):
    names = {entry.name for entry in problems_at_hand()}
    assert {"iris-16", "digits-128", "mlp", "breast_cancer-16"} <= names
    assert not names & {"glass-16", "protein-16"}
    (tmp_path / "glass.scale").write_text("1 1:1\n2 1:2\n")
    names = {entry.name for entry in problems_at_hand(tmp_path)}
    assert {"glass-16", "glass-128"} <= names
    assert not names & {"iris-16", "vowel-16"}


def test_a_cosine_ends_at_a_rate_of_zero():
    training = Single(BUNDLED[0].make(0, steps=STEPS), replace(entry_of("sgd"), cosine=True), {"lr": 0.1}, 0, STEPS)
    for number in range(training.rounds):
        training.advance(number)
    assert training.optimizer.param_groups[0]["lr"] == pytest.approx(0, abs=1e-9)


def test_divergence_is_counted():
    outcome = evaluate(PROBLEMS["factorisation"].problem, "sgd", lr=1e4)
    assert outcome.diverged
    assert len(outcome.curve) <= 40
    assert has_diverged(10.1, 1.0)
    assert not has_diverged(9.9, 1.0)


def test_the_average_is_the_one_of_dog():
    dog = pytest.importorskip("dog")
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    theirs, ours = dog.PolynomialDecayAverager(model), Average(list(model.parameters()))
    for _ in range(20):
        with torch.no_grad():
            model.weight.add_(torch.randn_like(model.weight))
        theirs.step()
        ours.update()
    last = model.weight.detach().clone()
    with ours.averaged():
        torch.testing.assert_close(model.weight, theirs.averaged_model.weight)
        assert not torch.equal(model.weight, last)
    assert torch.equal(model.weight, last)


def test_ours_is_measured_at_its_own_average():
    task = PROBLEMS["mlp"].problem.make(0, steps=STEPS)
    optimizer = entry_of(OURS.optimizer).build(task.parameters)
    for step in range(STEPS):
        optimizer.zero_grad()
        task.loss_on(step).backward()
        optimizer.step()
    with optimizer.averaged():
        expected = task.full_train_loss()
    outcome = evaluate(PROBLEMS["mlp"].problem, OURS.optimizer)
    assert outcome.averaged_train == pytest.approx(expected, rel=1e-4)
    assert outcome.averaged_train != outcome.train
    assert outcome.gamma > 1e-5


def test_one_problem_has_more_than_a_million_parameters():
    assert sum(parameter.numel() for parameter in fresh.words.make(0).parameters) > 1_000_000


def test_a_damaged_archive_is_refused(tmp_path):
    (tmp_path / archive.WHEEL).write_bytes(b"no wheel")
    with pytest.raises(UserError, match="cannot be used: its sha256"):
        archive.table("ring", tmp_path)
