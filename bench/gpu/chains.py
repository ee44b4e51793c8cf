#!/usr/bin/env python3
"""Convolutions after one another on a GPU: Braze joining them, Braze not, cuDNN's fused calls.

Needs Python with torch, numpy and onnx, and a Braze install tree. Each chain is generated on the
spot with seeded weights (chain_models.py says how names read); answers are compared before times
are taken, all in turns. The most telling cases come first; --resume goes on where a run has ended:

    chains.py --braze INSTALL_TREE --minutes 9 --resume
"""
import sys

import suite
import chain_models
from chain_models import BOLT, CHIMERA, MOBILE, PRODUCTS, RESIDUAL, SEEDS
from chain_models import block_name, convolutions, inverted_residual, name_of, products

BATCHES = (1, 8, 32, 128)
HEAD = ["| {what} | N | precision | launches: joined, not | Braze us | not joined us | "
        "cuDNN fused us | to not joined | to cuDNN | floor us | error (cuDNN fused) |",
        "|---|---|---|---|---|---|---|---|---|---|---|"]


def case(name, batch, build, quick=False):
    return {"name": name, "batch": batch, "precision": "fp16", "dims": {"N": batch},
            "quick": quick, "make": lambda folder: chain_models.write(name, build, folder)}


def of_convolutions(chain, batch, prefix="", quick=False):
    return case(prefix + name_of(*chain), batch, lambda: convolutions(*chain), quick)


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
        return f"{title} | | | | | | | {reason[:300]} |"
    us, launches, errors = row["us"], row["launches"], row["errors"]
    mine, apart, peer = us["braze"], us["braze, epilogue"], us["cudnn fused"]
    return (f"{title} {launches['braze']}, {launches['braze, epilogue']} | {mine:.1f} | {apart:.1f} | "
            f"{peer:.1f} | {mine / apart:.2f} | {mine / peer:.2f} | "
            f"{suite.text(row.get('floor_us'))} | "
            f"{errors['braze']:.1e} ({errors['cudnn fused 0']:.1e}) |")


def main():
    args = suite.arguments(__doc__.splitlines()[0], "gpu_chains").parse_args()
    return suite.run("Chains of convolutions on a GPU", "chain", list(all_cases()), args,
                     model_io=False, fusions=True, table=(HEAD, line))


if __name__ == "__main__":
    sys.exit(main())
