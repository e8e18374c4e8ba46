# SPDX-License-Identifier: Apache-2.0
"""Programs that dtrun_compare.t runs under torchrun and under dtrun. Plain users' code: argv[1] is the case."""
import json
import os
import signal
import sys
import time


def say(line):
    """One write: lines of several ranks must not mix."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def environment():
    """What the launcher added to or changed in what its parent had, as rank 1 sees it."""
    with open(os.environ["COMPARE_PARENT"]) as f:
        parent = dict(line.rstrip("\0").partition("=")[::2] for line in f.read().split("\0"))
    if os.environ["RANK"] == "1":
        for name, value in sorted(os.environ.items()):
            if parent.get(name) != value:
                say(f"{name}={value}")


def ddp():
    import dtrun_torch

    say(dtrun_torch.ddp())


def allowed():
    """How many steps the one who runs this allows by now."""
    with open(f"{os.environ['COMPARE_DIR']}/steps") as f:
        return int(f.read())


def elastic():
    """Checkpoint and restart: the state is of the whole group, so any number of workers goes on from it.

    Without DistributedDataParallel and optimizers, which import the compiler: that takes a worker longer than
    everything else but `import torch`.
    """
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    folder = os.environ["COMPARE_DIR"]
    model = torch.nn.Linear(4, 1)
    data = torch.randn(20, 12, 4, generator=torch.Generator().manual_seed(1))
    state = {"step": 0, "samples": 0, "worlds": []}
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    if os.path.exists(f"{folder}/state.pt"):
        state = torch.load(f"{folder}/state.pt")
        model.load_state_dict(state["model"])
    while state["step"] < len(data):
        if rank == 0:
            torch.save(state | {"model": model.state_dict()}, f"{folder}/state.new")
            os.replace(f"{folder}/state.new", f"{folder}/state.pt")
            with open(f"{folder}/progress.new", "w") as f:
                f.write(f"{state['step']} {world}\n")
            os.replace(f"{folder}/progress.new", f"{folder}/progress")
        limit = torch.tensor(allowed())
        dist.broadcast(limit, src=0)
        if state["step"] >= limit:
            time.sleep(0.1)
            continue
        x = data[state["step"]][rank::world]
        seen = torch.tensor(len(x))
        dist.all_reduce(seen)
        model.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
        with torch.no_grad():
            for weight in model.parameters():
                dist.all_reduce(weight.grad)
                weight -= 0.1 / world * weight.grad
        state["step"] += 1
        state["samples"] += seen.item()
        if state["worlds"][-1:] != [world]:
            state["worlds"].append(world)
    if rank == 0:
        weights = " ".join(f"{w:.4f}" for w in model.weight.flatten().tolist())
        say(f"samples {state['samples']} worlds {state['worlds']} weights {weights}")
        say(f"count {os.environ['TORCHELASTIC_RESTART_COUNT']}")
    dist.destroy_process_group()


def fail():
    from torch.distributed.elastic.multiprocessing.errors import record

    @record
    def main():
        if os.environ["RANK"] == "1":
            print("last words of rank 1", file=sys.stderr)
            raise ValueError("a reason in rank 1")
        time.sleep(600)

    main()


def killed():
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def status():
    sys.exit(7 if os.environ["RANK"] == "1" else 0)


def stubborn():
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(s, signal.SIG_IGN)
    with open(f"{os.environ['COMPARE_DIR']}/pid.{os.environ['RANK']}", "w") as f:
        f.write(f"{os.getpid()}\n")
    while True:
        time.sleep(0.1)


def noisy():
    rank = os.environ["RANK"]
    say(f"out {rank}\nneedle {rank}")
    sys.stderr.write(f"err {rank}\n")


def restart():
    count = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    say(f"count {count} of {os.environ['TORCHELASTIC_MAX_RESTARTS']}")
    if count < 2 and os.environ["RANK"] == "0":
        time.sleep(1)  # the other one has said its line
        sys.exit(1)
    if count < 2:
        time.sleep(600)


def arguments():
    say(json.dumps([__name__, sys.argv[1:], os.environ["LOCAL_RANK"]]))


if __name__ == "__main__":
    # python -m torch.distributed.launch puts its own argument first.
    what = [a for a in sys.argv[1:] if not a.startswith("-")][0]
    globals()[what]()
    sys.stdout.flush()
