# SPDX-License-Identifier: Apache-2.0
"""Every Python of a test begins with this (lib.sh, PYTHONPATH). It collects garbage rarely, and
imports of PyTorch what belongs to the compiler only where the compiler is used (late_torch.py). A
worker of a few steps that imports PyTorch and an optimizer spends more than half of its time on
these otherwise; the API of the test cloud collects garbage for a quarter of its own.
TEST_PYTHON=plain leaves Python as it is."""

import os

if os.environ.get("TEST_PYTHON") != "plain":
    import gc
    import sys

    import late_torch

    gc.set_threshold(200_000)
    sys.meta_path.insert(0, late_torch)
