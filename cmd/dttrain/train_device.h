// SPDX-License-Identifier: Apache-2.0
// Chooses what computes. dttrain knows processors alone (train_device_cpu.c), dttrain-cuda GPUs too
// (train_device_cuda.c).
#ifndef DTTRAIN_TRAIN_DEVICE_H
#define DTTRAIN_TRAIN_DEVICE_H

#include "conf/train_config.h"
#include "trainer/trainer.h"

// 1: a device, which the caller closes; 0: the processors. -1: train.device cannot be had.
int train_device_open(struct trainer_device *out, const struct train_config *options,
                      int local_rank, struct err *e);
void train_device_close(struct trainer_device *device);
// Appends a JSON line for each device of this computer, and for NCCL where there are GPUs:
// {"device":"gpu","index":0,"ok":true,"text":"…"}. A device that cannot be used has ok false and
// the error that a run would end with; that is no error here.
void train_device_list(struct strbuf *out);

#endif
