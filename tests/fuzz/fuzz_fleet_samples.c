// SPDX-License-Identifier: Apache-2.0
// Answers of a node for `dtctl top`, up to the newest metrics: any bytes give figures in their
// bounds, and names that are safe on a terminal.
#include "fleet/fleet_samples.h"
#include "follow/newest_metrics.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static bool fits(int64_t v) {
    return v >= -1 && v <= NODE_SAMPLE_BYTES_MAX;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct arena a = {0};
    struct node_look look;
    struct newest_metrics m;
    struct option_pair pair = {"loss", "loss ([0-9.]+)"};
    newest_metrics_open(&m, &a, &(struct option_map){.items = &pair, .count = 1});
    fleet_samples_parse(&a, (const char *)data, size, 3, &look);
    if (look.run) {
        const struct node_sample *s = &look.sample;
        must(look.run->node_index == 3 && !strpbrk(look.run->state, " \033\n\"'`$"));
        must(look.every_ms >= 0 && s->gpu_count >= 0 && s->gpu_count <= NODE_SAMPLE_GPUS_MAX);
        must(!look.has_sample ||
             (s->cpu_percent <= 100 && fits(s->memory_bytes) && fits(s->memory_limit_bytes) &&
              fits(s->received_bytes_s) && fits(s->sent_bytes_s) && fits(s->read_bytes_s) &&
              fits(s->written_bytes_s) && fits(s->disk_free_bytes)));
        for (int i = 0; i < s->gpu_count; i++)
            must(s->gpus[i].percent <= 100 && s->gpus[i].memory_mib <= NODE_SAMPLE_MIB_MAX);
        newest_metrics_lines(&m, look.out.text, look.out.len);
        newest_metrics_lines(&m, look.err.text, look.err.len);
        newest_metrics_records(&m, look.metrics.text, look.metrics.len);
    }
    newest_metrics_close(&m);
    arena_fini(&a);
    return 0;
}
