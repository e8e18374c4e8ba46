// SPDX-License-Identifier: Apache-2.0
// The addresses that may connect over SSH: those of aws.operator_cidrs, or the operator's own.
#include "aws/aws_cluster.h"

#include "sys/net.h"
#include "sys/proc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_MS_MAX = 15000 };

// AWS's own service that says which address a request comes from.
#define ASK_URL "https://checkip.amazonaws.com"

static bool is_private(const char *address) {
    static const char *const prefixes[] = {
        "10.", "127.", "169.254.", "192.168.", "fe80:", "fc", "fd", "::1", "0.", NULL};
    int second;
    for (int i = 0; prefixes[i]; i++)
        if (str_starts(address, prefixes[i]))
            return true;
    if (sscanf(address, "172.%d.", &second) == 1 && second >= 16 && second < 32)
        return true;
    return sscanf(address, "100.%d.", &second) == 1 && second >= 64 && second < 128;
}

// The source address for packets to the internet. Behind NAT it is private, and the public address
// cannot be determined locally.
static int find_operator(struct context *s, const char **cidr, struct err *e) {
    struct net_address to, local;
    char text[NET_ADDRESS_BYTES_MAX] = "";
    bool inside = strcmp(aws_config_address[s->config->aws.public_address], "none") == 0;
    const char *why = "";
    if (net_resolve("203.0.113.1", 22, &to, e) == 0 && net_route_source(&to, &local, e) == 0) {
        net_format(&local, text);
        if (inside || !is_private(text)) {
            *cidr = arena_printf(s->arena, "%s/32", text);
            return 0;
        }
        why = arena_printf(s->arena, " (it is %s, behind NAT)", text);
    }
    return err_set(
        e, ERR_CONFIG,
        "%s: this computer's address as AWS sees it cannot be found out from here%s; "
        "say where SSH may come from, such as --operator-cidr 198.51.100.7/32, or let dtctl "
        "ask AWS: --operator-cidr auto",
        config_where(s->config, "aws.operator_cidrs"), why);
}

// Asks AWS, which the operator has agreed to by writing "auto".
static int ask_operator(struct context *s, const char **range, struct err *e) {
    static const char *const argv[] = {"curl", "-fsS", "--max-time", "10", ASK_URL, NULL};
    struct proc_spec spec = {.argv = argv, .env = s->env, .in = -1, .err = -1};
    char *text = NULL;
    int status, result = -1;
    struct err why = {0};
    if (proc_run(&spec, &text, NET_ADDRESS_BYTES_MAX, ASK_MS_MAX, &status, &why) == 0) {
        size_t len = strcspn(text, " \r\n");
        const char *address = str_printable(s->arena, text, len);
        if (status == 0 && net_is_numeric(address) && !is_private(address)) {
            *range = arena_printf(s->arena, "%s/%d", address, strchr(address, ':') ? 128 : 32);
            result = 0;
        } else {
            err_set(&why, ERR_NET, "curl ended with status %d and said '%s'",
                    proc_status_code(status), address);
        }
    }
    free(text);
    if (result < 0)
        err_set(e, ERR_NET,
                "%s: auto: " ASK_URL " does not say this computer's address: %s; say where SSH may "
                "come from, such as --operator-cidr 198.51.100.7/32",
                config_where(s->config, "aws.operator_cidrs"), why.text);
    return result;
}

int aws_operator_cidrs_fill(struct aws_cluster *c, struct err *e) {
    struct context *s = c->context;
    const struct option_list *given = &s->config->aws.operator_cidrs;
    struct aws_vars *v = &c->vars;
    if (v->operator_cidr_count) // asked once per command
        return 0;
    size_t count = given->count ? given->count : 1;
    const char **ranges = arena_new(s->arena, const char *, count);
    for (size_t i = 0; i < given->count; i++) {
        ranges[i] = given->items[i];
        if (str_eq(ranges[i], "auto") && ask_operator(s, &ranges[i], e) < 0)
            return -1;
    }
    if (given->count == 0 && find_operator(s, &ranges[0], e) < 0)
        return -1;
    v->operator_cidrs = ranges;
    v->operator_cidr_count = count;
    return 0;
}
