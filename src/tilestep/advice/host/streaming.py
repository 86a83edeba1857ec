"""Advice on arguments that come with each call, such as batches, and on feeds of loops: they may come meanwhile, or be smaller."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tilestep.advice.evidence import Evidence
from tilestep.advice.finding import Finding, FindingKind, Line
from tilestep.advice.host.donation import may_be_alike, never_new
from tilestep.advice.phrases import one_or
from tilestep.advice.proposal import Proposal, Way
from tilestep.advice.user_code.jits import jit_of, made_at
from tilestep.figures.quantities import bytes_text, names_text, share_text
from tilestep.figures.records import Figures, Origin, ProgramProfile
from tilestep.plan.steps import Argument, Program
from tilestep.recording.edits.programs import on_fewer_tiles
from tilestep.recording.edits.relocate import LOOP_STEPS, merged
from tilestep.recording.edits.script import Change, with_changed
from tilestep.recording.source_lines import source_text

IO_TILES: Final = 32  # as in Graphcore's examples
_LOOPS: Final = frozenset({"repeat", "Loop", "training_loop"})
_OF_LOOP: Final = re.compile("^jit_(?:repeat|while_loop)_")  # a program of a loop, whose arguments are those of its body
_ELEMENT: Final = re.compile(r"^elements(?:\[(?:(\d+)|'(\w+)')\])?(.*)$")  # an argument of the body, or a part of one
_STAGE: Final = re.compile(r"jit_stage_(\d+)_")
_STAGE_INPUT: Final = re.compile(r"^args\[\d\]\[(\d+)\]$")
_SMALL: Final = 100  # times smaller than the largest: half of its bytes is nothing, as of a rate
_LEAST_LINK_SHARE: Final = 0.05  # share of emulated time, latency aside, which smaller arrays do not save


def streaming(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The user's program whose fresh arguments take the host link for longest."""
    if evidence is None:
        return
    found = longest_streaming(figures, evidence, "user")
    if found is None:
        return
    profile, size, share = found
    label, fresh = figures.label(profile.key), fresh_arguments(profile, evidence.programs[profile.key], evidence)
    called = _called_bytes(profile)
    callbacks = f", {bytes_text(called)} of them by callbacks" if called else ""
    text = (
        f"{label} waits for {_names(fresh)}, which {one_or(fresh, 'comes', 'come')} with each call ({bytes_text(size)}{callbacks}, {share} "
        "of emulated time)."
    )
    unknown = [argument for argument in fresh if may_be_alike(evidence, profile.key, argument.index)]
    if unknown:
        text += f" If {_names(unknown)} {one_or(unknown, 'has', 'have')} the same values each time, put {one_or(unknown, 'it', 'them')} on "
        text += "the IPU once (jax.device_put)."
    jit = jit_of(evidence.programs[profile.key])
    it = one_or(fresh, "it comes", "they come")
    where = f"jit {label} with compiler_options={{'ipu_num_io_tiles': {IO_TILES}}}, so that {it} while it computes"
    loop = Way(
        edit=f"loop over the batches of {label} on the IPU (lax.scan)",
        change=merged([profile.key], at_most=LOOP_STEPS),
        how="about",
        basis=f"played as one program of up to {LOOP_STEPS} steps",
        line=jit.line,
    )
    yield _proposal("streaming", text, evidence, profile, fresh, (where, jit.line), loop)


def feeds(figures: Figures, evidence: Evidence | None) -> Iterator[Proposal]:
    """The loop that stops for its feeds for longest."""
    if evidence is None:
        return
    found = longest_streaming(figures, evidence, "group")
    if found is None:
        return
    profile, size, share = found
    label, fresh = figures.label(profile.key), fresh_arguments(profile, evidence.programs[profile.key], evidence)
    text = (
        f"{label} stops for its feeds ({bytes_text(size)} a run, {share} of emulated time). Beside I/O tiles they come and go while it "
        "computes."
    )
    where = f"give {label} plan_options={{'num_io_tiles': {IO_TILES}}}"
    made = made_at(evidence.programs[profile.key], _LOOPS)
    yield _proposal("feeds", text, evidence, profile, fresh, (where, made))


def longest_streaming(figures: Figures, evidence: Evidence, origin: Origin) -> tuple[ProgramProfile, int, str] | None:
    """The program of an origin that moves most fresh bytes; the bytes of a run; the share of time that takes, if it matters."""
    known = [p for p in figures.programs if p.origin == origin and p.key in evidence.programs and p.runs]
    if origin == "user":  # bytes of callbacks come neither before a call nor beside I/O tiles
        known = [p for p in known if fresh_arguments(p, evidence.programs[p.key], evidence)]
    moved = {p.key: _moved_bytes(p, evidence.programs[p.key], evidence) for p in known}
    profile = max(known, key=lambda p: p.runs * moved[p.key], default=None)
    if profile is None:
        return None
    cycles = profile.runs * evidence.machine.host_cycles(to_ipus=moved[profile.key])
    if cycles < _LEAST_LINK_SHARE * figures.rest_cycles:
        return None
    return profile, moved[profile.key], share_text(cycles, figures.emulated_cycles)


