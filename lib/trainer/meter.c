// SPDX-License-Identifier: Apache-2.0
// Formats progress lines as PyTorch's ImageNet example does.
#include "trainer/meter.h"

#include "base/json.h"

#include <stdio.h>

void meter_add(struct meter *m, double value, int64_t weight) {
    m->value = value;
    m->sum += value * (double)weight;
    m->count += weight;
}

double meter_mean(const struct meter *m) {
    return m->count ? m->sum / (double)m->count : 0;
}

static int digits(int64_t n) {
    char text[24];
    return snprintf(text, sizeof text, "%lld", (long long)n);
}

void meter_train_line(struct strbuf *out, int64_t epoch, int64_t batch, int64_t batches,
                      const struct meter_set *m) {
    strbuf_addf(out, "Epoch: [%lld][%*lld/%lld]", (long long)epoch, digits(batches),
                (long long)batch, (long long)batches);
    strbuf_addf(out, "\tTime %6.3f (%6.3f)\tData %6.3f (%6.3f)", m->time_s.value,
                meter_mean(&m->time_s), m->data_s.value, meter_mean(&m->data_s));
    strbuf_addf(out, "\tLoss %.4e (%.4e)", m->loss.value, meter_mean(&m->loss));
    strbuf_addf(out, "\tAcc@1 %6.2f (%6.2f)\tAcc@5 %6.2f (%6.2f)", m->top1.value,
                meter_mean(&m->top1), m->top5.value, meter_mean(&m->top5));
}

void meter_eval_line(struct strbuf *out, double top1, double top5) {
    strbuf_addf(out, " * Acc@1 %.3f Acc@5 %.3f", top1, top5);
}

void meter_interval_json(struct strbuf *out, const struct meter_interval *m) {
    struct json_out j;
    json_open(&j, out);
    json_object(&j, NULL);
    json_str(&j, "event", "train");
    json_int(&j, "step", m->step);
    json_int(&j, "epoch", m->epoch);
    json_num(&j, "loss", m->loss);
    json_num(&j, "lr", m->lr);
    json_num(&j, "grad_norm", m->grad_norm);
    json_num(&j, "images_per_s", m->images_per_s);
    json_num(&j, "data_ms", m->data_ms);
    json_num(&j, "compute_ms", m->compute_ms);
    json_num(&j, "comm_exposed_ms", m->comm_ms);
    json_num(&j, "acc1", m->top1);
    json_num(&j, "acc5", m->top5);
    json_int(&j, "batch", m->batch);
    json_int(&j, "batches", m->batches);
    json_int(&j, "epochs", m->epochs);
    json_end(&j);
    strbuf_addc(out, '\n');
}

void meter_eval_json(struct strbuf *out, const struct meter_eval *m) {
    struct json_out j;
    json_open(&j, out);
    json_object(&j, NULL);
    json_str(&j, "event", "eval");
    json_int(&j, "step", m->step);
    json_int(&j, "epoch", m->epoch);
    json_num(&j, "loss", m->loss);
    json_num(&j, "acc1", m->top1);
    json_num(&j, "acc5", m->top5);
    json_int(&j, "images", m->images);
    json_num(&j, "time_ms", m->time_ms);
    json_end(&j);
    strbuf_addc(out, '\n');
}
