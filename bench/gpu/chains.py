#!/usr/bin/env python3
"""Convolutions after one another on a GPU: Braze joining them, Braze not, cuDNN's fused calls.

Needs Python with torch, numpy and onnx, and a Braze install tree. Each chain is generated on the
spot with seeded weights (chain_models.py says how names read); answers are compared before times
are taken, all in turns. The most telling cases come first; --resume goes on where a run has ended:

    chains.py --braze INSTALL_TREE --minutes 9 --resume

--cutlass PROGRAM (cutlass_peer.cu) adds CUTLASS's fused kernels where they do the chain (two
convolutions, the second 1x1), and Braze with its kernels of sm_80 on the same GPU, as planned and
joined whatever the estimates say.
"""
import pathlib
import sys

import suite
import chain_models
from chain_models import BOLT, CHIMERA, MOBILE, PRODUCTS, RESIDUAL, SEEDS
from chain_models import block_name, convolutions, inverted_residual, name_of, products

BATCHES = (1, 8, 32, 128)
HEAD = ["| {what} | N | precision | launches: joined, not | Braze us | not joined us | "
        "cuDNN fused us | to not joined | to cuDNN | floor us | error (cuDNN fused) | "
        "CUTLASS fused us | to CUTLASS | sm_80 kernels us (launches): as planned, joined | "
        "to CUTLASS |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"]


def case(name, batch, build, quick=False):
    return {"name": name, "batch": batch, "precision": "fp16", "dims": {"N": batch},
            "quick": quick, "make": lambda folder: chain_models.write(name, build, folder)}


def of_convolutions(chain, batch, prefix="", quick=False):
    return case(prefix + name_of(*chain), batch, lambda: convolutions(*chain), quick) | {
        "cutlass": cutlass_arguments(batch, *chain)}


def cutlass_arguments(batch, channels, size, *parts):
    """Of cutlass_peer.cu: N H W C K1 K2 FILTER STRIDE; nothing if CUTLASS has no such chain."""
    if len(parts) != 2 or parts[1][0] != 1 or len(parts[1]) > 2:
        return None
    (kernel, middle, *stride), (_, outputs) = parts
    return [batch, size, size, channels, middle, outputs, kernel, *(stride or [1])]


def all_cases():
    for batch in BATCHES:
        for chain in SEEDS[:4]:
            yield of_convolutions(chain, batch, quick=batch in (1, 32))
    for batch in BATCHES:
        for chain in SEEDS[4:]:
            yield of_convolutions(chain, batch)
    for i, chain in enumerate(BOLT):
        yield of_convolutions(chain, 32, f"Bolt {i + 1}: ")
    for batch in (1, 32):
        for i, chain in enumerate(CHIMERA):
            yield of_convolutions(chain, batch, f"Chimera C{i + 1}: ")
    for product in PRODUCTS:
        yield case(f"Gemm {product[0]} x " + ">".join(map(str, product[1:])), 1,
                   lambda product=product: products(*product)) | {"dims": {}}
    for batch in BATCHES:
        for block in MOBILE:
            yield case(block_name(*block), batch, lambda block=block: inverted_residual(*block))
        for chain in RESIDUAL:
            yield of_convolutions(chain, batch)


def line(case_, row):
    title = f"| {case_['name']} | {case_['batch']} | {case_['precision']} |"
    if "failed" in row:
        reason = " ".join(row["failed"].split()).replace("|", "/")
        return f"{title} | | | | | | | {reason[:300]} | | | | |"
    us, launches, errors = row["us"], row["launches"], row["errors"]
    mine, apart, peer = us["braze"], us["braze, epilogue"], us["cudnn fused"]
    return (f"{title} {launches['braze']}, {launches['braze, epilogue']} | {mine:.1f} | {apart:.1f} | "
            f"{peer:.1f} | {mine / apart:.2f} | {mine / peer:.2f} | "
            f"{suite.text(row.get('floor_us'))} | "
            f"{errors['braze']:.1e} ({errors['cudnn fused 0']:.1e}) | {cutlass(row)} |")


def cutlass(row):
    found = row.get("cutlass")
    if not found:
        return " | | |"
    us, names = found.get("us"), ("braze", "braze, sm_80", "braze, sm_80 joined")
    mine = [f"{row['us'][name]:.1f} ({row['launches'][name]})" for name in names]
    ratios = [f"{row['us'][name] / us:.2f}" if us else "" for name in names]
    return (f"{f'{us:.1f}' if us else found['cannot']} | {ratios[0]} | "
            f"{mine[1]}, {mine[2]} | {ratios[1]}, {ratios[2]}")


def main():
    parser = suite.arguments(__doc__.splitlines()[0], "gpu_chains")
    parser.add_argument("--cutlass", type=pathlib.Path, help="cutlass_peer.cu as a program")
    args = parser.parse_args()
    cases = list(all_cases())
    if args.cutlass:
        for case_ in cases:
            if case_.get("cutlass"):
                call = [args.cutlass.resolve(), *case_["cutlass"]]
                case_["more"] = {"cutlass": [str(word) for word in call]}
    return suite.run("Chains of convolutions on a GPU", "chain", cases, args,
                     model_io=False, fusions=True, table=(HEAD, line))


if __name__ == "__main__":
    sys.exit(main())
