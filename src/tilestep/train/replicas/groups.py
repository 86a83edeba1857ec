"""Groups of successive replicas, and arrays that are divided among the members of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from tilestep.messages import shown
from tilestep.train.numbers import whole_number
from tilestep.train.untyped import jax as _jax

Groups = list[list[int]] | None  # as JAX takes them; None: all replicas are one group


def groups_of(count: int, group_size: int | None) -> tuple[Groups, int]:
    """(the groups of `count` replicas, replicas of a group).

    Raises: TypeError, ValueError if `group_size` is no number of which `count` is a multiple.
    """
    if group_size is None:
        return None, count
    size = whole_number("group_size", group_size, least=1)
    if count % size:
        divisors = [number for number in range(1, count + 1) if count % number == 0]
        raise ValueError(
            f"{count} replicas / group_size {shown(size)} = {count / size:.4g} groups, no whole number: group_size must be one of "
            f"{', '.join(map(str, divisors))}"
        )
    if size == count:
        return None, count
    return [list(range(first, first + size)) for first in range(0, count, size)], size


def part_elements(size: int, members: int) -> int:
    """Elements of each member's part of an array of `size` elements."""
    return -(-size // members)


@final
@dataclass(frozen=True, kw_only=True)
class Division:
    """Among which replicas arrays are divided."""

    axis: str  # for all replicas
    count: int  # for all replicas
    members: int  # members of a group. Each group has the whole array.
    groups: Groups  # groups of successive replicas

    @staticmethod
    def over(axis: str, group_size: int | None = None) -> Division:
        """That of a replica's program, where it is traced. Raises: ValueError if the size does not divide the number of replicas."""
        count = int(_jax.lax.axis_size(axis))
        groups, members = groups_of(count, group_size)
        return Division(axis=axis, count=count, members=members, groups=groups)

    @property
    def alike(self) -> Groups:
        """The replicas that have the same part, one of each group. None: all of them."""
        if self.members == 1:
            return None
        return [list(range(first, self.count, self.members)) for first in range(self.members)]
