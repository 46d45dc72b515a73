"""The common base of our torch optimizers: checked param groups, state from declared fields, steps, state dicts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import is_, itemgetter
from typing import Any, ClassVar, overload

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT, StateDict, _use_grad_for_differentiable

from gradagrad import checkpoint, precision, sharding
from gradagrad.checks.arguments import Table
from gradagrad.checks.torch import checked, refuse_foreign_settings, refuse_unfit_parameters, warn_of_misuse
from gradagrad.engine import step as engine
from gradagrad.engine.batch import Batch
from gradagrad.engine.plan import KeptState, Plan
from gradagrad.engine.state import begin, has_stepped, mark_idle
from gradagrad.monitoring.diagnostics import GroupDiagnostics, describe, show, show_start
from gradagrad.monitoring.first_step import FirstStep, last_is_nan, warn_of_nan
from gradagrad.rules.rule import Rule
from gradagrad.rules.scope import Scope
from gradagrad.torch_ops.ops import wrap_cpu_scalars
from gradagrad.torch_ops.views import catch_up

_LOOKS = 250
"""The search for NaN in parameters comes after 10 steps, and then once in so many, because it reads all of them. Every
25 steps one number is read: a loss of NaN makes nearly all parameters NaN."""


class EngineOptimizer(Optimizer, ABC):
    """A torch optimizer that steps by a rule. A subclass names the rule and turns param groups into its settings."""

    rule: ClassVar[Rule]
    arguments: ClassVar[Table]
    common_settings: ClassVar[tuple[str, ...]] = ()
    """The keys of param groups on which the settings of all groups depend. Replacing one outdates all plans."""
    _has_stepped: bool = False
    """Whether its first step was taken since it was constructed or loaded."""
    _counted: int | None = 0
    """Steps since it was constructed or loaded; None once it has warned of NaN."""
    _cannot_step: str = ""
    """The reason why steps are refused at the moment; empty if they are not."""
    _common: Sequence[Any] = ()
    """The groups' values of the common settings at the last step."""
    _in_backward: Any = None
    """The object that steps parameters inside the backward pass, if there is one."""
    if not hasattr(Optimizer, "_accelerator_graph_capture_health_check"):  # torch 2.10 has it under its older name
        _accelerator_graph_capture_health_check = Optimizer._cuda_graph_capture_health_check

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self._plans: list[Plan] = []
        """Each group's plan since it was constructed, loaded or last stepped."""
        super().__init__(params, checked(self.arguments, defaults))

    def _first_step_may_be_large(self) -> bool:
        """Whether the first step is measured, so that it can warn."""
        return True

    @abstractmethod
    def _settings(self, group: Mapping[str, Any]) -> Any:
        """A param group's settings, as the rule takes them."""

    def _scope(self, group: Mapping[str, Any]) -> Scope:
        return group[self.arguments.scope] if self.arguments.scope else "tensor"

    def _new_plan(self, group: Mapping[str, Any], before: Plan | None = None) -> Plan:
        """How a param group is stepped as it is now."""
        return Plan(
            rule=self.rule,
            settings=self._settings(group),
            scope=self._scope(group),
            coupled_decay=0.0 if group["decoupled_weight_decay"] else group["weight_decay"],
            lr_decay=group.get("lr_decay", 0.0),
            maximize=group["maximize"],
            differentiable=group["differentiable"],
            stochastic_rounding=group["stochastic_rounding"],
            draws=group["stochastic_rounding"] or precision.is_rounded(group["state_dtype"]),
            fused=group["fused"],
            foreach=group["foreach"],
            momentum=group["momentum"] if before is None else before.momentum,
            group=group,  # pyright: ignore[reportArgumentType]
            values=() if torch.compiler.is_compiling() else itemgetter(*self.defaults)(group),
            kept=before.kept if before else KeptState(),
        )

    def _plan(self, place: int) -> Plan:
        """A group's plan. Raises where others overwrote a setting, or where the state does not fit one any more."""
        group, plan = self.param_groups[place], self._plans[place]
        if torch.compiler.is_compiling():
            refuse_foreign_settings(group, self.defaults, plan.momentum)
            return self._new_plan(group, plan)
        values = itemgetter(*self.defaults)(group)
        if not plan.values or not all(map(is_, values, plan.values)):
            refuse_foreign_settings(group, self.defaults, plan.momentum)
            self._refuse_another_scope(group, plan.scope)
            plan = self._plans[place] = self._new_plan(group, plan)
        return plan

    def _refuse_another_scope(self, group: Mapping[str, Any], scope: Scope) -> None:
        if (now := self._scope(group)) != scope:
            if any(has_stepped(self, parameter) for parameter in group["params"]):
                raise RuntimeError(
                    f'granularity was changed from "{scope}" to "{now}" after the first step, but the state belongs to '
                    f'"{scope}". Construct a new optimizer.'
                )
            checked(self.arguments, dict(group), [g for g in self.param_groups if g is not group])

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a param group. Arguments that it does not name are those of the constructor."""
        if isinstance(param_group, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            full = checked(self.arguments, {**self.defaults, **param_group}, self.param_groups)
            param_group = {key: full[key] for key in param_group}
        super().add_param_group(param_group)
        try:
            refuse_unfit_parameters(self.param_groups[-1]["params"], self._scope(self.param_groups[-1]))
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise
        self._plans.append(self._new_plan(self.param_groups[-1]))
        show_start(self._plans[-1])

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Performs one step; ``closure`` may re-evaluate the model and return the loss."""
        self._accelerator_graph_capture_health_check()
        if self._cannot_step:
            raise RuntimeError(self._cannot_step)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._in_backward is not None and self._in_backward.end_step():
            return loss
        found_inf: Tensor | None = getattr(self, "found_inf", None)  # GradScaler sets this, and grad_scale.
        if found_inf is not None and bool(found_inf):
            return loss
        is_first = not (self._has_stepped or torch.compiler.is_compiling()) and not any(
            has_stepped(self, parameter) for parameter in self._parameters()
        )
        self._step_groups(is_first)
        if self._counted is not None and not torch.compiler.is_compiling():
            self._counted += 1
            due = self._counted % 25 == 10 and (self._counted % _LOOKS == 10 or last_is_nan(self))
            if due and warn_of_nan(self):
                self._counted = None
        return loss

    def _step_groups(self, is_first: bool) -> None:
        try:
            for group, plan in zip(self.param_groups, self._plans, strict=True) if is_first else ():
                refuse_foreign_settings(group, self.defaults, plan.momentum)
            batches = self._batches()
            scale: Tensor | None = getattr(self, "grad_scale", None)
            if scale is not None:
                for batch in batches:
                    batch.unscale(scale)
            steps = engine.prepare(batches)
        except BaseException:
            if is_first:
                self.state.clear()  # Settings may change before the next attempt.
            raise
        if not steps:  # There are no gradients, or all are zero.
            return
        if is_first and (self.rule.learns or self._plans[0].is_shared):
            warn_of_misuse(self)
        first = FirstStep.of(steps) if is_first and self._first_step_may_be_large() else None
        engine.run(steps)
        self._has_stepped = True
        for batch in batches:
            if batch.plan.shown and not torch.compiler.is_compiling():
                show(batch.plan, batch.shared, batch.state)
        if first is not None:
            first.check()

    def _batches(self, parts: Sequence[tuple[int, Mapping[str, Any]]] = ()) -> list[Batch]:
        """A batch for each param group that has gradients, or for each of some parts of groups. Makes missing state."""
        if self.common_settings and len(self.param_groups) > 1 and not torch.compiler.is_compiling():
            common = [group[name] for name in self.common_settings for group in self.param_groups]
            kept = len(common) == len(self._common) and all(map(is_, common, self._common))
            if not kept or any(isinstance(a, Tensor) for a in common):  # A tensor's value may change in place.
                self._common = common
                for plan in self._plans:
                    plan.values = ()
        made = [self._batch(place, group) for place, group in parts or enumerate(self.param_groups)]
        batches = [batch for batch in made if batch.params]
        if drawing := [batch for batch in batches if batch.plan.draws]:
            places = {parameter: place for place, parameter in enumerate(self._parameters())}
            for batch in drawing:
                batch.streams = [places[parameter] for parameter in batch.params]
        return batches

    def _batch(self, place: int, group: Mapping[str, Any]) -> Batch:
        """The parameters of a group, or of a part of it, that have a gradient, and their state."""
        plan = self._plan(place)
        params: list[Tensor] = []
        grads: list[Tensor] = []
        rows: list[dict[str, Any]] = []
        if torch.compiler.is_compiling():
            self._init_group(group, params, grads)  # torch.compile cannot pass it the third list.
            rows = [self.state[parameter] for parameter in params]
        else:
            self._init_group(group, params, grads, rows, plan)
        own = {key: [state[key] for state in rows] for key in plan.own_keys}
        shared = {key: rows[0][key] for key in plan.shared_keys} if rows else {}
        return Batch(plan, params, grads, [state["step"] for state in rows], own, shared, rows)

    def _init_group(
        self,
        group: Mapping[str, Any],
        params: list[Tensor],
        grads: list[Tensor],
        states: list[dict[str, Any]] | None = None,
        plan: Plan | None = None,
    ) -> None:
        """Collects the parameters that have a gradient, and their states, and makes missing state.

        torch.compile runs a method of this name instead of tracing it, so making state is not part of the graph. It
        reads the state after the first group's call and does not see what later calls add.
        """
        if plan is None:
            begin(self)
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None:
                mark_idle(self, parameter)
                continue
            state = self.state[parameter]
            if plan is not None and len(state) != plan.entries:
                if not all(field.key in state for field in plan.fields):
                    begin(self)
                if "row_clocks" in state and gradient.layout == torch.strided:
                    catch_up(self._alone(group, parameter), 0)
            params.append(parameter)
            grads.append(gradient)
            if states is not None:
                states.append(state)
        if plan is None:
            wrap_cpu_scalars(self.state.values())

    def _alone(self, group: Mapping[str, Any], parameter: Tensor) -> Batch:
        """A batch of this rank's shard of one parameter with its state and without a gradient."""
        batch, state = Batch(plan := self._new_plan(group)), self.state[parameter]
        batch.params, batch.param_states, batch.steps = [sharding.local(parameter)], [state], [state["step"]]
        batch.shared = {key: state[key] for key in plan.shared_keys if key in state}
        batch.state = {key: [sharding.local(state[key])] for key in plan.own_keys if key in state}
        return batch

    def _catch_up(self) -> None:
        """Brings idle rows up to date, before the state or the average is read."""
        if self._in_backward is not None:
            self._in_backward.refuse_half()
        for group in self.param_groups:
            for parameter in (p for p in group["params"] if "row_clocks" in self.state.get(p, ())):
                catch_up(self._alone(group, parameter), 0)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a pickle or a state dict; missing arguments take this optimizer's defaults."""
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
        self._plans = [self._new_plan(group) for group in self.param_groups]
        for plan in self._plans:
            show_start(plan)
        self._has_stepped = False
        begin(self, lambda _: False)

    @torch._disable_dynamo
    def state_dict(self) -> StateDict:
        """The state as tensors and plain values, loadable with ``weights_only=True``. Projections are not in it."""
        self._catch_up()  # Distributed checkpoints cannot restore the clocks of rows.
        result = super().state_dict()
        for group in result["param_groups"]:
            if "projection" in group:
                group["projection"] = None
            # torch.distributed.checkpoint gathers plain values only.
            group["state_dtype"] = str(group["state_dtype"]).removeprefix("torch.")
        return result

    @torch._disable_dynamo
    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restores a state dict bit for bit, or raises and changes nothing. This optimizer keeps its projections."""
        checkpoint.load(self, state_dict, super().load_state_dict)
        if self._in_backward is not None:
            self._in_backward.abandon()
        begin(self, lambda _: False)

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether GradScaler may leave unscaling and the check for infinities to `step`."""
        return all(group["fused"] is True for group in self.param_groups)

    def _parameters(self) -> Iterator[Tensor]:
        return chain.from_iterable(group["params"] for group in self.param_groups)

    def share_memory(self) -> None:
        """Moves the state to shared memory, for training in several processes (Hogwild), as in Adagrad."""
        begin(self, lambda _: True)
        for state in self.state.values():
            for value in state.values():
                value.share_memory_()

    def diagnostics(self) -> list[GroupDiagnostics]:
        """Returns, for each param group, what its learning rates have become; see `GroupDiagnostics`."""
        return [describe(self, group) for group in self.param_groups]