def _proposal(
    kind: FindingKind,
    text: str,
    evidence: Evidence,
    profile: ProgramProfile,
    fresh: Sequence[Argument],
    io_tiles: tuple[str, Line | None],
    *others: Way,
) -> Proposal:
    program, num_tiles = evidence.programs[profile.key], evidence.machine.ipu.num_tiles
    ways: list[Way] = []
    if not program.num_io_tiles:
        change = with_changed([profile.key], lambda program: on_fewer_tiles(program, IO_TILES, num_tiles))
        edit, line = io_tiles
        basis = "the other tiles computing as much longer as they are fewer"
        ways.append(Way(edit=edit, change=change, how="about", basis=basis, line=line))
    least = max((argument.size_bytes for argument in fresh), default=0) // _SMALL
    wide = [argument for argument in fresh if argument.shape.startswith("f32") and argument.size_bytes > least]
    if wide:
        names = [argument.name for argument in _by_size(wide)]
        names = names if profile.origin == "user" else written_names(program, names)
        edit = f"send {names_text(names, most=3)} as float16 or 8-bit numbers"
        change = halved_arguments(profile.key, [argument.index for argument in wide])
        ways.append(Way(edit=edit, change=change, how="about", basis="with half of the bytes"))
    return Proposal(
        finding=Finding(kind=kind, text=text, line=evidence.line_of_call(profile.key)), ways=(*ways, *others), only_with_gain=True
    )


def written_names(program: Program, names: Sequence[str], text_of: Callable[[str], str | None] = source_text) -> list[str]:
    """What the user calls arguments of a program: 'image' for 'elements[0]' of a loop over `step(state, image, label)`.

    Args: text_of: gives the text of a file; None: unknown.
    """
    if stage := _STAGE.match(program.name):
        return [_STAGE_INPUT.sub(rf"input \1 of stage {stage[1]}", name) for name in names]
    body = _OF_LOOP.sub("jit_", program.name)
    if body == program.name:
        return list(names)
    own = jit_of(replace(program, name=body), text_of).positional[1:]  # behind the carry
    count = 1 + max((int(found[1] or 0) for each in program.arguments if (found := _ELEMENT.match(each.name))), default=0)

    def written(item: re.Match[str]) -> str:
        if item[2] is not None or len(own) == count:
            return (item[2] or own[int(item[1] or 0)]) + item[3]
        return f"{f'item {item[1]}{item[3]} of ' if item[1] else ''}the dataset's elements"

    return [_ELEMENT.sub(written, name) for name in names]


def _names(arguments: Sequence[Argument]) -> str:
    return names_text([f"{argument.name} {argument.shape}" for argument in _by_size(arguments)], most=3)


def _by_size(arguments: Sequence[Argument]) -> list[Argument]:
    return sorted(arguments, key=lambda argument: -argument.size_bytes)


def fresh_arguments(profile: ProgramProfile, program: Program, evidence: Evidence) -> list[Argument]:
    """Arguments that stream in and are neither states of a program nor the same at each call, nor mostly made by a program."""
    again = {argument.index for argument in profile.streamed_again}
    if profile.origin == "user":
        handed = Counter(each.index for each in evidence.handed_over.get(profile.key, ()))
        again |= never_new(evidence, profile) | {index for index, count in handed.items() if 2 * count >= profile.runs}
    return [a for a in program.arguments if a.result is None and not a.on_host and a.index not in again]


def _moved_bytes(profile: ProgramProfile, program: Program, evidence: Evidence) -> int:
    """Of fresh arguments and of infeeds, in one run on one IPU, as far as they stream in."""
    fresh = sum(argument.size_bytes for argument in fresh_arguments(profile, program, evidence))
    return min(fresh, profile.host_bytes_in // max(profile.num_ipus, 1)) + _called_bytes(profile)


def _called_bytes(profile: ProgramProfile) -> int:
    """What callbacks and infeeds bring, in one run on one IPU."""
    return profile.call_bytes_in // max(profile.runs * profile.num_ipus, 1)


def halved_arguments(key: int, arguments: Sequence[int]) -> Change:
    def smaller(program: Program) -> Program:
        taken = tuple(replace(a, size_bytes=a.size_bytes // 2) if a.index in arguments else a for a in program.arguments)
        return replace(program, arguments=taken)

    return with_changed([key], smaller)
