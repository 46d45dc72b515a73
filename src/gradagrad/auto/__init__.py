"""AutoGradaGrad: shared growth, our extension of GradaGrad that needs no learning rate."""

from gradagrad.auto.diagnostics import AutoDiagnostics as AutoDiagnostics
from gradagrad.auto.optimizer import AutoGradaGrad as AutoGradaGrad
