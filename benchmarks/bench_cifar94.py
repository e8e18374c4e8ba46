#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10 to 94 % on a CPU: the recipe cifar10-94 by dttrain and the same recipe in PyTorch.

    bench_cifar94.py [--data PATH] [--seeds N,…] [--epochs N] [--images N] [--threads N]
                     [--price DOLLARS] [--only dttrain|pytorch]

PATH is a folder with CIFAR-10's binary files, or a tar.zst of JPEG files, train/CLASS/*.jpg and
test/CLASS/*.jpg, of which binary files are made first. PyTorch runs channels last
with a fused optimizer, its fastest way on CPUs. Both begin with the start of the process and end
with the evaluation of six views. Systems take turns from seed to seed.

Unless told otherwise, 5,000 training and 1,000 test images and two epochs show within minutes that
both work, and no accuracy. The recipe as it is takes an hour or more for each seed on two cores:

    bench_cifar94.py --images 50000 --epochs 10 --seeds 1,2,3

One JSON line per run: minutes, minutes of a processor, accuracy, and cents at PRICE dollars an hour
(that of two such cores). The last line has the means and ratio = PyTorch's minutes / dttrain's.
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
RECORD, TRAIN, TEST, SIDE = 3073, 50000, 10000, 32
BATCH, LR, MOMENTUM, DECAY, SHIFT_LR, SMOOTHING = 1024, 1.5, 0.85, 0.00133043, 64, 0.2
FIRST_LAYER_EPOCHS, WHITEN_IMAGES, WHITEN_EPS = 3, 5000, 5e-4
SLOW_BASE, SLOW_EVERY, SLOW_EPOCHS, SLOW_POWER = 0.95, 5, 3, 3
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


# ---- data ----------------------------------------------------------------------------------------


def packed_records(path, count):
    """Records of `count` images, evenly from a file of `dtctl data pack`."""
    with open(path, "rb") as f:
        head = f.read(72)
        samples, labels, pixels = (int.from_bytes(head[at:at + size], "little")
                                   for at, size in ((16, 4), (48, 8), (56, 8)))
        for i in range(count):
            sample = i * samples // count
            f.seek(labels + 4 * sample)
            label = f.read(4)[:1]
            f.seek(pixels + (RECORD - 1) * sample)
            image = f.read(RECORD - 1)
            yield label + image[0::3] + image[1::3] + image[2::3]


def binary_records(folder, names, count):
    for name in names:
        with open(os.path.join(folder, name), "rb") as f:
            while count > 0 and (record := f.read(RECORD)):
                yield record
                count -= 1


def prepare(source, images, folder):
    """CIFAR-10's binary files of the first images, in `folder`."""
    train, test = images, max(1, images * TEST // TRAIN)
    if os.path.isdir(source):
        parts = [f"data_batch_{i}.bin" for i in range(1, 6)]
        records = [binary_records(source, parts, train),
                   binary_records(source, ["test_batch.bin"], test)]
    else:
        records = []
        for split, count in (("train", train), ("test", test)):
            path = os.path.join(folder, split + ".dtpack")
            subprocess.run(["dtctl", "data", "pack", source, path, "--split", split,
                            "--image-size", str(SIDE)], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            records.append(packed_records(path, count))
    rows = list(records[0])
    for i in range(5):
        with open(os.path.join(folder, f"data_batch_{i + 1}.bin"), "wb") as f:
            f.write(b"".join(rows[len(rows) * i // 5:len(rows) * (i + 1) // 5]))
    with open(os.path.join(folder, "test_batch.bin"), "wb") as f:
        f.write(b"".join(records[1]))


# ---- PyTorch -------------------------------------------------------------------------------------


def loaded(folder, names):
    """Labels, and normalised images."""
    import torch
    rows = torch.cat([torch.frombuffer(bytearray(open(os.path.join(folder, n), "rb").read()),
                                       dtype=torch.uint8).view(-1, RECORD) for n in names])
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, STD))
    return rows[:, 0].long(), (rows[:, 1:].reshape(-1, 3, SIDE, SIDE).float() / 255 - mean) / std


def first_filters(images):
    import torch
    patches = images[:WHITEN_IMAGES].unfold(2, 2, 1).unfold(3, 2, 1)
    patches = patches.permute(0, 2, 3, 1, 4, 5).reshape(-1, 12)
    value, vector = torch.linalg.eigh(patches.T @ patches / len(patches))
    half = (vector / torch.sqrt(value + WHITEN_EPS)).T.flip(0).reshape(12, 3, 2, 2)
    return torch.cat([half, -half])


def new_network(images):
    import torch
    sys.path.insert(0, os.path.join(HERE, "../tests/integration"))
    from train_airbench import network
    model = network(64)
    for name, p in model.named_parameters():
        if "conv" in name:
            torch.nn.init.dirac_(p.data[:p.size(1)])
        p.requires_grad = not (name == "0.weight" or "norm" in name and name.endswith("weight"))
    model[0].weight.data.copy_(first_filters(images))
    return model.to(memory_format=torch.channels_last)


def moved(images, mirror):
    """Crops of the reflected images, one in `mirror` mirrored; 25 groups of one offset each."""
    import torch
    from torch.nn import functional as F
    padded = F.pad(images, (2,) * 4, "reflect")
    offset = torch.randint(0, 25, (len(images),))
    out = torch.empty_like(images)
    for k in range(25):
        pick = (offset == k).nonzero()[:, 0]
        out[pick] = padded[pick, :, k // 5:k // 5 + SIDE, k % 5:k % 5 + SIDE]
    return torch.where(mirror.view(-1, 1, 1, 1), out.flip(-1), out)


def rate(done):
    """The triangle: 0.2 to 1 at 0.23 of all images, to 0.07 at the end."""
    return 0.2 + 0.8 * done / 0.23 if done < 0.23 else 1 - 0.93 * (done - 0.23) / 0.77


def accuracy(model, labels, images):
    """Of six views: each image and two diagonal moves, mirrored too."""
    import torch
    from torch.nn import functional as F

    def both(x):
        return model(x) + model(x.flip(-1))

    right = 0
    model.eval()
    with torch.no_grad():
        for i in range(0, len(images), 1000):
            x = images[i:i + 1000].to(memory_format=torch.channels_last)
            edge = F.pad(x, (1,) * 4, "reflect")
            views = both(x) * 2 + sum(both(edge[:, :, k:k + SIDE, k:k + SIDE]) for k in (0, 2))
            right += (views.argmax(1) == labels[i:i + 1000]).sum().item()
    return 100 * right / len(images)


def peer(folder, seed, epochs, threads):
    """Trains with PyTorch; the last line of its output is the accuracy."""
    import torch
    from torch.nn import functional as F
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    labels, images = loaded(folder, [f"data_batch_{i}.bin" for i in range(1, 6)])
    model = new_network(images)
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    shifts, rest = ([p for n, p in named if ("norm" in n) == norm] for norm in (True, False))
    optimizer = torch.optim.SGD(
        [{"params": shifts, "weight_decay": DECAY / SHIFT_LR, "times": SHIFT_LR},
         {"params": rest, "weight_decay": DECAY, "times": 1}],
        lr=LR, momentum=MOMENTUM, nesterov=True, fused=True)
    first_flip, slow, step = torch.rand(len(images)) < 0.5, None, 0
    steps = (len(images) + BATCH - 1) // BATCH
    for epoch in range(epochs):
        model.train()
        model[0].bias.requires_grad = epoch < FIRST_LAYER_EPOCHS
        shown = moved(images, first_flip ^ bool(epoch & 1))
        order = torch.randperm(len(images))
        for i in range(steps):
            pick = order[i * BATCH:(i + 1) * BATCH]
            for group in optimizer.param_groups:
                group["lr"] = LR * group["times"] * rate(step / (steps * epochs))
            x = shown[pick].to(memory_format=torch.channels_last)
            loss = F.cross_entropy(model(x), labels[pick], label_smoothing=SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            slow = join_slow(model, slow, step, epoch, step / (steps * epochs),
                             step == steps * epochs)
    print(accuracy(model, *loaded(folder, ["test_batch.bin"])))


def join_slow(model, slow, step, epoch, done, last):
    """Slow weights and statistics, every few steps and at the end."""
    import torch
    values = [v for v in model.state_dict().values() if v.is_floating_point()]
    due = step % SLOW_EVERY == 0
    if slow is None or epoch < SLOW_EPOCHS:
        return [v.clone() for v in values] if due or slow is None else slow
    keep = SLOW_BASE ** SLOW_EVERY * done ** SLOW_POWER if due else 1
    if due or last:
        with torch.no_grad():
            for s, v in zip(slow, values):
                s.lerp_(v, 1 - keep)
                v.copy_(s)
    return slow


# ---- runs ----------------------------------------------------------------------------------------


def run_pytorch(folder, arguments, seed):
    return recipe_runs.peer([sys.executable, __file__, "--peer", folder, "--seeds", str(seed),
                             "--epochs", str(arguments.epochs),
                             "--threads", str(arguments.threads)])


def run_dttrain(folder, arguments, seed):
    return recipe_runs.dttrain(folder, f"out-{seed}", {
        "recipe": "cifar10-94", "dataset": "cifar10", "data": folder, "seed": seed,
        "epochs": arguments.epochs, "threads": arguments.threads})


RUNS = {"dttrain": run_dttrain, "pytorch": run_pytorch}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", )
    parser.add_argument("--seeds", default="1", type=lambda s: [int(v) for v in s.split(",")])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--price", type=float, default=0.1026)
    parser.add_argument("--only", choices=RUNS)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        peer(arguments.peer, arguments.seeds[0], arguments.epochs, arguments.threads)
        return
    if not 100 <= arguments.images <= TRAIN or arguments.epochs < 1:
        parser.error(f"--images: 100 to {TRAIN}; --epochs: 1 or more")
    if arguments.data and not os.path.exists(arguments.data):
        parser.error(f"--data: '{arguments.data}' does not exist")
    if not arguments.data and not os.path.exists(ARCHIVE):
        print("bench_cifar94.py: CIFAR-10 is not here, nothing is measured (try: --data PATH)",
              file=sys.stderr)
        return
    names = [arguments.only] if arguments.only else list(RUNS)
    if importlib.util.find_spec("torch") is None and "pytorch" in names:
        print("bench_cifar94.py: PyTorch is not installed, so there is no peer", file=sys.stderr)
        names.remove("pytorch")
    facts = {"bench": "cifar94", "epochs": arguments.epochs, "images": arguments.images,
             "threads": arguments.threads}
    with tempfile.TemporaryDirectory() as folder:
        prepare(arguments.data or ARCHIVE, arguments.images, folder)
        runs = {name: functools.partial(RUNS[name], folder, arguments) for name in names}
        recipe_runs.in_turns(facts, runs, arguments.seeds, arguments.price)


if __name__ == "__main__":
    main()
