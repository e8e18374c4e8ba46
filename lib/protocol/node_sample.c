// SPDX-License-Identifier: Apache-2.0
// Formats and reads a sample of a node.
#include "protocol/node_sample.h"

#include <stddef.h>

struct number {
    const char *key;
    size_t offset;
};

static const struct number WHOLE[] = {
    {"memory_bytes", offsetof(struct node_sample, memory_bytes)},
    {"memory_limit_bytes", offsetof(struct node_sample, memory_limit_bytes)},
    {"received_bytes_s", offsetof(struct node_sample, received_bytes_s)},
    {"sent_bytes_s", offsetof(struct node_sample, sent_bytes_s)},
    {"read_bytes_s", offsetof(struct node_sample, read_bytes_s)},
    {"written_bytes_s", offsetof(struct node_sample, written_bytes_s)},
    {"disk_free_bytes", offsetof(struct node_sample, disk_free_bytes)},
};
enum { WHOLE_COUNT = sizeof WHOLE / sizeof WHOLE[0] };

void node_sample_init(struct node_sample *s) {
    *s = (struct node_sample){.cpu_percent = -1, .cpus = -1};
    for (size_t i = 0; i < WHOLE_COUNT; i++)
        *(int64_t *)((char *)s + WHOLE[i].offset) = -1;
}

double node_sample_gpus(const struct node_sample *s, int64_t *used, int64_t *all) {
    int known = 0, percents = 0;
    *used = *all = -1;
    for (int i = 0; i < s->gpu_count; i++) {
        const struct node_sample_gpu *g = &s->gpus[i];
        known += g->percent >= 0;
        percents += g->percent >= 0 ? g->percent : 0;
        if (g->memory_mib < 0 || g->memory_limit_mib < 0)
            continue;
        *used = (*used < 0 ? 0 : *used) + g->memory_mib;
        *all = (*all < 0 ? 0 : *all) + g->memory_limit_mib;
    }
    return known ? (double)percents / known : -1;
}

static void put(struct json_out *j, const char *key, int64_t value) {
    if (value < 0)
        json_null(j, key);
    else
        json_int(j, key, value);
}

// With one digit behind the point: a month of samples stays small.
static void put_tenths(struct json_out *j, const char *key, double value) {
    if (value < 0)
        json_null(j, key);
    else
        json_num(j, key, (double)(int64_t)(value * 10 + 0.5) / 10);
}

void node_sample_write(const struct node_sample *s, struct json_out *j) {
    json_int(j, "time_ms", s->time_ms);
    put_tenths(j, "cpu_percent", s->cpu_percent);
    put_tenths(j, "cpus", s->cpus);
    for (size_t i = 0; i < WHOLE_COUNT; i++)
        put(j, WHOLE[i].key, *(const int64_t *)((const char *)s + WHOLE[i].offset));
    if (s->gpu_count == 0)
        return;
    json_array(j, "gpu_percent");
    for (int i = 0; i < s->gpu_count; i++)
        put(j, NULL, s->gpus[i].percent);
    json_end(j);
    json_array(j, "gpu_memory_mib");
    for (int i = 0; i < s->gpu_count; i++)
        put(j, NULL, s->gpus[i].memory_mib);
    json_end(j);
    json_array(j, "gpu_limit_mib");
    for (int i = 0; i < s->gpu_count; i++)
        put(j, NULL, s->gpus[i].memory_limit_mib);
    json_end(j);
}

static int64_t whole(const struct json *v, int64_t max) {
    return v && v->type == JSON_INT && v->integer >= 0 && v->integer <= max ? v->integer : -1;
}

static double real(const struct json *v, double max) {
    bool number = v && (v->type == JSON_INT || v->type == JSON_NUM);
    return number && v->number >= 0 && v->number <= max ? v->number : -1;
}

static const struct json *first_of(const struct json *object, const char *key) {
    const struct json *list = json_get(object, key);
    return list && list->type == JSON_ARRAY ? list->child : NULL;
}

bool node_sample_read(const struct json *object, struct node_sample *out) {
    node_sample_init(out);
    if (!object || object->type != JSON_OBJECT)
        return false;
    out->time_ms = whole(json_get(object, "time_ms"), NODE_SAMPLE_BYTES_MAX);
    if (out->time_ms < 0)
        return false;
    out->cpu_percent = real(json_get(object, "cpu_percent"), 100);
    out->cpus = real(json_get(object, "cpus"), NODE_SAMPLE_CPUS_MAX);
    for (size_t i = 0; i < WHOLE_COUNT; i++)
        *(int64_t *)((char *)out + WHOLE[i].offset) =
            whole(json_get(object, WHOLE[i].key), NODE_SAMPLE_BYTES_MAX);
    const struct json *percent = first_of(object, "gpu_percent");
    const struct json *used = first_of(object, "gpu_memory_mib");
    const struct json *limit = first_of(object, "gpu_limit_mib");
    for (; percent && out->gpu_count < NODE_SAMPLE_GPUS_MAX; percent = percent->next) {
        out->gpus[out->gpu_count++] =
            (struct node_sample_gpu){(int)whole(percent, 100), whole(used, NODE_SAMPLE_MIB_MAX),
                                     whole(limit, NODE_SAMPLE_MIB_MAX)};
        used = used ? used->next : NULL;
        limit = limit ? limit->next : NULL;
    }
    return true;
}
