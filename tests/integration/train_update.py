# SPDX-License-Identifier: Apache-2.0
"""Teacher forcing: each step that dttrain made, from its own checkpoint before the step, once more
by PyTorch in float64, and in float32 to see what that type costs. With dtype=bf16 the second one
is PyTorch's own bfloat16 (autocast).

    train_update.py data DIR
    train_update.py check RUN updates=N KEY=VALUE… [-- RUN …]…    the last N updates of each run and
                    the [train] keys it was made with; prints "RUN: good: …" or "RUN: bad: …"
"""
import glob
import json
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

import train_vit
from train_torch import MEAN, SAMPLES, STD, ResNet, make, read_safetensors, records

# Of the update, relative to its length. A value that falls on the other side of a ReLU's zero costs
# 1e-3 and more, in PyTorch's float32 as well; in a ResNet of many, some do in most steps.
WORST = 2e-2
MEDIAN = {"mlp": 2e-4, "resnet18": 5e-3, "vit": 2e-4, "linformer": 2e-4}
# Transformers have no such zero: of each parameter's update, beside PyTorch's float32.
SMOOTH, SMOOTH_WORST, TIMES_TORCH = ("vit", "linformer"), 1e-4, 4
# bfloat16 keeps 8 bits: an operand is off by up to 2^-9 of itself, a sum of many by as much again
# where they cancel. An update is off by more than float's rounding, and no more than PyTorch's. In
# a transformer PyTorch's autocast keeps the sums of residuals in float32; processors with AMX keep
# them in bfloat16, which rounds each of them once more.
ROUNDING, BF16_TIMES_TORCH = 2**-9, {"mlp": 1.25, "vit": 1.5, "linformer": 1.5, "resnet18": 1.25}
BF16_WORST = {"mlp": 0.25, "vit": 0.25, "linformer": 0.25, "resnet18": 0.6}


class Mlp(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        sizes = [3 * 32 * 32] + hidden + [10]
        for i in range(len(sizes) - 1):
            setattr(self, f"fc{i + 1}", nn.Linear(sizes[i], sizes[i + 1]))
        self.layers = len(sizes) - 1

    def forward(self, x):
        x = x.flatten(1)
        for i in range(1, self.layers):
            x = F.relu(getattr(self, f"fc{i}")(x))
        return getattr(self, f"fc{self.layers}")(x)


class Case:
    def __init__(self, pairs):
        self.set = dict(p.split("=", 1) for p in pairs)

    def number(self, key, default=0.0):
        return float(self.set.get(key, default))

    def bf16(self):
        return self.set.get("dtype") == "bf16"

    def kind(self):
        return self.set["model"].partition("(")[0]

    def states(self):
        bare = self.set["optimizer"] == "sgd" and self.number("momentum", 0.9) == 0
        return [] if bare else STATES[self.set["optimizer"]]

    def model(self):
        if self.kind() in SMOOTH:
            return train_vit.build(self.set["model"])
        if self.kind() == "mlp":
            return Mlp([int(h) for h in self.set["hidden"].split(",")])
        return ResNet(self.set["model"], self.set["stem"])

    def optimizer(self, model, lr):
        named = list(model.named_parameters())
        bare = [p for n, p in named if p.ndim == 1 or n in TOKENS]
        full = [p for n, p in named if p.ndim > 1 and n not in TOKENS]
        decay = self.number("weight_decay")
        groups = [{"params": full, "weight_decay": decay},
                  {"params": bare,
                   "weight_decay": 0.0 if self.set.get("decay") == "weights" else decay}]
        if self.set["optimizer"] == "sgd":
            return torch.optim.SGD(groups, lr, momentum=self.number("momentum"),
                                   nesterov=self.set.get("nesterov") == "true")
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[self.set["optimizer"]]
        return kind(groups, lr)


# Parameters that timm also leaves out of weight decay.
TOKENS = ("cls_token", "pos_embed", "pos_embedding")
def rates(case, steps, each):
    """PyTorch's learning rate of every step; `each` are the steps of an epoch."""
    lr, lambdas = case.number("lr"), torch.optim.lr_scheduler
    if "schedule" not in case.set:
        return [lr] * steps
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr)
    warm = round(case.number("warmup_epochs") * each)
    gamma, low, left = case.number("gamma", 0.1), case.number("min_lr"), steps - warm
    kind = case.set["schedule"]
    cycle = {"total_steps": steps, "pct_start": case.number("peak", 0.3)}
    made = {
        "step": lambda: lambdas.StepLR(optimizer, each * int(case.number("step_epochs")), gamma),
        "multistep": lambda: lambdas.MultiStepLR(
            optimizer, [each * int(m) for m in case.set["milestones"].split(",")], gamma),
        "exponential": lambda: lambdas.StepLR(optimizer, each, gamma),
        "cosine": lambda: lambdas.CosineAnnealingLR(optimizer, left, low),
        "linear": lambda: lambdas.LinearLR(optimizer, 1, low / lr, left),
        "onecycle": lambda: lambdas.OneCycleLR(optimizer, lr, **cycle),
        "triangle": lambda: lambdas.OneCycleLR(optimizer, lr, anneal_strategy="linear", **cycle),
    }[kind]
    first = [lr * (i + 1) / warm for i in range(warm)]
    scheduler, rest = made(), []
    for _ in range(left):
        rest.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return first + rest


