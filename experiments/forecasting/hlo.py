"""What a program does on a GPU, read from its optimised HLO.

Each instruction that is not free becomes a kernel. The text is that of XLA:
https://openxla.org/xla/operation_semantics says what an operation means.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Iterator

_SIZES = {"pred": 1, "token": 0, "s4": 0.5, "u4": 0.5}
# Operations that launch nothing.
_FREE = frozenset(
    ("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all")
)
_VIEWS = frozenset(("bitcast", "reshape", "get-tuple-element"))


@dataclasses.dataclass(frozen=True)
class Shape:
    """The element type, such as "bf16", and the dimensions of an array."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.dims)

    @functools.cached_property
    def bytes(self) -> int:
        if (known := _SIZES.get(self.dtype)) is None:
            known = int(re.search(r"\d+", self.dtype)[0]) / 8
        return int(self.size * known)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a computation.

    Attributes:
      shapes: of the result, several for a tuple.
      opcode: such as "fusion".
      operands: names of instructions of the same computation.
      rest: the text after the operands.
    """

    name: str
    shapes: tuple[Shape, ...]
    opcode: str
    operands: tuple[str, ...]
    rest: str
    is_root: bool

    @property
    def bytes(self) -> int:
        return sum(shape.bytes for shape in self.shapes)

    @property
    def op_name(self) -> str:
        """The path of the JAX operation that it came from."""
        return self._first(r'op_name="([^"]*)"')

    @property
    def custom_target(self) -> str:
        """The name of the library's function that a custom call calls, or ""."""
        return self._first(r'custom_call_target="([^"]*)"')

    def attribute(self, name: str) -> str:
        """The value of `name=value`, or ""."""
        return self._first(rf"\b{name}=(\{{[^}}]*\}}|%?[\w.\-]+)")

    def integers(self, name: str) -> list[int]:
        """The value of `name={1,2}`."""
        return [int(n) for n in re.findall(r"\d+", self.attribute(name))]

    def _first(self, pattern: str) -> str:
        found = re.search(pattern, self.rest)
        return found[1] if found else ""


Computation = dict[str, Instruction]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One launch.

    Attributes:
      times: how often a call of the program launches it.
      instruction: in the program.
      operands: what it reads.
      body: the instructions inside: those of a fusion, or itself.
    """

    times: int
    instruction: Instruction
    operands: tuple[Instruction, ...]
    body: Computation


def parse(text: str) -> dict[str, Computation]:
    """The computations of a program by name; that of the entry is "ENTRY"."""
    computations: dict[str, Computation] = {}
    current: Computation = {}
    for line in text.splitlines():
        if line.startswith(("%", "ENTRY ")):
            name = "ENTRY" if line.startswith("ENTRY") else line.split(" ", 1)[0]
            computations[name] = current = {}
        elif line.startswith("  ") and " = " in line:
            instruction = _parse_instruction(line)
            current[instruction.name] = instruction
    return computations


def _parse_instruction(line: str) -> Instruction:
    left, right = line.strip().split(" = ", 1)
    end = _closing(right, 0) + 1 if right.startswith("(") else right.index(" ")
    shapes = tuple(
        Shape(dtype, tuple(int(n) for n in dims.split(",") if n))
        for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", right[:end])
    )
    call = right[end:].lstrip()
    opening = call.index("(")
    closing = _closing(call, opening)
    operands = tuple(re.findall(r"%[\w.\-]+", call[opening:closing]))
    return Instruction(
        name=left.removeprefix("ROOT "),
        shapes=shapes,
        opcode=call[:opening],
        operands=operands,
        rest=call[closing + 1 :],
        is_root=left.startswith("ROOT "),
    )


def _closing(text: str, opening: int) -> int:
    """Index of the parenthesis that closes the one at `opening`."""
    depth = 0
    for found in re.compile(r"[()]").finditer(text, opening):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return found.start()
    raise ValueError(f"no closing parenthesis in {text[:80]!r}")


def kernels(
    computations: dict[str, Computation], name: str = "ENTRY", times: int = 1
) -> Iterator[Kernel]:
    """The kernels of a computation; a loop's as often as it is repeated."""
    computation = computations[name]
    for one in computation.values():
        called = one.attribute("calls") or one.attribute("to_apply")
        if one.opcode in _FREE or one.opcode.endswith("-done"):
            continue
        if one.opcode == "while":
            count = re.search(r'known_trip_count":\{"n":"(\d+)"', one.rest)
            repeats = times * (int(count[1]) if count else 1)
            yield from kernels(computations, one.attribute("body"), repeats)
        elif one.opcode in ("call", "async-start"):
            yield from kernels(computations, called, times)
        elif one.opcode == "conditional":
            names = re.findall(
                r"%[\w.\-]+", re.sub(r"metadata=.*", "", one.rest.split("dims")[0])
            )
            branches = [list(kernels(computations, name, times)) for name in names]
            yield from max(branches, key=len, default=[])
        else:
            operands = dict.fromkeys(one.operands)
            yield Kernel(
                times,
                one,
                tuple(computation[n] for n in operands if n in computation),
                computations[called] if called and one.opcode.startswith("fusion")
                else {one.name: one},
            )  # fmt: skip


def moved_bytes(kernel: Kernel) -> int:
    """Bytes that a kernel reads and writes, each array once.

    Where it takes only a part of an array, or replaces a part of it in place, only the
    part counts.
    """
    body, users = kernel.body, _users(kernel.body)
    if kernel.instruction.name in body:
        return _bytes_of_one(kernel)
    moved = 0
    for one in body.values():
        if one.opcode == "parameter":
            parts = (_part_read(*use) for use in _real_users(one, users))
            moved += min(one.bytes, sum(parts))
    (root,) = (one for one in body.values() if one.is_root)
    outputs = [body[n] for n in root.operands] if root.opcode == "tuple" else [root]
    for output in outputs:
        source = _without_views(output, body)
        if source.opcode in ("dynamic-update-slice", "scatter"):
            update = -1 if source.opcode == "scatter" else 1
            moved += body[source.operands[update]].bytes
        else:
            moved += output.bytes
    return moved


def _bytes_of_one(kernel: Kernel) -> int:
    one, operands = kernel.instruction, kernel.operands
    if one.opcode in ("dynamic-slice", "slice", "gather"):
        return 2 * one.bytes
    if one.opcode == "dynamic-update-slice":
        return 2 * operands[1].bytes
    # An operand may be a tuple of which only an element is meant; those are bitcasts.
    return one.bytes + sum(operand.bytes for operand in operands)


def _users(body: Computation) -> dict[str, list[Instruction]]:
    users: dict[str, list[Instruction]] = {}
    for one in body.values():
        for operand in dict.fromkeys(one.operands):
            users.setdefault(operand, []).append(one)
    return users


def _real_users(
    one: Instruction, users: dict[str, list[Instruction]]
) -> Iterator[tuple[Instruction, Instruction]]:
    """(what is used, who uses it), through views."""
    for user in users.get(one.name, []):
        if user.opcode in _VIEWS and not user.is_root:
            yield from _real_users(user, users)
        else:
            yield one, user


def _part_read(used: Instruction, user: Instruction) -> int:
    is_whole = user.operands[0] == used.name
    if user.opcode in ("dynamic-slice", "slice", "gather") and is_whole:
        return user.bytes
    if user.opcode in ("dynamic-update-slice", "scatter") and is_whole:
        return 0
    return used.bytes


def _without_views(one: Instruction, body: Computation) -> Instruction:
    while one.opcode in _VIEWS and one.operands and one.operands[0] in body:
        one = body[one.operands[0]]
    return one
