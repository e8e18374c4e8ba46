# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of train_torch.t: ResNets with torchvision's names, safetensors files by
hand, and the same training run that dttrain makes, so that losses and logits can be compared.

    train_torch.py make DIR STEM SEED [NAME]      weights.safetensors and CIFAR-10 binary files in DIR
    train_torch.py foreign DIR TYPE        weights as other tools write them: foreign.safetensors
    train_torch.py same DIR MODEL          dttrain's model has them, but for the last layer
    train_torch.py train DIR OPTIMIZER LR EPOCHS LOSSES   from these weights; one loss per line
    train_torch.py compare LOSSES METRICS TOLERANCE
    train_torch.py logits DIR MODEL STEM TOOL [NAME]     dttrain's model in PyTorch against nn_logits

Several of them, with the word -- between two, run one after the other: to import torch takes seconds.
Each ends with a line "WORD FIRST-ARGUMENT: good" or bad.
"""
import json
import os
import struct
import subprocess
import sys

import torch
from torch import nn
from torch.nn import functional as F

SAMPLES, TEST, BATCH = 320, 160, 32
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
         "F64": torch.float64, "I64": torch.int64}


def conv(inside, planes, kernel, stride):
    return nn.Conv2d(inside, planes, kernel, stride, kernel // 2, bias=False)


def shortcut(inside, planes, stride):
    if stride == 1 and inside == planes:
        return None
    return nn.Sequential(conv(inside, planes, 1, stride), nn.BatchNorm2d(planes))


class Block(nn.Module):
    expansion = 1

    def __init__(self, inside, planes, stride):
        super().__init__()
        self.conv1 = conv(inside, planes, 3, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = conv(planes, planes, 3, 1)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = shortcut(inside, planes, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inside, planes, stride):
        super().__init__()
        self.conv1 = conv(inside, planes, 1, 1)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = conv(planes, planes, 3, stride)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = conv(planes, 4 * planes, 1, 1)
        self.bn3 = nn.BatchNorm2d(4 * planes)
        self.downsample = shortcut(inside, 4 * planes, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


KINDS = {"resnet18": (Block, (2, 2, 2, 2)), "resnet34": (Block, (3, 4, 6, 3)),
         "resnet50": (Bottleneck, (3, 4, 6, 3))}


class ResNet(nn.Module):
    def __init__(self, name, stem, classes=10):
        super().__init__()
        block, blocks = KINDS[name]
        self.small = stem == "cifar"
        self.conv1 = conv(3, 64, 3, 1) if self.small else conv(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        inside = 64
        for i, planes in enumerate((64, 128, 256, 512)):
            stage = []
            for j in range(blocks[i]):
                stage.append(block(inside, planes, 2 if i and not j else 1))
                inside = planes * block.expansion
            setattr(self, f"layer{i + 1}", nn.Sequential(*stage))
        self.fc = nn.Linear(inside, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.small:
            x = F.max_pool2d(x, 3, 2, 1)
        for i in range(4):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(x.mean((2, 3)))


def write_safetensors(path, tensors):
    header, at, chunks = {"__metadata__": {"format": "pt"}}, 0, []
    for name, t in tensors.items():
        kind = next(k for k, v in TYPES.items() if v == t.dtype)
        raw = bytes(t.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        chunks.append(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def read_safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    header.pop("__metadata__", None)
    tensors = {}
    for name, h in header.items():
        raw = bytearray(body[h["data_offsets"][0]:h["data_offsets"][1]])
        kind = TYPES[h["dtype"]]
        flat = torch.frombuffer(raw, dtype=kind) if raw else torch.empty(0, dtype=kind)
        tensors[name] = flat.reshape(h["shape"])
    return tensors


def records(seed, count):
    """Images that can be learnt: a class is a coarse pattern under noise."""
    g = torch.Generator().manual_seed(seed)
    patterns = torch.rand(10, 3, 4, 4, generator=torch.Generator().manual_seed(99))
    labels = torch.randint(0, 10, (count,), generator=g)
    base = F.interpolate(patterns, scale_factor=8)[labels]
    noise = torch.rand(count, 3, 32, 32, generator=g)
    pixels = ((0.5 * base + 0.5 * noise) * 255).to(torch.uint8)
    return labels, pixels


def write_cifar(path, labels, pixels):
    rows = torch.cat([labels.to(torch.uint8).view(-1, 1), pixels.view(len(labels), -1)], 1)
    with open(path, "wb") as f:
        f.write(rows.numpy().tobytes())


def make(folder, stem, seed, name="resnet18"):
    torch.manual_seed(int(seed))
    model = ResNet(name, stem)
    torch.save(stem, os.path.join(folder, "stem.pt"))
    write_safetensors(os.path.join(folder, "weights.safetensors"), model.state_dict())
    labels, pixels = records(1, SAMPLES)
    for i in range(5):
        part = slice(i * SAMPLES // 5, (i + 1) * SAMPLES // 5)
        write_cifar(os.path.join(folder, f"data_batch_{i + 1}.bin"), labels[part], pixels[part])
    write_cifar(os.path.join(folder, "test_batch.bin"), *records(2, TEST))


def foreign(folder, kind):
    """A file as other tools write it: another type and classes, prefixed names, no counts."""
    model = ResNet("resnet18", "imagenet", classes=1000)
    for name, p in model.named_buffers():
        if "running" in name:
            p.uniform_(0.5, 1.5)
    write_safetensors(os.path.join(folder, "foreign.safetensors"),
                      {"module." + k: v.to(TYPES[kind]) for k, v in model.state_dict().items()
                       if "tracked" not in k})


def same(folder, path):
    want = read_safetensors(os.path.join(folder, "foreign.safetensors"))
    got = read_safetensors(path)
    equal = [torch.equal(got[k], want["module." + k].float()) for k in got
             if "tracked" not in k and not k.startswith("fc.")]
    print(f"{sum(equal)} of {len(equal)} tensors are the same, fc {list(got['fc.weight'].shape)}")
    return all(equal) and len(equal) == 60 + 40 and len(got["fc.bias"]) == 10


OPTIMIZERS = {
    "sgd": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True, weight_decay=1e-4),
    "adam": lambda p, lr: torch.optim.Adam(p, lr, weight_decay=1e-4),
}


def train(folder, optimizer, lr, epochs, out):
    model = ResNet("resnet18", torch.load(os.path.join(folder, "stem.pt")))
    model.load_state_dict(read_safetensors(os.path.join(folder, "weights.safetensors")))
    step = OPTIMIZERS[optimizer](model.parameters(), float(lr))
    labels, pixels = records(1, SAMPLES)
    images = (pixels.float() / 255 - MEAN) / STD
    model.train()
    with open(out, "w", encoding="ascii") as f:
        for epoch in range(int(epochs)):
            order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(epoch))
            for at in range(0, SAMPLES, BATCH):
                pick = order[at:at + BATCH]
                loss = F.cross_entropy(model(images[pick]), labels[pick], label_smoothing=0.1)
                step.zero_grad()
                loss.backward()
                step.step()
                print(f"{loss.item():.9g}", file=f)
        model.eval()
        labels, pixels = records(2, TEST)
        with torch.no_grad():
            y = model((pixels.float() / 255 - MEAN) / STD)
            print(f"{F.cross_entropy(y, labels).item():.9g}", file=f)


def compare(losses, metrics, tolerance):
    with open(losses, encoding="ascii") as f:
        want = [float(x) for x in f]
    got = []
    with open(metrics, encoding="utf-8") as f:
        for line in f:
            row = json.loads(line)
            if row["event"] == "train":
                got.append(row["loss"])
            else:
                last = row["loss"]
    got.append(last)
    worst = max(abs(a - b) for a, b in zip(got, want))
    print(f"steps {len(got) - 1}, worst difference {worst:.2e}, "
          f"evaluation {abs(got[-1] - want[-1]):.2e}, loss {want[0]:.4f} to {want[-2]:.4f}")
    return len(got) == len(want) and worst <= float(tolerance)


def logits(folder, path, stem, tool, name="resnet18"):
    model = ResNet(name, stem)
    model.load_state_dict(read_safetensors(path), strict=True)
    model.eval()
    _, pixels = records(3, 16)
    images = (pixels.float() / 255 - MEAN) / STD
    raw = images.permute(0, 2, 3, 1).contiguous().numpy().tobytes()
    run = subprocess.run([tool, name, path, stem, "32", "10", "16"], input=raw, stdout=subprocess.PIPE,
                         check=True)
    got = torch.tensor([[float(v) for v in line.split()]
                        for line in run.stdout.decode().splitlines()])
    with torch.no_grad():
        want = model(images)
    worst = (got - want).abs().max().item()
    print(f"logits up to {want.abs().max().item():.2f}, worst difference {worst:.2e}, {folder}")
    return worst <= 1e-4


def several(words):
    """Runs the commands of sys.argv, each a function of words, with -- between two."""
    torch.set_num_threads(1)  # more only wait for each other on a busy machine
    commands = [[]]
    for argument in sys.argv[1:]:
        if argument == "--":
            commands.append([])
        else:
            commands[-1].append(argument)
    bad = 0
    for word, *arguments in commands:
        held = words[word](*arguments) in (None, True)
        bad += not held
        print(f"{word} {arguments[0]}: {'good' if held else 'bad'}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    several({"make": make, "train": train, "compare": compare, "logits": logits,
             "foreign": foreign, "same": same})
