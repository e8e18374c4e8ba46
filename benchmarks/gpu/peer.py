#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of benchmarks/gpu/run: steps of one model, in one process, on one GPU.

    peer.py NAME MODEL SIDE BATCH OPTIMIZER
    peer.py peak

NAME: eager (float, TF32 products), amp (channels last, autocast to bfloat16, or half precision with
a scaler before sm_80, fused optimizer), graphed (the same as one CUDA graph), compiled (the same by
torch.compile, max-autotune). Says "first" after the first step and "ready" after some more; then for
each line N of standard input the seconds of N steps. peak: the most that products of large matrices
get, in TFLOP/s by type, as one JSON object. Without a GPU, for tests, it computes on processors.
"""
import json
import os
import sys
import time

import torch
from torch.nn import functional as F

WARM = 5
NAMES = ("eager", "amp", "graphed", "compiled")
SIDE_PEAK, RUNS_PEAK = 8192, 10
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
# As dttrain does: bfloat16 where the GPU has it.
HALF = torch.float16 if GPU and torch.cuda.get_device_capability() < (8, 0) else torch.bfloat16


def wait():
    if GPU:
        torch.cuda.synchronize()


def fused_attention(module, x):
    """train_vit.py's attention by PyTorch's fused kernel."""
    n, t, d = x.shape
    qkv = module.qkv(x).reshape(n, t, 3, module.heads, d // module.heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v)
    return module.proj(y.transpose(1, 2).reshape(n, t, d))


def build(text, side):
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.join(here, "../../tests/integration"))
    if text.startswith("resnet"):
        from train_torch import ResNet
        name, _, fields = text.rstrip(")").partition("(")
        return ResNet(name, dict(f.split("=") for f in fields.split(","))["stem"])
    import train_vit
    train_vit.Attention.forward = fused_attention
    return train_vit.build(text, size=side)


def make_optimizer(kind, parameters, fast, graphed):
    more = {"fused": True} if fast else {}
    if graphed and kind != "sgd":
        more["capturable"] = True
    if kind == "sgd":
        return torch.optim.SGD(parameters, 1e-3, momentum=0.9, **more)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](parameters, 1e-3, **more)


def make_step(name, text, side, batch, kind):
    fast = name != "eager"
    layout = torch.channels_last if fast else torch.contiguous_format
    model = build(text, side).to(DEVICE, memory_format=layout).train()
    optimizer = make_optimizer(kind, model.parameters(), fast, name == "graphed")
    run = torch.compile(model, mode="max-autotune") if name == "compiled" else model
    images = torch.rand(batch, 3, side, side, device=DEVICE).to(memory_format=layout)
    labels = torch.randint(0, 10, (batch,), device=DEVICE)
    scaler = torch.amp.GradScaler(enabled=fast and HALF == torch.float16 and name != "graphed")

    def step():
        with torch.autocast(DEVICE.type, HALF, enabled=fast):
            loss = F.cross_entropy(run(images).float(), labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def graphed(step):
    """A step as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def serve(name, text, side, batch, kind):
    if name == "graphed" and not GPU:
        sys.exit("graphed needs a GPU")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    step = make_step(name, text, side, batch, kind)
    if name == "graphed":
        step = graphed(step)
    step()
    wait()
    print("first", flush=True)
    for _ in range(WARM if GPU else 0):
        step()
    wait()
    print("ready", flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            step()
        wait()
        print(f"{time.perf_counter() - began:.6f}", flush=True)


def peak():
    side, found = SIDE_PEAK if GPU else 64, {}
    for name, kind in (("f32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16),
                       ("f16", torch.float16)):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        a = torch.rand(side, side, device=DEVICE).to(kind)
        b = torch.rand(side, side, device=DEVICE).to(kind)
        best = 0
        for _ in range(3):
            a @ b
            wait()
            began = time.perf_counter()
            for _ in range(RUNS_PEAK):
                a @ b
            wait()
            took = (time.perf_counter() - began) / RUNS_PEAK
            best = max(best, 2 * side**3 / took / 1e12)
        found[name] = round(best, 6)
    print(json.dumps(found, separators=(",", ":")))


def main():
    words = sys.argv[1:]
    if words == ["peak"]:
        peak()
    elif len(words) == 5 and words[0] in NAMES:
        serve(words[0], words[1], int(words[2]), int(words[3]), words[4])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
