#!/usr/bin/env python3
"""Whole networks on a GPU: Braze beside PyTorch with cuDNN's fused calls and eager, in CUDA graphs.

Needs Python with torch, numpy and onnx, and a Braze install tree. Networks are generated on the
spot; --models names folders with more (run at batch 1). The most important cases come first:

    networks.py --braze INSTALL_TREE --minutes 9 [--quick] [--backend braze auto]
"""
import pathlib
import sys

import suite
import generate

BATCHES = (1, 8, 32, 128)
QUICK = {("conv_3x3_32_64_128", 1), ("resnet50", 1), ("resnet50", 32), ("mobilenet_v2", 1)}


def case(name, batch, precision="fp16"):
    return {"name": name, "batch": batch, "precision": precision, "dims": {"N": batch},
            "quick": (name, batch) in QUICK and precision == "fp16",
            "make": lambda folder: generate.write(name, folder)}


def generated():
    for precision in ("fp16", "tf32", "fp32"):
        yield case("conv_3x3_32_64_128", 1, precision)
    for name in ("resnet50", "resnet18"):
        for batch in BATCHES:
            yield case(name, batch)
    for name in ("mobilenet_v2", "efficientnet_b0", "unet", "vgg16"):
        for batch in BATCHES:
            yield case(name, batch)


def from_folders(folders):
    for folder in folders:
        for file in sorted(pathlib.Path(folder).glob("*.onnx")):
            yield {"name": file.stem, "batch": 1, "precision": "fp16", "dims": {}, "quick": False,
                   "make": lambda _, file=file: file.resolve()}


def other_precisions():
    for precision in ("tf32", "fp32", "bf16"):
        for name in ("resnet50", "mobilenet_v2"):
            for batch in (1, 32):
                yield case(name, batch, precision)
    yield case("unet_nearest", 1)


def main():
    parser = suite.arguments(__doc__.splitlines()[0], "gpu_networks")
    parser.add_argument("--models", nargs="*", default=[], help="folders with .onnx files")
    parser.add_argument("--no-variants", action="store_true",
                        help="neither --fusion epilogue nor the model's own inputs and outputs")
    args = parser.parse_args()
    cases = [*generated(), *from_folders(args.models), *other_precisions()]
    variants = not args.no_variants
    return suite.run("Networks on a GPU", "network", cases, args, model_io=variants,
                     fusions=variants)


if __name__ == "__main__":
    sys.exit(main())