STATES = {"sgd": ["momentum_buffer"], "adam": ["exp_avg", "exp_avg_sq"],
          "adamw": ["exp_avg", "exp_avg_sq"]}


def one_step(case, folder, step, lr, batches, dtype, bf16=False):
    """The model after the step that follows checkpoint `step`, and the norm of its gradients."""
    model = case.model().to(dtype)
    weights = read_safetensors(os.path.join(folder, "model.safetensors"))
    model.load_state_dict(weights)
    state = read_safetensors(os.path.join(folder, "state.safetensors"))
    optimizer = case.optimizer(model, lr)
    for name, p in model.named_parameters():
        for s in case.states():
            optimizer.state[p][s] = state[f"{s}.{name}"].to(dtype)
        optimizer.state[p]["step"] = torch.tensor(float(step))
    model.train()
    rows = sum(len(labels) for _, labels in batches)
    for images, labels in batches:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(images.to(dtype))
        loss = F.cross_entropy(logits.to(dtype), labels, reduction="sum",
                               label_smoothing=case.number("label_smoothing"))
        (loss / rows).backward()
    clip = case.number("clip_norm")
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip if clip > 0 else 1e30).item()
    optimizer.step()
    return model.state_dict(), norm


def worst_parameter(case, names, start, end, exact, float32):
    """The largest share of the limit that an error of a parameter's update takes, and whose."""
    worst = 0.0, ""
    for name in names if case.kind() in SMOOTH and not case.bf16() else ():
        update = exact[name] - start[name].double()
        limit = max(SMOOTH_WORST, TIMES_TORCH * distance(float32[name], exact[name], update))
        worst = max(worst, (distance(end[name], exact[name], update) / limit, name))
    return worst


def distance(a, b, scale):
    return (a.double() - b.double()).norm().item() / max(scale.double().norm().item(), 1e-30)


def average_error(case, run, checkpoints):
    """How far the averages of weights are from PyTorch's, with a float's rounding as 1."""
    decay, worst, average = case.number("ema"), 0.0, None
    for path in checkpoints if decay else ():
        state = read_safetensors(os.path.join(path, "state.safetensors"))
        weights = read_safetensors(os.path.join(path, "model.safetensors"))
        names = [k for k in weights if f"ema.{k}" in state]
        for name in names if average else ():
            exact = decay * average[name].double() + (1 - decay) * weights[name].double()
            scale = exact.abs().max().item() * 2.0 ** -23
            worst = max(worst, (state[f"ema.{name}"] - exact).abs().max().item() / scale)
        average = {k: state[f"ema.{k}"] for k in names}
    final = read_safetensors(os.path.join(run, "model.safetensors"))
    same = all(torch.equal(v, final[k]) for k, v in (average or {}).items())
    return worst, same and bool(average) == bool(decay)


