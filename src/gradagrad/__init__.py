"""GradaGrad: AdaGrad whose learning rate can also rise. The reference implementation for PyTorch."""

from gradagrad import projections as projections
from gradagrad.adagrad import from_adagrad as from_adagrad
from gradagrad.auto import AutoDiagnostics as AutoDiagnostics
from gradagrad.auto import AutoGradaGrad as AutoGradaGrad
from gradagrad.diagnostics import GroupDiagnostics as GroupDiagnostics
from gradagrad.first_step import LargeFirstStepWarning as LargeFirstStepWarning
from gradagrad.kernel import KernelMissingWarning as KernelMissingWarning
from gradagrad.kernel import kernel_status as kernel_status
from gradagrad.optimizer import GradaGrad as GradaGrad
from gradagrad.plots import plot_learning_rates as plot_learning_rates
from gradagrad.recording import History as History
from gradagrad.recording import learning_rates as learning_rates
from gradagrad.recording import log_learning_rates as log_learning_rates

__version__ = "0.1.0"
