# SPDX-License-Identifier: Apache-2.0
"""Bugs for tests/gpu/triton.t: one change each of the text of a kernel's PTX, and how it shows."""

import dataclasses


@dataclasses.dataclass
class Bug:
    name: str
    case: str
    capability: int
    change: tuple  # a pattern, and what replaces it
    shows: str  # a pattern of the message
    places: int = 1  # that are changed; 0: all


BUGS = [
    Bug("a store without its mask", "vector addition", 80,
        (r"@%p\d+ (st\.global)", r"\1"), "write of 4 bytes at offset .* of an allocation"),
    Bug("no barrier between the warps of a sum", "softmax", 80,
        (r"(st\.shared[^;]*;\s[^;]*?)bar\.sync\s+0;", r"\1"), "race: |nobody wrote"),
    Bug("a shuffle over half the distance", "layer normalisation", 80,
        (r"(shfl\.sync\.bfly\.b32\s+%r\d+, %r\d+), 16,", r"\1, 8,"), "race: lanes|are wrong"),
    Bug("a wait for one group of cp.async less", "matmul in bf16, 3 stages", 80,
        (r"cp\.async\.wait_group\s+2;", "cp.async.wait_group 3;"), "bytes in flight"),
    Bug("rows of ldmatrix 16 bytes too far", "matmul in fp16, 2 stages", 80,
        (r"(ldmatrix[^\[]*\[%r\d+)\]", r"\1+16]"), "are wrong|nobody wrote"),
    Bug("no barrier behind the wait for cp.async", "matmul in fp32, 3 stages", 80,
        (r"(cp\.async\.wait_group[^;]*;\s[^;]*?)bar\.sync\s+0;", r"\1"), "race: |in flight|nobody"),
    Bug("an exponent of the wrong base", "attention in fp16", 80,
        (r"ex2\.approx\.ftz\.f32", "tanh.approx.f32"), "are wrong"),
    Bug("a mask that leaves out the diagonal", "attention in bf16, causal", 80,
        (r"setp\.le\.s64", "setp.lt.s64"), "are wrong"),
    Bug("no fence before wgmma", "matmul in fp16, 2 stages", 90,
        (r"wgmma\.fence\.sync\.aligned;", ""), "wgmma.fence"),
    Bug("a wait for one group of wgmma less", "attention in fp16", 90,
        (r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 1;"),
        "was not waited for|unfinished"),
    Bug("no fence between proxies", "matmul in fp16, shapes that are odd, 2 stages", 90,
        (r"fence\.proxy\.async\.shared::cta;", ""), "no fence.proxy.async followed"),
    Bug("terms of wgmma at the next descriptor", "attention in bf16, causal", 90,
        (r"(bfe\.u32\s+%r\d+, %r\d+), 4, 15;", r"\1, 5, 15;"), "are wrong|nobody wrote|in flight"),
    Bug("no wait for an mbarrier", "matmul by tensor descriptors", 90,
        (r"@!complete bra\.uni waitLoop;", ""), "in flight|not waited for"),
    Bug("fewer bytes expected than are copied", "matmul by tensor descriptors", 90,
        (r"(expect_tx[^;]*), 16384;", r"\1, 16368;"), "expects|in flight|not waited for"),
    Bug("a store of a box without a fence", "matmul by tensor descriptors", 90,
        (r"fence\.proxy\.async\.shared::cta;(?!.*fence\.proxy)", ""),
        "no fence.proxy.async followed"),
    Bug("no wait for a store of a box", "matmul by tensor descriptors", 90,
        (r"cp\.async\.bulk\.wait_group(\.read)?\s+0;", ""), "still read its shared memory"),
    Bug("no arrival when a stage is free", "matmul by tensor descriptors, warps apart", 90,
        (r"(@%p\d+ )?mbarrier\.arrive\.shared::cta\.b64[^;]*;", ""),
        "deadlock|nobody completes"),
    Bug("more registers than others give up", "matmul by tensor descriptors, warps apart", 90,
        (r"(BB0_2:.*?setmaxnreg\.dec\.sync\.aligned\.u32\s+)120;", r"\g<1>160;"), "deadlock"),
    # Two faults of Triton that run.py mends.
    Bug("no fence behind the initialisation of an mbarrier", "matmul by tensor descriptors", 90,
        (r"fence\.mbarrier_init\.release\.cluster;", ""), "no fence.mbarrier_init", places=0),
    Bug("a parity of -1", "matmul by tensor descriptors, warps apart", 90,
        (r"(neg\.s32.*?)and\.b32 parity, (%r\d+), 1;", r"\1mov.b32 parity, \2;"),
        "with a parity of 4294967295"),
]
