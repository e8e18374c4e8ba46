# SPDX-License-Identifier: Apache-2.0
"""A finder of modules (importlib.abc.MetaPathFinder) for two of PyTorch's that take longer to import
than all the rest. torch._meta_registrations has the operations of tensors without data. Of
torch._dynamo, the compiler, DistributedDataParallel and optimizers ask little where nothing is
compiled (ASKED). Both are executed when anything else of one of them is used."""

import importlib.machinery
import sys
import types

META, DYNAMO = "torch._meta_registrations", "torch._dynamo"


def same(function=None, *_, **_options):
    return function or same


ASKED = {
    "disable": same,
    "graph_break": same,
    "utils": types.SimpleNamespace(get_optimize_ddp_mode=lambda: "ddp_optimizer"),
    "trace_rules": types.SimpleNamespace(
        LEGACY_MOD_INLINELIST=set(),
        get_legacy_mod_inlinelist=types.SimpleNamespace(cache_clear=lambda: None)),
}
late = {}  # name: the loader of PyTorch's own
is_used = False


class Late(types.ModuleType):
    def __getattr__(self, name):
        if self.__name__ == DYNAMO and name in ASKED:
            return ASKED[name]
        if name.startswith("__"):
            raise AttributeError(name)
        execute()
        return getattr(self, name)


def execute():
    global is_used
    if is_used:
        return
    is_used = True
    modules = [sys.modules[name] for name in late]
    for module in modules:
        module.__class__ = types.ModuleType
    for module in modules:
        late[module.__name__].exec_module(module)


def give_generators_their_class():
    """What META's imports do (torch._prims.rng_prims) and torch.Generator needs since 2.13."""
    import torch
    if hasattr(torch._C, "_set_generator_metaclass"):
        from torch._opaque_base import OpaqueBaseMeta
        torch._C._set_generator_metaclass(OpaqueBaseMeta)


class Loader:
    @staticmethod
    def create_module(spec):
        return sys.modules.get(spec.name) or Late(spec.name)

    @staticmethod
    def exec_module(module):
        if module.__name__ == META:
            give_generators_their_class()


def find_spec(name, path=None, target=None):
    if is_used or name != META and not (name + ".").startswith(DYNAMO + "."):
        return None
    if name not in (META, DYNAMO):  # a part of the compiler
        execute()
        if name not in sys.modules:
            return None
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    late[name], spec.loader = spec.loader, Loader
    return spec
