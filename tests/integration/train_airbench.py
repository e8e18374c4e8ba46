# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of train_airbench.t.

    train_airbench.py CHECK,… RUN KEY=VALUE…    functions of CHECKS on what dttrain left in RUN with
                                                these [train] keys; "CHECK: good" where as expected
"""
import glob
import json
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

from train_torch import SAMPLES, TEST, read_safetensors, records

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1).double()
STD = torch.tensor([0.2470, 0.2435, 0.2616]).view(1, 3, 1, 1).double()
PAD, MOMENTUM, SHIFT_LR, SMOOTHING, DECAY = 2, 0.85, 64, 0.2, 0.00133043
BASE = 0.95  # of the slow weights
# Of an update, relative to its length: float32 of this network is no better than PyTorch's own.
UPDATE_WORST, TIMES_TORCH = 1e-4, 4


class Group(nn.Module):
    def __init__(self, inside, out):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, padding="same", bias=False)
        self.norm1 = nn.BatchNorm2d(out, eps=1e-12, momentum=0.4)
        self.conv2 = nn.Conv2d(out, out, 3, padding="same", bias=False)
        self.norm2 = nn.BatchNorm2d(out, eps=1e-12, momentum=0.4)

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Scale(nn.Module):
    def forward(self, x):
        return x / 9


def network(width):
    return nn.Sequential(
        nn.Conv2d(3, 24, 2), nn.GELU(), Group(24, width), Group(width, 4 * width),
        Group(4 * width, 4 * width), nn.MaxPool2d(3), nn.Flatten(),
        nn.Linear(4 * width, 10, bias=False), Scale())


def philox(key, hi, lo):
    mask = 0xFFFFFFFF
    c0, c1, c2, c3 = lo & mask, lo >> 32, hi & mask, hi >> 32
    k0, k1 = key & mask, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & mask, (p0 >> 32) ^ c3 ^ k1, p0 & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c0, c1, c2, c3


def augmented(pixels, seed, epoch, index):
    """One image as dttrain draws it: a crop of the reflected image, mirrored in turns."""
    draw = philox(seed, epoch, index)
    top, left = (draw[i] * (2 * PAD + 1) >> 32 for i in (1, 2))
    padded = F.pad(pixels[index:index + 1].double(), (PAD,) * 4, "reflect")
    image = padded[:, :, top:top + 32, left:left + 32]
    flip = (philox(seed, 0, index)[0] >> 31) ^ (epoch & 1)
    return image.flip(-1) if flip else image


class Run:
    def __init__(self, folder, pairs):
        self.set = dict(p.split("=", 1) for p in pairs)
        self.folder = folder
        self.batch, self.epochs = int(self.set["batch"]), int(self.set["epochs"])
        self.steps = (SAMPLES + self.batch - 1) // self.batch  # of an epoch
        self.states = sorted(glob.glob(os.path.join(folder, "state", "checkpoint-*")))
        self.labels, self.pixels = records(1, SAMPLES)
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
        self.lr = {r["step"]: r["lr"] for r in rows if r["event"] == "train"}
        self.evals = [r for r in rows if r["event"] == "eval"]

    def tensors(self, i, name="model"):
        return read_safetensors(os.path.join(self.states[i], name + ".safetensors"))

    def batch_of(self, step):
        """Images and labels of a step, from 1."""
        epoch, i = divmod(step - 1, self.steps)
        seed = int(self.set["seed"])
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(seed + epoch))
        index = order[i * self.batch:(i + 1) * self.batch].tolist()
        images = torch.cat([augmented(self.pixels, seed, epoch, k) for k in index])
        return (images / 255 - MEAN) / STD, self.labels[index]

    def model(self, weights, dtype):
        model = network(int(self.set["model"].partition("width=")[2].rstrip(")"))).to(dtype)
        model.load_state_dict(weights)
        return model

    def step(self, i, dtype):
        """The state after the step behind checkpoint i, without slow weights."""
        step = i + 2
        model = self.model(self.tensors(i), dtype)
        state = self.tensors(i, "state")
        settled = (step - 1) // self.steps >= int(self.set["first_layer_epochs"])
        lr, decay = self.lr[step], DECAY
        groups = {True: [], False: []}
        for name, p in model.named_parameters():
            fixed = name == "0.weight" or "norm" in name and name.endswith("weight")
            if fixed or settled and name == "0.bias":
                p.requires_grad = False
            else:
                groups["norm" in name].append((name, p))
        optimizer = torch.optim.SGD(
            [{"params": [p for _, p in groups[True]], "lr": lr * SHIFT_LR,
              "weight_decay": decay / SHIFT_LR},
             {"params": [p for _, p in groups[False]], "lr": lr, "weight_decay": decay}],
            momentum=MOMENTUM, nesterov=True)
        for name, p in groups[True] + groups[False]:
            optimizer.state[p]["momentum_buffer"] = state["momentum_buffer." + name].to(dtype)
        model.train()
        images, labels = self.batch_of(step)
        loss = F.cross_entropy(model(images.to(dtype)), labels, label_smoothing=SMOOTHING)
        loss.backward()
        optimizer.step()
        return model.state_dict()

    def keep(self, step):
        """Share of the slow weights that stays behind a step; None: nothing happens."""
        every, epoch = int(self.set["lookahead_every"]), (step - 1) // self.steps
        due, last = step % every == 0, step == self.steps * self.epochs
        if epoch < int(self.set["lookahead_epochs"]):
            return 0 if due else None
        done = min(step * self.batch, SAMPLES * self.epochs) / (SAMPLES * self.epochs)
        rho = BASE ** every * done ** float(self.set["lookahead_power"])
        return rho if due else 1 if last else None


def trained(run):
    return [k for k in run.tensors(0) if "running" not in k and "tracked" not in k]


def joined(run, i, after):
    """The step's weights with the slow ones before it, in the keys of the model."""
    keep, slow = run.keep(i + 2), run.tensors(i, "state")
    if keep is None:
        return after
    return {k: keep * slow["lookahead." + k].double() + (1 - keep) * v.double()
            if "lookahead." + k in slow else v for k, v in after.items()}


