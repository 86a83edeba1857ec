"""Traces of a program in wall time: tracepoints, series and heat maps of its own, and what JAX does on the host's threads.

A process is traced if the variable PVTI_OPTIONS is set when tilestep is imported. Else everything here does nothing. `tracepoint`, `event`,
`series` and `heat_map` are in `tilestep`, too.
"""

from tilestep.tracing.channels import Channel as Channel
from tilestep.tracing.channels import create_channel as create_channel
from tilestep.tracing.channels import disable_channel as disable_channel
from tilestep.tracing.channels import enable_channel as enable_channel
from tilestep.tracing.channels import is_channel_enabled as is_channel_enabled
from tilestep.tracing.channels import list_channels as list_channels
from tilestep.tracing.instrument import trace_calls as trace_calls
from tilestep.tracing.process import close as close
from tilestep.tracing.process import current_file as current_file
from tilestep.tracing.series import HeatMap as HeatMap
from tilestep.tracing.series import Series as Series
from tilestep.tracing.series import heat_map as heat_map
from tilestep.tracing.series import series as series
from tilestep.tracing.tracepoints import event as event
from tilestep.tracing.tracepoints import tracepoint as tracepoint
