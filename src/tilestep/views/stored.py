"""The profile of a recording, read back: what its summary says is what the run's own summary said."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from tilestep import typed_json
from tilestep.advice import Finding, Gain, Line, Other, Together
from tilestep.errors import RecordingError, StoredError
from tilestep.figures.reader import Report
from tilestep.units import seconds_from_cycles
from tilestep.views.profile import Profile

FIGURES: Final = (  # evidence for advice, which has been given, is not in the document
    *("machine", "emulated_cycles", "programs", "groups", "reshaped", "batches", "supersteps", "busiest_ipu", "num_ipus_used"),
    *("cycles_by_kind", "io_tiles_cycles", "dispatches", "dispatch_cycles", "assumptions", "refused", "interval", "ended_by"),
)


def stored_profile(report: Report) -> Profile | None:
    """The profile of a recording; None if it has none. Raises: RecordingError if it is damaged, or of a newer form."""
    document = report.profile
    if not document.get("schema"):
        return None
    what = f"the profile of {report.where}"
    try:
        found = typed_json.named(document, Profile, what, _forms(document))
    except (StoredError, ArithmeticError) as error:
        raise RecordingError(f"{error}" if isinstance(error, StoredError) else f"{what} is damaged: {error}") from None
    keys = {program.key for program in found.programs}
    if any(step.key not in keys for step in found.supersteps):
        raise RecordingError(f"{what} is damaged: a superstep is of a program that it has not")
    operations = {step["scope"]: str(step.get("operation") or "") for step in document["supersteps"]}

    def operation_of(scope: str) -> str:
        return operations.get(scope, "")

    return replace(found, operation_of=operation_of)


def _forms(document: Mapping[str, Any]) -> typed_json.Forms:
    """How the records of a document differ from their classes: a gain stands in the finding that has it, and seconds are left out."""
    machine: Any = document.get("machine")
    clock: Any = cast("dict[str, Any]", machine).get("clock_hz") if isinstance(machine, dict) else None

    def seconds(cycles: Any) -> float:
        return seconds_from_cycles(cycles, clock) if type(cycles) is int and type(clock) in (int, float) else 0.0

    def profile(found: Mapping[str, Any]) -> Mapping[str, Any]:
        kinds: Any = found.get("cycles_by_kind")
        given = {"findings": found.get("findings", []), "together": found.get("together"), "steady": found.get("steady")}
        figures = {name: found[name] for name in FIGURES if name in found}
        if isinstance(kinds, dict):
            figures["cycles_by_kind"] = {kind: cycles for kind, cycles in cast("dict[str, Any]", kinds).items() if kind != "idle"}
        return {**figures, "given": given}

    def finding(found: Mapping[str, Any]) -> Mapping[str, Any]:
        shares: Any = found.get("lines", [])
        if isinstance(shares, list):
            shares = [
                [each, cast("dict[str, Any]", each).get("share")] if isinstance(each, dict) else each for each in cast("list[Any]", shares)
            ]
        return {**found, "shares": shares, "gain": None if found.get("how") is None else found}

    def gain(found: Mapping[str, Any]) -> Mapping[str, Any]:
        known = {name.removeprefix("gain_"): value for name, value in found.items() if value is not None}
        known["warm_only"] = "step_share" in known and "share" not in known
        return {**known, "seconds": seconds(found.get("gain_cycles")), "step_seconds": seconds(found.get("gain_step_cycles"))}

    return {
        Profile: profile,
        Finding: finding,
        Gain: gain,
        Line: lambda found: {"file": found.get("file"), "number": found.get("line")},
        Other: lambda found: {**found, "gain": found},
        Together: lambda found: {**found, "gain": found},
    }
