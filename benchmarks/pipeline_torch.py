"""`pipelines.py`'s transformer in torch.distributed.pipelining: processes over gloo, each with some of the stages."""

from __future__ import annotations

import socket
from typing import Any

from benchmarks.models.stages import BETAS, EPSILON, MICROBATCHES, RATE, STAGES, Size, batches, parameters
from benchmarks.pipeline_processes import Remote, serve, timed


def torch_processes(program: str, name: str, count: int) -> Remote:
    """Args: program: which calls `in_torch`. name: of the model's size."""
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    own = [program, "--only", name, "--torch", str(count), str(port)]
    return Remote([[*own, str(rank)] for rank in range(count)], {"OMP_NUM_THREADS": "1"})


def torch_stages(size: Size, first: int, last: int) -> Any:
    """The stages from `first` to `last` as a module."""
    import torch
    from torch import nn
    from torch.nn import functional

    def of(tree: Any) -> nn.Module:
        module = nn.Module()
        for key in sorted(tree):
            value = tree[key]
            if isinstance(value, dict):
                module.add_module(key, of(value))
            else:
                module.register_parameter(key, nn.Parameter(torch.tensor(value)))
        return module

    def norm(p: Any, x: Any) -> Any:
        return functional.layer_norm(x, (size.width,), p.scale, p.shift)

    def mlp(p: Any, x: Any) -> Any:
        return x + functional.gelu(norm(p.norm, x) @ p.up + p.up_bias, approximate="tanh") @ p.down + p.down_bias

    def block(p: Any, x: Any) -> Any:
        rows, tokens, width = x.shape
        q, k, v = ((part.reshape(rows, tokens, size.heads, -1).transpose(1, 2)) for part in (norm(p.norm, x) @ p.qkv).split(width, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mlp(p.mlp, x + mixed.transpose(1, 2).reshape(x.shape) @ p.out)

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.ModuleList(of(tree) for tree in parameters(size)[first:last])

        def forward(self, x: Any) -> Any:
            for number, p in enumerate(self.own, first):
                if number == 0:
                    x = mlp(p.mlp, functional.embedding(x, p.table) + p.place)
                else:
                    x = block(p, x) if number < STAGES - 1 else norm(p.norm, x) @ p.out
            return x

    return Part()


def in_order(module: Any) -> list[Any]:
    """A module's parameters as JAX orders a tree's leaves."""
    named = {**dict(module.named_children()), **dict(module.named_parameters(recurse=False))}
    return [leaf for _, part in sorted(named.items()) for leaf in (in_order(part) if hasattr(part, "named_children") else [part])]


def in_torch(size: Size, count: int, port: int, rank: int) -> None:
    """One of the processes."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    from torch.nn import functional

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://localhost:{port}", rank=rank, world_size=count)
    each = STAGES // count
    module = torch_stages(size, rank * each, (rank + 1) * each)
    tokens, labels = (torch.tensor(leaf.reshape(-1, size.tokens)) for leaf in batches(size))
    optimizer = torch.optim.Adam(module.parameters(), RATE, betas=BETAS, eps=EPSILON)

    def loss(scores: Any, labels: Any) -> Any:
        return functional.cross_entropy(scores.flatten(0, 1), labels.flatten().long())

    stage = PipelineStage(module, rank, count, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=loss, scale_grads=True)

    def step() -> None:
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(tokens)
        elif rank == count - 1:
            schedule.step(target=labels, losses=[])
        else:
            schedule.step()
        optimizer.step()
        dist.barrier()

    serve(timed(step), lambda: [optimizer.state[leaf]["exp_avg"].numpy() for own in module.own for leaf in in_order(own)])
