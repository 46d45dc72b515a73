"""GradaGrad and AutoGradaGrad for JAX, as Optax gradient transformations. It does not import torch.

    >>> from gradagrad.optax import gradagrad
    >>> optimizer = gradagrad(learning_rate=0.01)

They have the same rules, arguments and messages as the torch classes. Install them with the extra ``jax``.
"""

from gradagrad.optax.auto import AutoGradaGradState, auto_gradagrad, auto_gradagrad_eval_params
from gradagrad.optax.transforms import GradaGradState, gradagrad

__all__ = ["AutoGradaGradState", "GradaGradState", "auto_gradagrad", "auto_gradagrad_eval_params", "gradagrad"]
