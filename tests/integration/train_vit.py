# SPDX-License-Identifier: Apache-2.0
"""Vision transformers in PyTorch: timm's VisionTransformer, and vit-pytorch's efficient ViT around
the package linformer, with their names.

    train_vit.py logits KIND MODEL SIZE TOOL   weights of that kind, for images of SIZE pixels, in
                                               PyTorch against nn_logits on images of 32
    train_vit.py oblong MODEL TOOL             what nn_logits says to positions of no square
    train_vit.py load MODEL FILE               the file into the model, strictly

Several of them, with the word -- between two: see train_torch.py.
"""
import subprocess

import torch
from torch import nn
from torch.nn import functional as F

from train_torch import read_safetensors, several, write_safetensors


class PatchEmbed(nn.Module):
    def __init__(self, dim, patch):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(n, t, d))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, 1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, 1e-6)
        self.mlp = Mlp(dim, mlp * dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, dim=192, depth=12, heads=3, mlp=4, patch=16, size=32, classes=10):
        super().__init__()
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim))
        self.patch_embed = PatchEmbed(dim, patch)
        self.blocks = nn.Sequential(*(Block(dim, heads, mlp) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim, 1e-6)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class LinformerAttention(nn.Module):
    def __init__(self, dim, tokens, heads, keys):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.proj_k = nn.Parameter(torch.randn(tokens, keys))
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.proj_v = nn.Parameter(torch.randn(tokens, keys))
        self.to_out = nn.Linear(dim, dim)

    def split(self, x):
        return x.reshape(len(x), x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        q = self.split(self.to_q(x))
        k = self.split(torch.einsum("ntd,tk->nkd", self.to_k(x), self.proj_k))
        v = self.split(torch.einsum("ntd,tk->nkd", self.to_v(x), self.proj_v))
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1)
        return self.to_out((weights @ v).transpose(1, 2).reshape(x.shape))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden)
        self.w2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.fn = fn
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.fn(self.norm(x))