def check(run, *pairs):
    case = Case(pairs)
    labels, pixels = records(1, SAMPLES)
    images = (pixels.double() / 255 - MEAN.double()) / STD.double()
    batch, each = int(case.set["batch"]), int(case.set.get("accumulate", 1))
    epochs, plan = int(case.set.get("epochs", 1)), []
    for epoch in range(epochs):
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(epoch))
        parts = [order[i:i + batch] for i in range(0, SAMPLES, batch)]
        plan += [parts[i:i + each] for i in range(0, len(parts), each)]
    lrs = rates(case, len(plan), len(plan) // epochs)
    norms, lr_error = {}, 0.0
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as f:
        for row in map(json.loads, f):
            if row["event"] == "train":
                norms[row["step"]] = row["grad_norm"]
                lr = lrs[row["step"] - 1]
                lr_error = max(lr_error, abs(row["lr"] - lr) / max(lr, 1e-12))
    checkpoints = sorted(glob.glob(os.path.join(run, "state", "checkpoint-*")))
    ours, theirs, norm_error, clipped, worst = [], [], 0.0, 0, (0.0, "")
    stats, torchs_stats = [], [0.0]
    for before, after in list(zip(checkpoints, checkpoints[1:]))[-int(case.set["updates"]):]:
        step = int(before[-10:])
        batches = [(images[p], labels[p]) for p in plan[step]]
        start = read_safetensors(os.path.join(before, "model.safetensors"))
        end = read_safetensors(os.path.join(after, "model.safetensors"))
        exact, norm = one_step(case, before, step, lrs[step], batches, torch.float64)
        float32, _ = one_step(case, before, step, lrs[step], batches, torch.float32, case.bf16())
        trained = [k for k in end if "running" not in k and "tracked" not in k]
        worst = max(worst, worst_parameter(case, trained, start, end, exact, float32))
        flat = {n: torch.cat([d[k].double().flatten() for k in trained])
                for n, d in (("start", start), ("end", end), ("exact", exact), ("f32", float32))}
        update = flat["exact"] - flat["start"]
        ours.append(distance(flat["end"], flat["exact"], update))
        theirs.append(distance(flat["f32"], flat["exact"], update))
        running = [k for k in end if "running" in k]
        stats += [distance(end[k], exact[k], exact[k]) for k in running]
        torchs_stats += [distance(float32[k].double(), exact[k], exact[k]) for k in running]
        norm_error = max(norm_error, abs(norms[step + 1] / norm - 1))
        clipped += norm > case.number("clip_norm", 0) > 0
    median, torchs = sorted(ours)[len(ours) // 2], sorted(theirs)[len(theirs) // 2]
    drift, same = average_error(case, run, checkpoints)
    text = (f"{len(ours)} updates, worst {max(ours):.1e}, median {median:.1e} (PyTorch's "
            f"{'bfloat16' if case.bf16() else 'float32'}: {max(theirs):.1e}, {torchs:.1e}), "
            f"running statistics {max(stats, default=0):.1e} ({max(torchs_stats):.1e}), norm {norm_error:.1e}, "
            f"{clipped} clipped, rates {lr_error:.1e}"
            + (f", average {drift:.1f} roundings" if case.number("ema") else "")
            + (f", worst parameter {worst[1]}: {worst[0]:.2f} of its limit" if worst[1] else ""))
    if case.bf16():
        near = (ROUNDING / 10 < median <= BF16_TIMES_TORCH[case.kind()] * torchs
                and max(ours) <= BF16_WORST[case.kind()] and norm_error <= BF16_WORST[case.kind()]
                and max(stats, default=0) <= max(ROUNDING, 1.25 * max(torchs_stats)))
    else:
        near = (max(ours) <= max(WORST, 1.5 * max(theirs)) and median <= MEDIAN[case.kind()]
                and worst[0] <= 1 and max(stats, default=0) <= 1e-5 and norm_error <= 1e-2)
    good = (near and len(ours) == int(case.set["updates"])
            and lr_error <= 1e-6 and drift <= 4 and same
            and (clipped > 0) == (case.number("clip_norm") > 0))
    print(f"{run}: {'good' if good else 'bad'}: {text}", flush=True)


def check_all(words):
    while words:
        end = words.index("--") if "--" in words else len(words)
        check(*words[:end])
        words = words[end + 1:]


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "data":
        make(sys.argv[2], "imagenet", 5)
    else:
        check_all(sys.argv[2:])
