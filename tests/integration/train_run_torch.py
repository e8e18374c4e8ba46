# SPDX-License-Identifier: Apache-2.0
# An ordinary DDP script over gloo, as one would start it with torchrun; knows nothing of dtctl but
# where its model goes.
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

if sys.argv[1:] == ["check"]:
    state = torch.load(os.environ["MODEL"], weights_only=True)
    model = torch.nn.Linear(8, 1)
    model.load_state_dict(state)
    error = (model.weight - torch.arange(8.0)).abs().max().item()
    print(f"largest error {error:.3f}")
    sys.exit(0 if error < 0.1 else 1)

torch.manual_seed(0)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(rank)
for step in range(60):
    x = torch.randn(64, 8, generator=generator)
    y = x @ torch.arange(8.0)[:, None]
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
total = loss.detach().clone()
dist.all_reduce(total)
if rank == 0:
    print(f"world {world} loss {total.item() / world:.6f}", flush=True)
    torch.save(model.module.state_dict(), os.path.join(os.environ["DTCTL_MODEL_DIR"], "model.pt"))
dist.barrier()
dist.destroy_process_group()
