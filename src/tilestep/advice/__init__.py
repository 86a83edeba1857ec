"""Advice on a profile: what to do first, where, and what it saves. Each topic is a file of rules, which are pure functions."""

from tilestep.advice.finding import Finding as Finding
from tilestep.advice.finding import Gain as Gain
from tilestep.advice.finding import Line as Line
from tilestep.advice.finding import Other as Other
from tilestep.advice.finding import Together as Together
from tilestep.advice.host.set_up import Steady as Steady
from tilestep.advice.host.set_up import steady_state as steady_state
from tilestep.advice.memory.full_tiles import NEARLY_FULL as NEARLY_FULL
from tilestep.advice.ranking import Advice as Advice
from tilestep.advice.rules import advice as advice
from tilestep.advice.rules import evidence_of as evidence_of
from tilestep.advice.rules import findings as findings
