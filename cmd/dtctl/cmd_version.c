// SPDX-License-Identifier: Apache-2.0
// dtctl version: the version; with -v the linked libraries and the carried files.
#include "command.h"

#include "build_info.h"
#include "fleet/embedded_files.h"

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    (void)rest;
    (void)flags;
    (void)e;
    struct screen *screen = s->screen;
    struct strbuf text = {0};
    struct json_out j;
    char packed[STR_HUMAN_BYTES_MAX], size[STR_HUMAN_BYTES_MAX];
    screen_event(&text, &j, "version");
    json_str(&j, "version", DTCTL_VERSION);
    json_str(&j, "build_date", DTCTL_BUILD_DATE);
    json_str(&j, "third_party", DTCTL_THIRD_PARTY);
    json_array(&j, "carries");
    for (size_t i = 0; embedded_at(i); i++) {
        json_object(&j, NULL);
        json_str(&j, "name", embedded_at(i)->name);
        json_str(&j, "sha256", embedded_at(i)->sha256);
        json_int(&j, "bytes", (int64_t)embedded_at(i)->size);
        json_end(&j);
    }
    json_end(&j);
    screen_event_end(screen, &text, &j);
    screen_out(screen, "dtctl %s%s%s\n", DTCTL_VERSION, DTCTL_BUILD_DATE[0] ? ", " : "",
               DTCTL_BUILD_DATE);
    if (!s->config->verbose)
        return 0;
    screen_out(screen, "\nlinked libraries and patches:\n%s", DTCTL_THIRD_PARTY);
    screen_out(screen, "\ncarries:\n");
    for (size_t i = 0; embedded_at(i); i++)
        screen_out(screen, "  %-28s %10s (%s packed)  sha256 %s\n", embedded_at(i)->name,
                   str_human_bytes(size, embedded_at(i)->size),
                   str_human_bytes(packed, embedded_at(i)->size_packed), embedded_at(i)->sha256);
    return 0;
}

const struct command cmd_version = {
    .verb = {.name = "version", .summary = "print the version; with -v what is linked and carried"},
    .marks = COMMAND_ANY_CONFIG,
    .run = run,
};
