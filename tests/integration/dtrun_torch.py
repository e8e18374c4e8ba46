# SPDX-License-Identifier: Apache-2.0
"""What workers of dtrun_torch.t run: PyTorch as users have it, nothing of dtctl. The arguments
are cases, one after another: to import torch takes two seconds of a processor."""
import datetime
import os
import sys

import torch
import torch.distributed as dist


def group():
    """The group of all cases: one that is made again in the same store finds the old one's keys."""
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    return dist.get_rank(), dist.get_world_size()


def collectives():
    rank, world = group()
    t = torch.tensor([float(rank + 1)])
    dist.all_reduce(t)
    assert t.item() == world * (world + 1) / 2
    sub = dist.new_group([0, world - 1])
    if rank in (0, world - 1):
        u = torch.ones(3)
        dist.all_reduce(u, group=sub)
        assert u.tolist() == [2.0 if world > 1 else 1.0] * 3
    dist.barrier()
    dist.monitored_barrier()
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank})
    assert [o["rank"] for o in objects] == list(range(world))
    said = [f"from {rank}"]
    dist.broadcast_object_list(said, src=0)
    assert said == ["from 0"]
    return f"collectives {rank} of {world}"


def ddp():
    rank, world = group()
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(64, 8)[rank::world]
    for _ in range(5):
        optimizer.zero_grad()
        model(data).pow(2).mean().backward()
        optimizer.step()
    total = sum(p.double().sum().item() for p in model.parameters())
    return f"ddp {total:.5f}"


def open_store():
    """A client of the agent's store that has met the other ranks' there: the store, rank and world."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    s = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, False,
                      timeout=datetime.timedelta(seconds=20))
    s.set(f"k{rank}", f"v{rank}")
    assert [s.get(f"k{i}") for i in range(world)] == [f"v{i}".encode() for i in range(world)]
    total = 0
    for _ in range(50):
        total = s.add("sum", 1)
    s.add("arrived", 1)
    while int(s.add("arrived", 0)) < world:
        pass
    assert s.add("sum", 0) == 50 * world and total > 0
    return s, rank, world


def store():
    """dist.TCPStore used directly against the agent's store, every method that this PyTorch has."""
    s, rank, world = open_store()
    assert s.check(["sum", "k0"]) and not s.check(["sum", "nope"])
    if rank == 0:
        assert s.compare_set("cas", "", "one") == b"one"
        assert s.compare_set("cas", "two", "three") == b"one"
        assert s.compare_set("cas", "one", "two") == b"two"
        assert s.compare_set("fresh", "expected", "new") == b"expected"
        s.set("gone", "x")
        assert s.delete_key("gone") and not s.delete_key("gone")
        s.append("log", "a")
        s.append("log", "b")
        assert s.get("log") == b"ab"
        s.multi_set(["m1", "m2"], ["1", "2"])
        assert s.multi_get(["m1", "m2"]) == [b"1", b"2"]
        big = b"x" * 3_000_000
        s.set("big", big)
        assert s.get("big") == big
        if hasattr(s, "queue_push"):
            assert s.queue_len("q") == 0
            s.queue_push("q", "first")
            s.queue_push("q", "second")
            assert s.queue_pop("q") == b"first" and s.queue_len("q") == 1
        if hasattr(s, "list_keys"):
            assert any(k.endswith("cas") for k in s.list_keys())
        assert s.num_keys() > world
        try:
            s.wait(["never"], datetime.timedelta(milliseconds=200))
            raise AssertionError("a wait for nothing came back")
        except dist.DistStoreError:
            pass
        assert s.get("cas") == b"two"  # the connection is still in step
        prefixed = dist.PrefixStore("p", s)
        prefixed.set("x", "y")
        assert prefixed.get("x") == b"y"
        if hasattr(s, "clone"):
            assert s.clone().get("cas") == b"two"
        s.set("done", "1")
    s.wait(["done"])
    if hasattr(s, "barrier"):
        try:
            s.barrier("end", world, datetime.timedelta(seconds=20))
        except TypeError:
            pass  # another signature in this version
    return f"store {rank}"


def store_legacy():
    """What dist.TCPStore could do up to PyTorch 2.0: a second connection, other numbers."""
    s, rank, world = open_store()
    if rank == 0:
        assert s.compare_set("cas", "", "one") == b"one"
        assert s.compare_set("cas", "two", "three") == b"one"
        assert s.delete_key("cas") and not s.delete_key("cas")
        assert s.num_keys() >= world
        s.set("done", "1")
    s.wait(["done"])
    return f"legacy {rank}"


def fail():
    """As a user's script fails: rank 1 raises, the others sit in a collective."""
    from torch.distributed.elastic.multiprocessing.errors import record

    @record
    def main():
        rank, _ = group()
        if rank == 1:
            raise ValueError("a reason in rank 1")
        dist.barrier()

    main()


def restart():
    rank, world = group()
    dist.barrier()
    count = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if count == 0 and rank == world - 1:
        os._exit(3)
    t = torch.ones(1)
    dist.all_reduce(t)
    return f"restarted {count} {int(t.item())}"


if __name__ == "__main__":
    for case in sys.argv[1:]:
        sys.stdout.write((globals()[case]() or "") + "\n")
        sys.stdout.flush()
    if dist.is_initialized():
        dist.destroy_process_group()