def flat(tensors, keys):
    return torch.cat([tensors[k].double().flatten() for k in keys])


def updates(run):
    keys, worst, most = trained(run), 0.0, 0.0
    for i in range(len(run.states) - 1):
        start, end = run.tensors(i), run.tensors(i + 1)
        exact = flat(joined(run, i, run.step(i, torch.float64)), keys)
        single = flat(joined(run, i, run.step(i, torch.float32)), keys)
        length = (exact - flat(start, keys)).norm().item()
        error = (flat(end, keys) - exact).norm().item() / length
        limit = max(UPDATE_WORST, TIMES_TORCH * (single - exact).norm().item() / length)
        worst, most = max(worst, error / limit), max(most, error)
    print(f"{len(run.states) - 1} updates, worst {most:.1e}, {worst:.2f} of its limit")
    return worst <= 1 and len(run.states) == run.steps * run.epochs


def statistics(run):
    """Running statistics, with slow ones that begin as 0 and 1."""
    worst, slow = 0.0, None
    for i in range(len(run.states) - 1):
        now = run.tensors(i)
        names = [k for k in now if "running" in k]
        if slow is None:
            slow = {k: now[k].double() for k in names}
        exact = run.step(i, torch.float64)
        keep = run.keep(i + 2)
        if keep is not None:
            slow = {k: keep * slow[k] + (1 - keep) * exact[k] for k in names}
            exact = slow
        end = run.tensors(i + 1)
        worst = max(worst, max(((end[k] - exact[k]).norm() / exact[k].norm()).item()
                               for k in names))
    print(f"running statistics differ by {worst:.1e}")
    return worst <= 1e-4


def slow(run):
    """Where slow and trained weights meet they are the same, and elsewhere the slow ones stay."""
    met = stayed = 0
    for i in range(len(run.states) - 1):
        state, before = run.tensors(i + 1, "state"), run.tensors(i, "state")
        weights, keep = run.tensors(i + 1), run.keep(i + 2)
        for k in trained(run):
            other = before["lookahead." + k] if keep is None else weights[k]
            if not torch.equal(state["lookahead." + k], other):
                return False
        met, stayed = met + (keep is not None), stayed + (keep is None)
    print(f"{met} meetings, {stayed} steps without")
    return met >= 4 and stayed >= 4


def whitening(run):
    images = (run.pixels[:int(run.set["whiten_images"])].double() / 255 - MEAN) / STD
    patches = images.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12)
    value, vector = torch.linalg.eigh(patches.T @ patches / len(patches))
    want = (vector / torch.sqrt(value + 5e-4)).T.flip(0)
    got = run.tensors(0)["0.weight"].reshape(24, 12).double()
    signs = torch.sign((want * got[:12]).sum(1, keepdim=True))
    error = ((want * signs - got[:12]).norm() / want.norm()).item()
    last = run.tensors(len(run.states) - 1)["0.weight"].reshape(24, 12)
    print(f"filters differ by {error:.1e}")
    stays = (got - last).abs().max().item() < 1e-6 * got.abs().max().item()
    return error <= 1e-5 and torch.equal(got[:12], -got[12:]) and stays


def evaluation(run):
    labels, pixels = records(2, TEST)
    model = run.model(read_safetensors(os.path.join(run.folder, "model.safetensors")),
                      torch.float64).eval()
    images = (pixels.double() / 255 - MEAN) / STD
    padded = F.pad(images, (1,) * 4, "reflect")

    def mirrored(x):
        return (model(x) + model(x.flip(-1))) / 2

    with torch.no_grad():
        moved = [mirrored(padded[:, :, i:i + 32, i:i + 32]) for i in (0, 2)]
        logits = mirrored(images) / 2 + (moved[0] + moved[1]) / 4
    loss = F.cross_entropy(logits, labels).item()
    top1 = 100 * (logits.argmax(1) == labels).double().mean().item()
    last = run.evals[-1]
    print(f"loss {last['loss']:.6f}, PyTorch's {loss:.6f}; {last['acc1']:.2f} and {top1:.2f} %")
    return abs(last["loss"] / loss - 1) < 1e-4 and abs(last["acc1"] - top1) < 0.7


def settled(run):
    """The bias of the first layer moves until its epochs are over, then with slow weights."""
    bias = [run.tensors(i)["0.bias"] for i in range(len(run.states))]
    end = run.steps * int(run.set["first_layer_epochs"])
    moved = [(a - b).abs().max().item() for a, b in zip(bias, bias[1:])]
    print("moved by", " ".join(f"{m:.1e}" for m in moved))
    still = [m for i, m in enumerate(moved) if i + 2 > end and run.keep(i + 2) is None]
    return all(m > 0 for m in moved[:run.steps - 1]) and len(still) >= 2 and not any(still)


def strict(run):
    path = os.path.join(run.folder, "model.safetensors")
    run.model(read_safetensors(path), torch.float32)  # load_state_dict is strict
    return True


CHECKS = {f.__name__: f
          for f in (whitening, updates, statistics, slow, evaluation, settled, strict)}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1].split(","):
        held = CHECKS[name](Run(sys.argv[2], sys.argv[3:]))
        print(f"{name}: {'good' if held else 'bad'}", flush=True)
