# SPDX-License-Identifier: Apache-2.0
# tests/gpu: a PTX interpreter, stand-ins for libcuda.so.1 and libnccl.so.2, and what tests them. It
# is made by gcc for this machine, and nothing of it is shipped. Programs and libraries are in the
# folder GPU; scripts that need the compiler of CUDA run it.

GPU := $(BUILD)/gpu
GPU_CFLAGS := -std=gnu11 -D_GNU_SOURCE= -I. -O3 -g -fPIC -pthread -ffp-contract=off \
    -frounding-math -fvisibility=hidden $(WARN) -ffile-prefix-map=$(CURDIR)=. -MMD -MP
GPU_SAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined
GPU_NATIVE := $(shell echo | gcc -march=native -E - >/dev/null 2>&1 && echo -march=native)
gpu_objects = $(patsubst %.c,$(GPU)/%.o,$(sort $(wildcard $(1))))
GPU_EMU := $(call gpu_objects,tests/gpu/emu/*.c)
GPU_DRIVER := $(call gpu_objects,tests/gpu/driver/*.c)
GPU_NCCL := $(call gpu_objects,tests/gpu/nccl/*.c)
GPU_TESTS := $(patsubst tests/gpu/%.c,$(GPU)/%,$(sort $(wildcard tests/gpu/test_*.c)))
GPU_LIBS := $(GPU)/libcuda.so.1 $(if $(GPU_NCCL),$(GPU)/libnccl.so.2)

GPU_LINES := $(patsubst kernels/cuda/%.cu,$(GPU)/lines/%.ptx,$(CUDA_SOURCES))

gpu-programs: $(if $(CUDA_READY),$(GPU)/device $(GPU_LINES)) $(GPU_TESTS) $(GPU_LIBS) \
    $(patsubst %,$(GPU)/test_%.san,scalar warp tensor warpgroup bulk bulk_store)

$(GPU)/%.o: %.c
	$(call say,CC,$<)mkdir -p $(@D) && gcc $(GPU_CFLAGS) $(GPU_NATIVE) -c -o $@ $<

$(GPU)/libcuda.so.1: $(GPU_EMU) $(GPU_DRIVER)
	$(call say,LINK,$@)gcc -shared -pthread -Wl,-soname,$(@F) -o $@ $^ -lm

$(GPU)/libnccl.so.2: $(GPU_NCCL) $(GPU)/libcuda.so.1
	$(call say,LINK,$@)gcc -shared -pthread -Wl,-soname,$(@F) -o $@ $^ -lm -ldl

# The shipped kernels with places of their source, for removed.t.
$(GPU)/lines/%.ptx: kernels/cuda/%.cu $(wildcard kernels/cuda/*.h kernels/cuda/*.cuh)
	$(call say,NVCC,$@)mkdir -p $(@D) && $(NVCC) -std=c++17 -I. -lineinfo -ptx \
	    -arch=compute_$(if $(filter hopper,$*),90a,80) -o $@ $<

# The launchers of the shipped kernels, and the plain-C backend that judges them.
GPU_CUDA := $(call gpu_objects,kernels/cuda/*.c kernels/cpu/reference_f32.c kernels/cpu/ctx.c \
    kernels/cpu/thread_pool.c)
$(patsubst tests/gpu/%.c,$(GPU)/%,$(wildcard tests/gpu/test_cuda_*.c)): $(GPU_CUDA)

$(GPU)/test_%: $(GPU)/tests/gpu/test_%.o $(GPU_EMU)
	$(call say,LINK,$@)gcc -pthread -o $@ $^ -lm -ldl

# The cases of these tests on the driver, and what benchmarks/gpu/run measures of a GPU: one
# program, which starts where dttrain-cuda does. The main of each test is a part of it, by the
# test's name.
GPU_PARTS := $(patsubst tests/gpu/%.c,%,$(wildcard tests/gpu/test_cuda_*.c))
GPU_DEVICE := $(patsubst %,$(GPU)/part/tests/gpu/%.o,device $(GPU_PARTS)) \
    $(GPU)/part/benchmarks/gpu/device_speed.o
$(foreach p,$(GPU_PARTS),$(eval $(GPU)/part/tests/gpu/$(p).o: GPU_PART := -Dmain=$(p) \
    -Wno-missing-prototypes))
$(GPU)/part/%.o: %.c $(O)/.flags
	$(call say,CC,$<)mkdir -p $(@D) && $(TOOL) $(FINAL_CFLAGS) -DCASE_DRIVER $(GPU_PART) -c -o $@ $<

$(GPU)/device: $(GPU_DEVICE) $(O)/cmd/dttrain/cuda/floor.o $(O)/cmd/dttrain/cuda/start.o \
    $(patsubst kernels/cuda/%.cu,$(O)/fatbin/%.o,$(CUDA_SOURCES)) \
    $(call archive,base gpu kernels) $(O)/floor/libc.so
	$(call say,LINK,$@)gcc -pie -nostdlib -o $@ $(filter %.o,$^) $(call group,$(filter %.a,$^)) \
	    -Wl,--gc-sections $(MODE_LDFLAGS_release) -L$(O)/floor -Wl,--no-as-needed -lm -lc -ldl \
	    -lpthread -lgcc && strip -s $@

# Collectives of devices, with the layers below them as gcc makes them for this machine.
GPU_HOST := $(call gpu_objects,lib/base/*.c lib/sys/*.c lib/comm/*.c)
$(GPU)/lib/%.o: lib/%.c
	$(call say,CC,$<)mkdir -p $(@D) && gcc $(filter-out -O3,$(GPU_CFLAGS)) -O1 -Ilib -c -o $@ $<

GPU_HOST_TESTS := collectives nccl_library
$(GPU_HOST_TESTS:%=$(GPU)/tests/gpu/test_%.o): GPU_CFLAGS += -Ilib
$(GPU_HOST_TESTS:%=$(GPU)/test_%): $(GPU)/test_%: $(GPU)/tests/gpu/test_%.o $(GPU_HOST)
	$(call say,LINK,$@)gcc -pthread -o $@ $^ -lm -ldl -lcrypto

# The interpreter under sanitizers, with the same snippets.
$(GPU)/san/%.o: %.c
	$(call say,CC,$<)mkdir -p $(@D) && gcc $(filter-out -O3,$(GPU_CFLAGS)) -O1 $(GPU_SAN) -c -o $@ $<

$(GPU)/test_%.san: $(GPU)/san/tests/gpu/test_%.o $(GPU_EMU:$(GPU)/%=$(GPU)/san/%)
	$(call say,LINK,$@)gcc $(GPU_SAN) -o $@ $^ -lm

.PHONY: gpu-programs
.SECONDARY: $(GPU_EMU:$(GPU)/%=$(GPU)/san/%)
-include $(shell find $(GPU) -name '*.d' 2>/dev/null)
