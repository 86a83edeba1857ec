"""Optimizers: how weights change by their gradients, exact to PopART's formulas."""

from __future__ import annotations

from tilestep.popart.optimizers.clipping import ClipNormSettings as ClipNormSettings
from tilestep.popart.optimizers.optimizer import Optimizer as Optimizer
from tilestep.popart.optimizers.rule import OptimizerState as OptimizerState
from tilestep.popart.optimizers.rule import UpdateContext as UpdateContext
from tilestep.popart.optimizers.rule import UpdateRule as UpdateRule
from tilestep.popart.optimizers.sgd import SGD as SGD
from tilestep.popart.optimizers.sgd import ConstSGD as ConstSGD
from tilestep.popart.optimizers.values import OptimizerValue as OptimizerValue
from tilestep.popart.optimizers.values import OptimizerValueMap as OptimizerValueMap
