# SPDX-License-Identifier: Apache-2.0
"""Every Python of a test begins with this (lib.sh, PYTHONPATH). It collects garbage rarely, and
imports of PyTorch what belongs to the compiler only where the compiler is used (late_torch.py). A
worker that imports PyTorch, and the API of the test cloud, spend more than half of their time on
these otherwise, and live for seconds. TEST_PYTHON=plain leaves Python as it is."""

import os

if os.environ.get("TEST_PYTHON") != "plain":
    import gc
    import sys

    import late_torch

    gc.set_threshold(200_000)
    sys.meta_path.insert(0, late_torch)
