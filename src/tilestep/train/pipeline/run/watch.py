"""Looks at tasks' results before an update uses them, and names the task that went wrong."""

from collections.abc import Sequence
from typing import Any, Final, final

from tilestep.errors import NotFiniteError
from tilestep.train.gradients.accumulation import path_name as _path
from tilestep.train.jaxprs import is_real
from tilestep.train.patience import Aloud
from tilestep.train.pipeline.compile.stage import Stage, calls_python
from tilestep.train.pipeline.compile.tracing import WrittenStage
from tilestep.train.pipeline.run.processes import Flushed, Processes
from tilestep.train.schedules.schedule import Kind, Task
from tilestep.train.schedules.tasks import OF_PARAMETERS
from tilestep.train.untyped import jax as _jax

_MOST_NAMED: Final = 3  # parameters


@final
class Watch:
    """The results of tasks, which it looks at before an update uses them.

    Args:
        nans: whether all numbers must be finite.
        training: whether there are gradients.
        processes: those in which the stages are, if they are several.
        flushes: whether a run that has failed does its tasks once more, because other processes expect its arrays.
    """

    def __init__(
        self,
        functions: Sequence[WrittenStage],
        stages: Sequence[Stage],
        *,
        nans: bool,
        training: bool,
        processes: Processes | None = None,
        flushes: bool = False,
    ) -> None:
        self._flushes = flushes
        self._functions, self._stages, self._nans, self._processes = functions, stages, nans, processes
        # What a program calls in Python may raise when the host is far ahead.
        self.is_needed = not flushes and (nans or any(calls_python(stage, training=training) for stage in stages))
        self._made: list[tuple[int, Task, Any]] = []
        self._seen = 0  # tasks
        self._wrong = 0  # which of them it was

    def note(self, task: Task) -> str:
        """For an exception."""
        where = "" if task.microbatch is None or task.kind in OF_PARAMETERS else f" of microbatch {task.microbatch}"
        return self._functions[task.stage].note(task.stage, f"{task.kind.meaning}{where}")

    def see(self, task: Task, outputs: Sequence[Any], accumulators: Sequence[Any]) -> None:
        """A task has been started. Args: outputs: None for one that is hidden."""
        self._seen += 1
        if not self._stages[task.stage].placement.is_local:
            return
        real = [leaf for leaf in (*outputs, *accumulators) if leaf is not None and is_real(leaf)]
        self._made.append((self._seen, task, _finite(real if self._nans else real[:1])))  # the accumulators themselves are given up

    def look(self) -> None:
        """Waits for all that was made. With several processes all of them do, so that none updates what another one does not.

        Raises: what a program has raised, with a note; NotFiniteError; ProcessFailedError.
        """
        processes = self._processes
        if processes is None or processes.commits_last:
            self._look()
            return
        if self._flushes:
            if not processes.is_committed:  # the others stop here
                raise Flushed
            return
        processes.commit()
        if self.is_needed:
            processes.looked(self._look, lambda: self._wrong)

    def _look(self) -> None:
        made, self._made = self._made, []
        for self._wrong, task, values in made:
            try:
                with Aloud(lambda task=task: f"what a pipeline's program makes: {self.note(task).removeprefix('raised by ')}"):
                    _jax.block_until_ready(values)
            except Exception as error:
                error.add_note(self.note(task))
                raise
            if self._nans:
                wrong = [index for index, is_finite in enumerate(values) if not is_finite.all()]
                if wrong:
                    error = self._error(task, wrong[0])
                    error.add_note(self.note(task))
                    raise error

    def _error(self, task: Task, index: int) -> NotFiniteError:
        stage = self._stages[task.stage]
        names = []
        if task.kind is Kind.FORWARD:
            names = [f"output {_path(path)}" for path, leaf in _jax.tree_util.tree_flatten_with_path(stage.outputs)[0] if is_real(leaf)]
        names += [f"gradient of {_path(path)}" for path, leaf in _jax.tree_util.tree_flatten_with_path(stage.params)[0] if is_real(leaf)]
        assert task.microbatch is not None  # updates are not looked at
        return NotFiniteError(stage=task.stage, name=self._functions[task.stage].name, microbatch=task.microbatch, path=names[index])


@_jax.jit
def _finite(leaves: Sequence[Any]) -> list[Any]:
    return [_jax.numpy.isfinite(leaf) if not leaf.ndim else _jax.numpy.isfinite(leaf).all() for leaf in leaves]
