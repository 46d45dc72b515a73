"""GradaGrad: AdaGrad whose learning rate can also rise. For PyTorch, JAX and scikit-learn.

Names are loaded on first use, so that `gradagrad.optax` needs no torch and the torch classes need no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0"
__all__ = [
    "AutoGradaGrad",
    "AutoGradaGradScheduleFree",
    "GradaGrad",
    "GroupDiagnostics",
    "History",
    "KernelMissingWarning",
    "LargeFirstStepWarning",
    "from_adagrad",
    "kernel_status",
    "learning_rates",
    "log_learning_rates",
    "projections",
    "step_in_backward",
]

if TYPE_CHECKING:
    from gradagrad import projections
    from gradagrad.auto import AutoGradaGrad, AutoGradaGradScheduleFree
    from gradagrad.from_adagrad import from_adagrad
    from gradagrad.gradagrad import GradaGrad
    from gradagrad.in_backward import step_in_backward
    from gradagrad.kernel.load import KernelMissingWarning, kernel_status
    from gradagrad.monitoring.diagnostics import GroupDiagnostics
    from gradagrad.monitoring.first_step import LargeFirstStepWarning
    from gradagrad.monitoring.recording import History, learning_rates, log_learning_rates
else:
    # Only at run time: a type checker that saw __getattr__ would accept every misspelt name.
    _HOMES = {
        "AutoGradaGrad": "auto",
        "AutoGradaGradScheduleFree": "auto",
        "GradaGrad": "gradagrad",
        "GroupDiagnostics": "monitoring.diagnostics",
        "History": "monitoring.recording",
        "KernelMissingWarning": "kernel.load",
        "LargeFirstStepWarning": "monitoring.first_step",
        "from_adagrad": "from_adagrad",
        "kernel_status": "kernel.load",
        "learning_rates": "monitoring.recording",
        "log_learning_rates": "monitoring.recording",
        "step_in_backward": "in_backward",
    }

    def __getattr__(name: str) -> Any:
        if name == "projections":
            return import_module("gradagrad.projections")
        if name not in _HOMES:
            raise AttributeError(f"module 'gradagrad' has no attribute {name!r}")
        value = getattr(import_module(f"gradagrad.{_HOMES[name]}"), name)
        globals()[name] = value  # Later look-ups do not come here.
        return value

    def __dir__() -> list[str]:
        return sorted(__all__)
