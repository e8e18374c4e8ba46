# SPDX-License-Identifier: Apache-2.0
"""Every Python of a test begins with this (lib.sh, PYTHONPATH): it collects garbage rarely. A
worker that imports PyTorch, and the API of the test cloud, spend a quarter of their time on it
otherwise, and live for seconds."""

import gc

gc.set_threshold(200_000)
