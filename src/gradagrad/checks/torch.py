"""Checks of what only the torch classes take: a tensor as lr, torch's dtypes, and torch's ways of stepping."""

import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from gradagrad import sharding
from gradagrad.checks.arguments import Number, Table, check_number, check_projection, error_text
from gradagrad.checks.arguments import checked as checked_anywhere
from gradagrad.rules.scope import Scope

_PROJECTIONS = "gradagrad.projections has Box and NonNegative."


def checked(table: Table, group: Mapping[str, Any], others: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """As `gradagrad.checks.arguments.checked`, and what only the torch classes take."""
    result = checked_anywhere(table, group, others, number=check_number_or_lr)
    result["state_dtype"] = dtype_named(group["state_dtype"])
    check_ways(result)
    check_projection(group.get("projection"), _PROJECTIONS)
    return result


def dtype_named(name: Any) -> Any:
    """The dtype of a name, because command lines and state dicts have no dtypes; anything else as it is."""
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(str(name).removeprefix("torch."), name)


def check_number_or_lr(name: str, value: Any, wanted: Number) -> Any:
    """The value as a float, or a tensor lr as it is; raises if it breaks the rule."""
    if name != "lr":
        return check_number(name, value, wanted)
    wanted = replace(wanted, rule=f"{wanted.rule} (or a tensor with one element)")
    if not isinstance(value, Tensor):
        return check_number(name, value, wanted)
    if value.is_complex() or value.dtype == torch.bool or value.is_meta or value.layout != torch.strided:
        raise TypeError(error_text(name, wanted.rule, value, "Pass a real tensor, dense and with a value, or a float."))
    if value.numel() != 1:
        raise ValueError(error_text(name, wanted.rule, value, "A Tensor lr must be 1-element; pass a 0-d one."))
    if not torch.compiler.is_compiling():
        check_number(name, float(value.detach()), wanted)
    return value


def check_ways(group: Mapping[str, Any]) -> None:
    """Raises unless the options for stepping and for storing state fit together."""
    for name, remedy in (
        ("foreach", "None lets torch's rule decide."),
        ("fused", "None uses the compiled kernel wherever it can."),
    ):
        if not (group[name] is None or isinstance(group[name], bool)):
            raise TypeError(error_text(name, "None, True or False", group[name], remedy))
    if not isinstance(group["state_dtype"], torch.dtype) or group["state_dtype"] not in (torch.float32, torch.bfloat16):
        remedy = "float32 means the precision of the computation: float64 for float64 parameters."
        raise ValueError(error_text("state_dtype", "torch.float32 or torch.bfloat16", group["state_dtype"], remedy))
    for name, others in (("fused", ("foreach", "differentiable")), ("foreach", ("differentiable",))):
        for other in others:
            if group[name] and group[other]:
                rule = f"None or False with {other}=True"
                raise ValueError(error_text(name, rule, True, "These are different ways to step; choose one."))
    rounds = group["state_dtype"] == torch.bfloat16 or group.get("stochastic_rounding", False)
    if group["differentiable"] and rounds:
        remedy = "Rounding has no derivative: use state_dtype=torch.float32 and stochastic_rounding=False."
        raise ValueError(error_text("differentiable", "False if numbers are rounded", True, remedy))


def refuse_unfit_parameters(params: Sequence[Tensor], scope: Scope) -> None:
    """Raises for parameters that have no gradients, or whose shared numbers would differ between ranks."""
    for parameter in params:
        if not (parameter.is_floating_point() or parameter.is_complex()):
            remedy = "Only floating point and complex parameters have gradients; leave this one out."
            raise TypeError(
                error_text("params", "tensors of floating point or complex numbers", parameter.dtype, remedy)
            )
        if scope != "element" and getattr(parameter, "_fsdp_flattened", False):
            raise ValueError(
                f'parameters of FullyShardedDataParallel (FSDP1) cannot share step sizes, got "{scope}": each rank '
                "would decide from the pieces that it holds. Shard with torch.distributed.fsdp.fully_shard (FSDP2), or "
                'use GradaGrad with granularity="element".'
            )
        if reason := sharding.unfit_table(parameter, scope):
            raise ValueError(reason)


_stepped_in_backward: weakref.WeakSet[Optimizer] = weakref.WeakSet()


def warn_of_misuse(optimizer: Optimizer) -> None:
    """Warns before the first step of settings that are certain to disappoint."""
    _warn_of_one_each(optimizer)
    groups = optimizer.param_groups
    # Schedulers add initial_lr, and may begin a warm-up at 0.
    if "rho" not in groups[0] and all(
        isinstance(g["lr"], float) and g["lr"] == 0.0 and not g.get("initial_lr") for g in groups
    ):
        warnings.warn(
            "lr is 0 in every param group, so this step moves nothing. lr counts relative to the largest lr so far: "
            "leave it at 1. AutoGradaGrad needs no warm-up.",
            stacklevel=6,
        )


def _warn_of_one_each(optimizer: Optimizer) -> None:
    """Warns where one optimizer per parameter steps inside the backward pass, though the parameters should share.

    The hook on such a parameter distinguishes this from a model that has only one parameter.
    """
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if len(params) > 1:
        return
    hooks = getattr(params[0], "_post_accumulate_grad_hooks", None) or getattr(params[0], "_in_backward_optimizers", ())
    if not hooks:
        return
    _stepped_in_backward.add(optimizer)
    if len(_stepped_in_backward) > 1:
        warnings.warn(
            "each parameter has its own optimizer, so parameters that should share a step size no longer do. Give all "
            "parameters to one optimizer and step it after backward or with gradagrad.step_in_backward, or use "
            'GradaGrad with granularity="element", "row" or "tensor".',
            stacklevel=7,
        )


def refuse_foreign_settings(group: Mapping[str, Any], defaults: Mapping[str, Any], momentum: float) -> None:
    """Raises where a wrapper or scheduler has overwritten one of our settings with its own of the same name."""
    if "adaptive" in group and "rho" in defaults:
        raise RuntimeError(
            f"SAM has overwritten GradaGrad's rho: the param group has rho = {group['rho']}, which is SAM's radius. "
            "Let SAM wrap an optimizer that has no argument rho, such as AutoGradaGrad."
        )
    if group["momentum"] != momentum and (momentum == 0.0 or "rho" not in defaults):
        remedy = ", or the optimizer with a momentum" if "rho" in defaults else ""
        raise RuntimeError(
            f"momentum was changed from {momentum} to {group['momentum']}, as OneCycleLR, CyclicLR and fastai's "
            f"fit_one_cycle do; construct the scheduler with cycle_momentum=False{remedy}."
        )
