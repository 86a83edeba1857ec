"""Optimizers: how weights change by their gradients, exact to PopART's formulas."""

from tilestep.popart.optimizers.adam import Adam as Adam
from tilestep.popart.optimizers.adaptive import Adaptive as Adaptive
from tilestep.popart.optimizers.clipping import ClipNormSettings as ClipNormSettings
from tilestep.popart.optimizers.loss_scaling import AutomaticLossScaling as AutomaticLossScaling
from tilestep.popart.optimizers.loss_scaling import ForwardNode as ForwardNode
from tilestep.popart.optimizers.loss_scaling import tracked_tensors as tracked_tensors
from tilestep.popart.optimizers.optimizer import Optimizer as Optimizer
from tilestep.popart.optimizers.optimizer import RuleOf as RuleOf
from tilestep.popart.optimizers.optimizer import UpdateRule as UpdateRule
from tilestep.popart.optimizers.optimizer import last_key as last_key
from tilestep.popart.optimizers.optimizer import update_transformation as update_transformation
from tilestep.popart.optimizers.sgd import SGD as SGD
from tilestep.popart.optimizers.sgd import ConstSGD as ConstSGD
from tilestep.popart.optimizers.values import OptimizerValue as OptimizerValue
from tilestep.popart.optimizers.values import OptimizerValueMap as OptimizerValueMap
from tilestep.popart.optimizers.weight_rule import OptimizerState as OptimizerState
from tilestep.popart.optimizers.weight_rule import UpdateContext as UpdateContext
