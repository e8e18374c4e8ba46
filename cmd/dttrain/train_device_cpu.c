// SPDX-License-Identifier: Apache-2.0
// Opens the processors for dttrain, which knows no GPU.
#include "base/json.h"
#include "train_device.h"

int train_device_open(struct trainer_device *out, const struct train_config *options,
                      int local_rank, struct err *e) {
    (void)local_rank;
    *out = (struct trainer_device){0};
    if (options->device == TRAIN_DEVICE_GPU)
        return err_set(e, ERR_CONFIG,
                       "train.device: this dttrain computes on processors (try: dttrain-cuda, or "
                       "train.device auto)");
    return 0;
}

void train_device_list(struct strbuf *out) {
    struct json_out j;
    json_open(&j, out);
    json_object(&j, NULL);
    json_str(&j, "device", "cpu");
    json_bool(&j, "ok", true);
    json_str(&j, "text", "this dttrain computes on processors");
    json_end(&j);
    strbuf_addc(out, '\n');
}

void train_device_close(struct trainer_device *device) {
    *device = (struct trainer_device){0};
}
