#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""api.py PORT: moto's server on 127.0.0.1, without two things that it does for each request, a line
in its log and a search of its own folder for its modules. A file of AWS's endpoints is parsed once,
not at each of a dozen places that ask for the regions."""

import functools
import logging
import sys

import botocore.loaders

load = functools.cache(botocore.loaders.JSONFileLoader().load_file)
botocore.loaders.JSONFileLoader.load_file = lambda _, path: load(path)

# Both are imported now that this is set: they load the endpoints.
import moto.backends
import moto.server

logging.getLogger("werkzeug").setLevel(logging.ERROR)
modules = frozenset(moto.backends.list_of_moto_modules())
moto.backends.list_of_moto_modules = lambda: modules
moto.server.main(["-H", "127.0.0.1", "-p", sys.argv[1]])
