"""Completeness: every HLO opcode belongs to someone."""

from __future__ import annotations

import importlib
import pkgutil

import jaxlib.cpu

from tilestep.cost import COLLECTIVES, CONTROL_FLOW, ELEMENTWISE, ESTIMATORS, FREE, HOST_TRANSFERS, PLANNED

# What the HLO text parser of jaxlib 0.10.2 and 0.12 takes as an opcode.
_TEXT = """
abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start all-reduce all-reduce-done
all-reduce-start all-to-all and asin asinh async-done async-start async-update atan2 atanh batch-norm-grad
batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast call cbrt ceil cholesky clamp
collective-broadcast collective-permute collective-permute-done collective-permute-start compare complex concatenate
conditional constant convert convolution copy copy-done copy-start cosh cosine count-leading-zeros custom-call divide
domain dot dynamic-reshape dynamic-slice dynamic-update-slice erf exp2 exponential exponential-minus-one fft floor
fusion gather get-dimension-size get-tuple-element imag infeed iota is-finite log log-plus-one log2 logistic map
maximum minimum mulhi multiply negate not opt-barrier or outfeed pad parameter partition-id popcnt power
ragged-all-to-all ragged-dot real recv recv-done reduce reduce-precision reduce-scatter reduce-window remainder
replica-id reshape reverse rng rng-bit-generator rng-get-and-update-state round-nearest-afz round-nearest-even rsqrt
scaled-dot scan scatter select select-and-scatter send send-done set-dimension-size shift-left
shift-right-arithmetic shift-right-logical sign sine sinh slice sort sqrt stochastic-convert subtract tan tanh topk
transpose triangular-solve tuple while xor
"""
HLO_OPCODES = frozenset(_TEXT.split())
# What the clean-up of XLA:CPU's expansions puts back, which HLO has no opcode for.
RESTORED = frozenset({"erfc", "erf-inv"})


def test_every_hlo_opcode_is_priced_free_planned_or_structure() -> None:
    parts = [frozenset(ESTIMATORS), FREE, PLANNED, CONTROL_FLOW, COLLECTIVES, HOST_TRANSFERS]
    known = {opcode for part in parts for opcode in part if not opcode.startswith("custom-call:")}
    assert known == HLO_OPCODES | RESTORED


def test_no_opcode_belongs_to_two() -> None:
    parts = [frozenset(ESTIMATORS), FREE, PLANNED, CONTROL_FLOW, COLLECTIVES, HOST_TRANSFERS]
    assert sum(map(len, parts)) == len(frozenset().union(*parts))
    assert frozenset(ESTIMATORS) >= ELEMENTWISE


def test_every_custom_call_that_jaxlib_registers_on_the_cpu_is_priced_or_free() -> None:
    modules = [importlib.import_module(f"jaxlib.cpu.{found.name}") for found in pkgutil.iter_modules(jaxlib.cpu.__path__)]
    targets = {name for module in modules for name in module.registrations()}
    assert len(targets) > 50
    assert sorted(name for name in targets if f"custom-call:{name}" not in ESTIMATORS.keys() | FREE) == []
