"""What version 0.1 saved is gone on with; AutoGradaGrad's rule is another one now, and its state is refused by name."""

import importlib.util
from pathlib import Path

import pytest
import torch

from gradagrad import AutoGradaGrad, GradaGrad

HERE = Path(__file__).parent
SAVED = torch.load(HERE / "data" / "checkpoints_0_1.pt", weights_only=True)
_spec = importlib.util.spec_from_file_location("maker", HERE.parent / "tools" / "make_old_checkpoints.py")
assert _spec is not None
assert _spec.loader is not None
maker = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(maker)


@pytest.mark.parametrize("fused", [False, None])
@pytest.mark.parametrize("name", [name for name in SAVED if name != "auto"])
def test_a_run_goes_on_as_version_0_1_would_have(name, fused):
    _, options, sparse = maker.CASES[name]
    params = maker.start()
    with torch.no_grad():
        for p, value in zip(params, SAVED[name]["before"], strict=True):
            p.copy_(value)
    optimizer = GradaGrad(params, fused=fused, **options)
    optimizer.load_state_dict(SAVED[name]["saved"])
    assert all(optimizer.state[p]["step"].dtype == torch.int64 for p in params)
    maker.advance(optimizer, 6, 4, sparse=sparse)
    # bf16 state draws other random bits where a field's word has changed; none of GradaGrad's has.
    torch.testing.assert_close([p.detach() for p in params], SAVED[name]["after"], rtol=1e-12, atol=1e-14)


def test_auto_is_refused_by_version():
    optimizer = AutoGradaGrad(maker.start())
    with pytest.raises(ValueError, match=r"AutoGradaGrad 0\.1, whose rule was another one"):
        optimizer.load_state_dict(SAVED["auto"]["saved"])
    assert not optimizer.state
