#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipe vit-finetune on a CPU, from imported weights: dttrain and the same recipe in PyTorch.

    bench_finetune.py [--archive PATH] [--seeds N,…] [--epochs N] [--images N] [--side PIXELS]
                      [--threads N] [--price DOLLARS]

PATH is a tar.zst of CIFAR-10's images, train/CLASS/*.jpg and test/CLASS/*.jpg. First dttrain trains
ViT-tiny on half of the classes, at 64 pixels; no system's time has that. Then each system loads
these weights, makes a new last layer and positions for images of SIDE pixels, trains on the other
half with Adam, and evaluates, in float and in bfloat16: PyTorch with fused Adam and autocast. All
read the same pixels. Times are from the start of the process to the end of the evaluation.

The lines are those of bench_cifar94.py; accuracy is that of five classes.
"""
import argparse
import functools
import importlib.util
import os
import subprocess
import sys
import tempfile

import recipe_runs

HERE = os.path.dirname(os.path.abspath(__file__))
ARCHIVE = os.path.join(HERE, "../../shared/data/cifar10-images.tar.zst")
CLASSES, HEAD_BYTES = 5, 72
FIRST_SIDE, FIRST_IMAGES, FIRST_EPOCHS, FIRST_BATCH = 64, 5000, 3, 64
BATCH, LR, GAMMA, EVAL_BATCH, PATCH = 32, 3e-5, 0.7, 250, 16
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TEST_PART = 5  # training images for each test image


# ---- data ----------------------------------------------------------------------------------------


def halves(archive, folder, counts):
    """Folders of images of either half of the classes, so many of each."""
    whole = os.path.join(folder, "all")
    os.mkdir(whole)
    subprocess.run(["tar", "--zstd", "-xf", archive, "-C", whole], check=True)
    out = []
    for half, count in enumerate(counts):
        out.append(os.path.join(folder, f"half{half}"))
        for split, images in (("train", count), ("test", max(CLASSES, count // TEST_PART))):
            names = sorted(os.listdir(os.path.join(whole, split)))
            for name in names[half * CLASSES:(half + 1) * CLASSES]:
                there = os.path.join(out[-1], split, name)
                os.makedirs(there)
                old = os.path.join(whole, split, name)
                for file in sorted(os.listdir(old))[:images // CLASSES]:
                    os.rename(os.path.join(old, file), os.path.join(there, file))
    return out


def pack(images, side):
    """Pixels of both splits; the keys of [train] for them."""
    for split in ("train", "test"):
        subprocess.run(["dtctl", "data", "pack", images, f"{images}.{split}.dtpack", "--split",
                        split, "--image-size", str(side)], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    return {"dataset": "packed", "data": f"{images}.train.dtpack", "val": f"{images}.test.dtpack"}


def first_weights(folder, images, threads):
    recipe_runs.dttrain(folder, "first", {
        "model": f"vit_tiny(patch={PATCH})", "epochs": FIRST_EPOCHS, "batch": FIRST_BATCH,
        "optimizer": "adamw", "lr": 5e-4, "threads": threads,
        "eval_every_epochs": FIRST_EPOCHS, **pack(images, FIRST_SIDE)})
    return os.path.join(folder, "first", "model", "model.safetensors")


# ---- PyTorch -------------------------------------------------------------------------------------


def pixels(path, side):
    """Labels, and images as bytes, of a file of `dtctl data pack`."""
    import torch
    with open(path, "rb") as f:
        data = bytearray(f.read())
    samples, labels, first = (int.from_bytes(data[at:at + size], "little")
                              for at, size in ((16, 4), (48, 8), (56, 8)))
    return (torch.frombuffer(data, dtype=torch.int32, count=samples, offset=labels).long(),
            torch.frombuffer(data, dtype=torch.uint8, count=samples * side * side * 3,
                             offset=first).view(samples, side, side, 3))


def normalised(images):
    import torch
    mean, std = torch.tensor(MEAN), torch.tensor(STD)
    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2)


def new_model(weights, side):
    sys.path.insert(0, os.path.join(HERE, "../tests/integration"))
    from train_torch import read_safetensors
    from train_vit import Vit, resized
    model = Vit(size=side, classes=CLASSES)
    given = resized(read_safetensors(weights), side // PATCH)
    missing, unknown = model.load_state_dict(
        {k: v for k, v in given.items() if not k.startswith("head.")}, strict=False)
    if unknown or any(not name.startswith("head.") for name in missing):
        raise ValueError(f"{weights}: {missing}, {unknown}")
    return model


def peer(arguments):
    """Trains with PyTorch; the last line of its output is the accuracy."""
    import torch
    from torch.nn import functional as F
    folder, dtype = arguments.peer.split(":")
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seeds[0])
    autocast = functools.partial(torch.autocast, "cpu", torch.bfloat16, enabled=dtype == "bf16")
    model = new_model(os.path.join(folder, "first", "model", "model.safetensors"), arguments.side)
    optimizer = torch.optim.Adam(model.parameters(), LR, fused=True)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, GAMMA)
    labels, images = pixels(os.path.join(folder, "half1.train.dtpack"), arguments.side)
    model.train()
    for _ in range(arguments.epochs):
        order = torch.randperm(len(images))
        for pick in order.split(BATCH):
            x = normalised(images[pick])
            flip = torch.rand(len(pick)) < 0.5
            x = torch.where(flip.view(-1, 1, 1, 1), x.flip(-1), x)
            with autocast():
                loss = F.cross_entropy(model(x), labels[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    labels, images = pixels(os.path.join(folder, "half1.test.dtpack"), arguments.side)
    model.eval()
    right = 0
    with torch.no_grad(), autocast():
        for pick in torch.arange(len(images)).split(EVAL_BATCH):
            right += (model(normalised(images[pick])).argmax(1) == labels[pick]).sum().item()
    print(100 * right / len(images))


# ---- runs ----------------------------------------------------------------------------------------


def run_pytorch(folder, keys, arguments, dtype, seed):
    return recipe_runs.peer([sys.executable, __file__, "--peer", f"{folder}:{dtype}",
                             "--seeds", str(seed), "--epochs", str(arguments.epochs),
                             "--side", str(arguments.side), "--threads", str(arguments.threads)])


def run_dttrain(folder, keys, arguments, dtype, seed):
    return recipe_runs.dttrain(folder, f"out-{dtype}-{seed}", {
        **keys, "recipe": "vit-finetune", "seed": seed, "epochs": arguments.epochs,
        "threads": arguments.threads, "dtype": dtype, "image_size": arguments.side,
        "eval_every_epochs": arguments.epochs,
        "weights": os.path.join(folder, "first", "model", "model.safetensors")})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", default=ARCHIVE)
    parser.add_argument("--seeds", default="1", type=lambda s: [int(v) for v in s.split(",")])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--price", type=float, default=0.1026)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer(arguments)
        return
    if arguments.images < BATCH or arguments.epochs < 1 or arguments.side % PATCH:
        parser.error(f"--images: {BATCH} or more; --epochs: 1 or more; --side: whole patches of "
                     f"{PATCH}")
    if not os.path.exists(arguments.archive):
        print("bench_finetune.py: CIFAR-10 is not here, nothing is measured (try: --archive PATH)",
              file=sys.stderr)
        return
    systems = {"dttrain": run_dttrain, "pytorch": run_pytorch}
    if importlib.util.find_spec("torch") is None:
        print("bench_finetune.py: PyTorch is not installed, so there is no peer", file=sys.stderr)
        del systems["pytorch"]
    facts = {"bench": "finetune", "epochs": arguments.epochs, "images": arguments.images,
             "side": arguments.side, "threads": arguments.threads}
    with tempfile.TemporaryDirectory() as folder:
        first, second = halves(arguments.archive, folder, (FIRST_IMAGES, arguments.images))
        first_weights(folder, first, arguments.threads)
        keys = pack(second, arguments.side)
        runs = {f"{name}-{dtype}": functools.partial(run, folder, keys, arguments, dtype)
                for name, run in systems.items() for dtype in ("f32", "bf16")}
        recipe_runs.in_turns(facts, runs, arguments.seeds, arguments.price)


if __name__ == "__main__":
    main()
