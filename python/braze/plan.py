"""What Braze made of a network: its kernels, the nodes in each, and why the rest stayed apart."""
from __future__ import annotations

import collections
import html
from dataclasses import dataclass

from . import _braze


@dataclass(frozen=True)
class Kernel:
    """One launch: a device launch on a GPU, a parallel loop on the CPU."""

    name: str
    backend: str  # cpu, cuda, cudnn
    family: str
    detail: str  # layouts, epilogue and parameters, for people
    nodes: tuple[str, ...]  # ids of the model's nodes that it does
    kind: str  # single, epilogue, group, relayout, reference
    flops: float
    dram_bytes: float
    onchip_bytes: float  # intermediate bytes that are never written to memory
    est_us: float
    measured: bool  # est_us was measured
    stream: int  # kernels of one stream run one after another
    waits: tuple[str, ...]  # kernels of other streams that end before it begins


@dataclass(frozen=True)
class Folded:
    """A node that no kernel runs."""

    node: str
    into: str  # the node it became part of, or "constant", "unused", "view"


@dataclass(frozen=True)
class NotFused:
    """A join that is possible by shape, but was not made."""

    nodes: tuple[str, ...]
    rule: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """The kernels of a compiled network. Prints as a table, here and in notebooks."""

    device: str
    nhwc_io: bool  # inputs and outputs are [N, spatial..., C]
    kernels: tuple[Kernel, ...]
    folded: tuple[Folded, ...]
    not_fused: tuple[NotFused, ...]
    launches: int
    peak_bytes: int  # all intermediates
    largest_live_bytes: int  # largest sum of intermediates alive at once
    constant_bytes: int
    warnings: tuple[str, ...]

    @property
    def est_us(self) -> float:
        """Microseconds of all kernels, estimated or measured, one after another."""
        return sum(kernel.est_us for kernel in self.kernels)

    def __repr__(self) -> str:
        return f"{self._headline()}\n\n{self._kernel_table(details=False)}"

    def explain(self) -> str:
        """The kernels with their details; then what was folded; then what was not fused and why."""
        return "\n".join([self._headline(), self._memory(), "", self._kernel_table(details=True),
                          "", self._folded_text(), "", self._not_fused_text(),
                          *(f"warning: {text}" for text in self.warnings)])

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>" + "".join(f"<td style='text-align:{'right' if number else 'left'}'>"
                             f"{html.escape(text)}</td>" for text, number in cells) + "</tr>"
            for cells in (
                ((k.name, False), (k.kind, False), (", ".join(k.nodes), False),
                 (f"{k.flops / 1e6:.3f}", True), (bytes_text(k.dram_bytes), True),
                 (bytes_text(k.onchip_bytes), True), (f"{k.est_us:.2f}", True))
                for k in self.kernels))
        head = "".join(f"<th>{text}</th>" for text in
                       ("kernel", "kind", "nodes", "MFLOP", "memory", "on chip", "us"))
        apart = "".join(f"<li>{html.escape(', '.join(n.nodes))}: {html.escape(n.reason)} "
                        f"({html.escape(n.rule)})</li>" for n in self.not_fused)
        more = f"<details><summary>{_count(len(self.not_fused), 'join')} not made</summary>" \
               f"<ul>{apart}</ul></details>" if self.not_fused else ""
        return (f"<p>{html.escape(self._headline())}</p><table><thead><tr>{head}</tr></thead>"
                f"<tbody>{rows}</tbody></table>{more}")

    def _headline(self) -> str:
        return (f"{_count(len(self.kernels), 'kernel')} on {self.device}, "
                f"{_count(len(self.folded), 'node')} folded, "
                f"{_count(len(self.not_fused), 'join')} not made, about {self.est_us:.0f} us")

    def _memory(self) -> str:
        return (f"intermediates {bytes_text(self.peak_bytes)} (largest live set "
                f"{bytes_text(self.largest_live_bytes)}), constants "
                f"{bytes_text(self.constant_bytes)}")

    def _kernel_table(self, details: bool) -> str:
        width = max([len(kernel.name) for kernel in self.kernels] + [len("kernel")])
        lines = [f"{'kernel':<{width}}  {'kind':<9}  {'MFLOP':>9}  {'memory':>8}  {'on chip':>8}"
                 f"  {'us':>9}  nodes"]
        for kernel in self.kernels:
            lines.append(f"{kernel.name:<{width}}  {kernel.kind:<9}  {kernel.flops / 1e6:>9.3f}  "
                         f"{bytes_text(kernel.dram_bytes):>8}  "
                         f"{bytes_text(kernel.onchip_bytes):>8}  {kernel.est_us:>9.2f}  "
                         f"{' + '.join(kernel.nodes)}")
            if details:
                lines.append(f"    {kernel.backend} {kernel.family}: {kernel.detail}; "
                             f"{'measured' if kernel.measured else 'estimated'}")
        return "\n".join(lines)

    def _folded_text(self) -> str:
        by_target = collections.defaultdict(list)
        for folded in self.folded:
            by_target[folded.into].append(folded.node)
        return "\n".join([f"folded: {_count(len(self.folded), 'node')}"] + [
            f"  into {into}: {', '.join(nodes)}" for into, nodes in sorted(by_target.items())])

    def _not_fused_text(self) -> str:
        by_rule = collections.defaultdict(list)
        for join in self.not_fused:
            by_rule[join.rule].append(f"    {', '.join(join.nodes)}: {join.reason}")
        lines = [f"not fused: {_count(len(self.not_fused), 'join')}"]
        for rule, texts in sorted(by_rule.items()):
            lines += [f"  {rule} ({len(texts)})", *texts]
        return "\n".join(lines)


def from_summary(summary: _braze.PlanSummary) -> Plan:
    """The library's record as a Plan."""
    return Plan(
        device=summary.device, nhwc_io=summary.nhwc_io,
        kernels=tuple(Kernel(
            name=k.name, backend=k.backend, family=k.family, detail=k.detail,
            nodes=tuple(k.nodes), kind=k.kind, flops=k.flops, dram_bytes=k.dram_bytes,
            onchip_bytes=k.onchip_bytes, est_us=k.est_us, measured=k.measured, stream=k.stream,
            waits=tuple(k.waits)) for k in summary.kernels),
        folded=tuple(Folded(f.node, f.into) for f in summary.folded),
        not_fused=tuple(NotFused(tuple(n.nodes), n.rule, n.reason) for n in summary.not_fused),
        launches=summary.launches, peak_bytes=summary.peak_bytes,
        largest_live_bytes=summary.largest_live_bytes, constant_bytes=summary.constant_bytes,
        warnings=tuple(summary.warnings))


def bytes_text(count: float) -> str:
    """"4.19 MB": three digits, powers of 1000."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