class Residuals(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        for attention, feed_forward in self.layers:
            x = x + attention(x)
            x = x + feed_forward(x)
        return x


class LinformerStack(nn.Module):
    def __init__(self, dim, tokens, depth, heads, mlp, keys):
        super().__init__()
        self.net = Residuals(nn.ModuleList(
            nn.ModuleList([PreNorm(dim, LinformerAttention(dim, tokens, heads, keys)),
                           PreNorm(dim, FeedForward(dim, mlp * dim))]) for _ in range(depth)))

    def forward(self, x):
        return self.net(x)


class Patches(nn.Module):
    """(h p1) (w p2) to h w, p1 p2 c."""

    def __init__(self, patch):
        super().__init__()
        self.patch = patch

    def forward(self, x):
        n, c, h, w = x.shape
        p = self.patch
        x = x.reshape(n, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1)
        return x.reshape(n, h // p * (w // p), p * p * c)


class Linformer(nn.Module):
    def __init__(self, dim=128, depth=12, heads=8, mlp=4, patch=32, keys=64, pool="cls", size=32,
                 classes=10):
        super().__init__()
        tokens = (size // patch) ** 2 + 1
        self.pool = pool
        self.to_patch_embedding = nn.Sequential(Patches(patch), nn.Linear(patch * patch * 3, dim))
        self.pos_embedding = nn.Parameter(torch.randn(1, tokens, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.transformer = LinformerStack(dim, tokens, depth, heads, mlp, keys)
        self.mlp_head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, x):
        x = self.to_patch_embedding(x)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embedding
        x = self.transformer(x)
        return self.mlp_head(x.mean(1) if self.pool == "mean" else x[:, 0])


def build(text, size=32, classes=10):
    """The model that a text such as vit(dim=96,depth=2) names."""
    name, _, rest = text.partition("(")
    fields = dict(f.split("=") for f in rest.rstrip(")").split(",") if f)
    values = {k: v if k == "pool" else int(v) for k, v in fields.items()}
    return {"vit": Vit, "linformer": Linformer}[name](size=size, classes=classes, **values)


def hugging_face(weights):
    names = {"cls_token": "embeddings.cls_token", "pos_embed": "embeddings.position_embeddings",
             "patch_embed.proj": "embeddings.patch_embeddings.projection", "norm": "layernorm"}
    inner = {"norm1": "layernorm_before", "norm2": "layernorm_after",
             "attn.proj": "attention.output.dense", "mlp.fc1": "intermediate.dense",
             "mlp.fc2": "output.dense"}
    out = {}
    for name, t in weights.items():
        stem, dot, kind = name.rpartition(".")
        if name in names:
            out["vit." + names[name]] = t
        elif stem == "head":
            out["classifier." + kind] = t
        elif not name.startswith("blocks."):
            out["vit." + names[stem] + dot + kind] = t
        else:
            _, i, rest = stem.split(".", 2)
            layer = f"vit.encoder.layer.{i}."
            if rest == "attn.qkv":
                for part, piece in zip(("query", "key", "value"), t.chunk(3)):
                    out[f"{layer}attention.attention.{part}.{kind}"] = piece
            else:
                out[layer + inner[rest] + dot + kind] = t
    return out


def torchvision(weights):
    names = {"cls_token": "class_token", "pos_embed": "encoder.pos_embedding"}
    outer = {"patch_embed.proj": "conv_proj.", "norm": "encoder.ln.", "head": "heads.head."}
    inner = {"norm1": "ln_1.", "norm2": "ln_2.", "attn.qkv": "self_attention.in_proj_",
             "attn.proj": "self_attention.out_proj.", "mlp.fc1": "mlp.0.", "mlp.fc2": "mlp.3."}
    out = {}
    for name, t in weights.items():
        stem, _, kind = name.rpartition(".")
        if name in names:
            out[names[name]] = t
        elif stem in outer:
            out[outer[stem] + kind] = t
        else:
            _, i, rest = stem.split(".", 2)
            out[f"encoder.layers.encoder_layer_{i}.{inner[rest]}{kind}"] = t
    return out


def resized(weights, grid):
    """timm's resample_abs_pos_embed."""
    pos = weights["pos_embed"]
    side, width = int((pos.shape[1] - 1) ** 0.5), pos.shape[2]
    patches = pos[:, 1:].reshape(1, side, side, width).permute(0, 3, 1, 2)
    patches = F.interpolate(patches, (grid, grid), mode="bicubic", antialias=True)
    patches = patches.permute(0, 2, 3, 1).reshape(1, grid * grid, width)
    return {**weights, "pos_embed": torch.cat([pos[:, :1], patches], 1)}


def ask(tool, model, path, images):
    raw = images.permute(0, 2, 3, 1).contiguous().numpy().tobytes()
    return subprocess.run([tool, model, path, "imagenet", "32", "10", str(len(images))], input=raw,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def logits(kind, model, size, tool):
    torch.manual_seed(4)
    weights = build(model, size=int(size)).state_dict()
    kinds = {"hugging_face": hugging_face, "torchvision": torchvision}
    write_safetensors("weights.safetensors", kinds.get(kind, dict)(weights))
    if int(size) != 32:
        weights = resized(weights, 32 // build(model).patch_embed.proj.kernel_size[0])
    peer = build(model)
    peer.load_state_dict(weights, strict=True)
    images = torch.randn(7, 3, 32, 32)
    run = ask(tool, model, "weights.safetensors", images)
    rows = [[float(v) for v in line.split()] for line in run.stdout.decode().splitlines()
            if "=" not in line]
    with torch.no_grad():
        want = peer(images)
    worst = (torch.tensor(rows) - want).abs().max().item()
    print(f"logits up to {want.abs().max().item():.2f}, worst difference {worst:.2e}")
    return worst <= 2e-5


def oblong(model, tool):
    weights = build(model).state_dict()
    weights["pos_embed"] = torch.zeros(1, 13, weights["pos_embed"].shape[2])
    write_safetensors("oblong.safetensors", weights)
    print(ask(tool, model, "oblong.safetensors", torch.randn(1, 3, 32, 32)).stdout.decode())


def load(model, path):
    peer = build(model)
    peer.load_state_dict(read_safetensors(path), strict=True)
    print(f"{sum(p.numel() for p in peer.parameters())} parameters")


if __name__ == "__main__":
    several({"logits": logits, "oblong": oblong, "load": load})
