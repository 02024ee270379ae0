"""Kernels by what they belong to, and the time that they take on a target.

A kernel takes as long as the slowest of three things: moving its bytes, its matrix
products, and its other operations, each at a fraction of the target's public rate; and
the time of a launch. Kernels run one after another. Neither caches nor the choice of
faster kernels by timing them are considered.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence

from experiments.forecasting import hlo
from experiments.forecasting.targets import Target
from experiments.forecasting.work import Work, work

KINDS = (
    "products",
    "attention",
    "convolution",
    "optimizer",
    "augmentation",
    "random bits",
    "the rest",
)


@dataclasses.dataclass(frozen=True)
class Assumptions:
    """Fractions of the public rates that are reached, and the time of a launch."""

    memory: float
    products: float
    scalars: float
    launch_microseconds: float


# Chosen, not measured: what well and badly tuned programs are known to reach.
ASSUMPTIONS = {
    "floor": Assumptions(0.9, 0.75, 1.0, 0.5),
    "expected": Assumptions(0.8, 0.5, 0.6, 2.0),
    "pessimistic": Assumptions(0.6, 0.3, 0.4, 4.0),
}


@dataclasses.dataclass(frozen=True)
class Cost:
    """One kernel's part of a program.

    Attributes:
      times: how often a call of the program launches it.
      moved_bytes: by one launch.
    """

    kind: str
    times: int
    moved_bytes: int
    work: Work
    op_name: str

    def seconds(self, target: Target, assumed: Assumptions) -> float:
        """Of all its launches."""
        products = sum(
            count / target.flops["f32" if dtype not in target.flops else dtype]
            for dtype, count in self.work.product_flops.items()
        )
        slowest = max(
            self.moved_bytes / target.bytes_per_second / assumed.memory,
            products / assumed.products,
            self.work.scalar_ops / target.scalar_ops_per_second / assumed.scalars,
        )
        return self.times * (slowest + assumed.launch_microseconds / 1e6)


def costs(text: str) -> list[Cost]:
    """The kernels of a program's optimised HLO."""
    found = []
    for kernel in hlo.kernels(hlo.parse(text)):
        done, name = work(kernel), kernel.instruction.op_name
        kind, moved = _kind(kernel, done, name), hlo.moved_bytes(kernel)
        found.append(Cost(kind, kernel.times, moved, done, name))
    return found


def _kind(kernel: hlo.Kernel, done: Work, op_name: str) -> str:
    if done.is_convolution:
        return "convolution"
    if re.search(r"[/(]augment[/)]", op_name):
        return "augmentation"
    if re.search(r"[/(]optimizer[/)]", op_name):
        return "optimizer"
    if 2 * done.random_ops > done.scalar_ops and not done.product_flops:
        return "random bits"
    # The projections before and after are named qkv and out.
    inside = re.search(r"attend_|dot_product_attention", op_name)
    fused = ("__cudnn$fmha" in one.custom_target for one in kernel.body.values())
    if inside or any(fused):
        return "attention"
    return "products" if done.product_flops else "the rest"


def host_callbacks(text: str) -> int:
    """Instructions with which a program waits for Python or the host."""
    return len(re.findall(r'custom_call_target="\w*callback|\b(?:in|out)feed\(', text))


def summarise(
    costs: Iterable[Cost], target: Target, num_steps: int
) -> dict[str, dict[str, float]]:
    """For each kind and in "all", of one step: kernels, gigabytes, gigaflops and ms.

    The gigaflops are those of products, the milliseconds those that are expected.
    """
    fields = ("kernels", "gigabytes", "gigaflops", "expected_ms")
    table = {kind: dict.fromkeys(fields, 0.0) for kind in (*KINDS, "all")}
    for cost in costs:
        seconds = cost.seconds(target, ASSUMPTIONS["expected"])
        values = (
            cost.times,
            cost.times * cost.moved_bytes / 1e9,
            cost.times * sum(cost.work.product_flops.values()) / 1e9,
            1e3 * seconds,
        )
        for row in (table[cost.kind], table["all"]):
            for field, value in zip(fields, values, strict=True):
                row[field] += value / num_steps
    return table


def milliseconds(
    costs: Sequence[Cost], target: Target, num_steps: int = 1
) -> dict[str, float]:
    """The time of one step by each of the assumptions."""
    return {
        name: 1e3 * sum(cost.seconds(target, assumed) for cost in costs) / num_steps
        for name, assumed in ASSUMPTIONS.items()
    }


def wide_products(costs: Iterable[Cost]) -> dict[str, dict[str, float]]:
    """Products of factors with more than 16 bits: how often and how many gigaflops.

    They are grouped by their operation, whatever block of the model it is in.
    """
    found: dict[str, dict[str, float]] = {}
    for cost in costs:
        wide = sum(n for t, n in cost.work.product_flops.items() if t[-2:] != "16")
        if wide:
            parts = re.sub(r"block\d+", "block*", cost.op_name).split("/")
            name = "/".join(parts[-4:])
            row = found.setdefault(name, {"kernels": 0, "gigaflops": 0.0})
            row["kernels"] += cost.times
            row["gigaflops"] += cost.times * wide / 1e9
    return found
