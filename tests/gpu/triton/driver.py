# SPDX-License-Identifier: Apache-2.0
"""The part of CUDA's driver API that tests/gpu/triton.t needs, from the stand-in of libcuda.so.1."""

import ctypes
import dataclasses

import numpy

THREADS_OF_WARP = 32
MAP_BYTES, MAP_ALIGN = 128, 64  # of a tensor map
SHARED_OPTIN = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
SCRATCH_POINTERS = 2  # that Triton's kernels have behind the parameters of their source


class Fault(Exception):
    """The message of the stand-in."""


@dataclasses.dataclass
class Out:
    """An array that the kernel writes; `initial` is in it before, or nothing is."""

    want: numpy.ndarray
    bound: object = 0  # of the absolute error: a number, or an array of the same shape
    type: object = None  # in the device's memory; else that of `want`
    initial: object = None


@dataclasses.dataclass
class Descriptor:
    """A matrix by a tensor map; `meta` of the compiled kernel says which."""

    array: object


class Map(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * MAP_BYTES)]


class Driver:
    """A context with two streams: one copies to the device, the other one does all else."""

    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        self.lib.emu_fault.restype = ctypes.c_char_p
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.copies, self.work = self.stream(), self.stream()
        self.copied = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(self.copied), 2)

    def call(self, name, *args):
        if getattr(self.lib, name)(*args):
            raise Fault(self.lib.emu_fault().decode() or name)

    def stream(self):
        s = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(s), 1)
        return s

    def allocate(self, count):
        p = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(count))
        return p

    def upload(self, array):
        p = self.allocate(array.nbytes)
        self.call("cuMemcpyHtoDAsync_v2", p, array.ctypes.data_as(ctypes.c_void_p),
                  ctypes.c_size_t(array.nbytes), self.copies)
        return p

    def download(self, p, array):
        self.call("cuMemcpyDtoHAsync_v2", array.ctypes.data_as(ctypes.c_void_p), p,
                  ctypes.c_size_t(array.nbytes), self.work)

    def function(self, ptx, name):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ptx.encode())
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def tensor_map(self, p, array, meta, keep):
        """The parameters of a descriptor: its map, its shape, and its strides."""
        room = (ctypes.c_uint8 * (MAP_BYTES + MAP_ALIGN))()
        keep.append(room)
        at = ctypes.addressof(room) + -ctypes.addressof(room) % MAP_ALIGN
        rows, columns = array.shape
        box = meta["block_size"][::-1]
        self.call("cuTensorMapEncodeTiled", ctypes.c_void_p(at), meta["elem_type"], 2, p,
                  (ctypes.c_uint64 * 2)(columns, rows),
                  (ctypes.c_uint64 * 1)(array.strides[0]), (ctypes.c_uint32 * 2)(*box),
                  (ctypes.c_uint32 * 2)(1, 1), 0, meta["swizzle"], 0, 0)
        return [Map.from_address(at), ctypes.c_int32(rows), ctypes.c_int32(columns),
                ctypes.c_int64(columns), ctypes.c_int64(1)]

    def run(self, kernel, ptx, grid, arguments):
        """Returns the arrays that the kernel has written, in their order."""
        function = self.function(ptx, kernel.name)
        self.call("cuFuncSetAttribute", function, SHARED_OPTIN, kernel.shared)
        params, outs, keep, buffers = [], [], [], []
        metas = iter(kernel.descriptors)
        for argument in arguments:
            value = argument.array if isinstance(argument, Descriptor) else argument
            if isinstance(value, (int, numpy.integer)):
                params.append(ctypes.c_int32(value))
                continue
            if isinstance(value, float):
                params.append(ctypes.c_float(value))
                continue
            if isinstance(value, Out):
                array = numpy.empty(value.want.shape, value.type or value.want.dtype)
                p = self.allocate(array.nbytes) if value.initial is None \
                    else self.upload(value.initial)
                outs.append((p, array))
            else:
                array, p = value, self.upload(value)
            buffers.append(p)
            params += self.tensor_map(p, array, next(metas), keep) \
                if isinstance(argument, Descriptor) else [p]
        params += [ctypes.c_uint64(0)] * SCRATCH_POINTERS
        self.call("cuEventRecord", self.copied, self.copies)
        self.call("cuStreamWaitEvent", self.work, self.copied, 0)
        pointers = (ctypes.c_void_p * len(params))(*[ctypes.addressof(p) for p in params])
        grid = tuple(grid) + (1,) * (3 - len(grid))
        self.call("cuLaunchKernel", function, *grid, kernel.warps * THREADS_OF_WARP, 1, 1,
                  kernel.shared, self.work, pointers, None)
        for p, array in outs:
            self.download(p, array)
        self.call("cuStreamSynchronize", self.work)
        for p in buffers:
            self.call("cuMemFree_v2", p)
        return [array for _, array in outs]
