"""GradaGrad: AdaGrad whose learning rate can also rise. The reference implementation for PyTorch."""

from gradagrad import projections as projections
from gradagrad.adagrad import from_adagrad as from_adagrad
from gradagrad.diagnostics import GroupDiagnostics as GroupDiagnostics
from gradagrad.first_step import LargeFirstStepWarning as LargeFirstStepWarning
from gradagrad.optimizer import GradaGrad as GradaGrad

__version__ = "0.1.0"
