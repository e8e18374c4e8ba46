// SPDX-License-Identifier: Apache-2.0
// Parses ssh client configuration files.
#include "remote/ssh_config.h"

#include "base/log.h"
#include "base/str.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

// Iterative with one backtracking point: at worst linear time times the number of stars, never
// exponential on hostile patterns.
bool ssh_config_glob(const char *pattern, const char *text) {
    const char *star = NULL, *mark = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            mark = text;
        } else if (*pattern == '?' || (*pattern && *pattern == *text)) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++mark;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

// ---- one line ---------------------------------------------------------------------------------

struct line {
    char *words[SSH_CONFIG_WORDS_MAX];
    size_t count;
};

// Splits "Keyword value…" or "Keyword=value…". Words may be in double quotes, in which a backslash
// escapes '"' and itself. '#' at the beginning of a word starts a comment.
static int split_line(struct arena *a, const char *p, size_t len, struct line *out, struct err *e) {
    const char *end = p + len;
    out->count = 0;
    while (p < end) {
        while (p < end && (isspace((unsigned char)*p) || (*p == '=' && out->count == 1)))
            p++;
        if (p == end || *p == '#')
            break;
        if (out->count == SSH_CONFIG_WORDS_MAX)
            return err_set(e, ERR_LIMIT, "more than %d words", SSH_CONFIG_WORDS_MAX);
        char *w = arena_new(a, char, (size_t)(end - p) + 1);
        size_t n = 0;
        bool quoted = false;
        for (; p < end; p++) {
            if (*p == '"')
                quoted = !quoted;
            else if (*p == '\\' && p + 1 < end && (p[1] == '"' || p[1] == '\\'))
                w[n++] = *++p;
            else if (!quoted && (isspace((unsigned char)*p) || (*p == '=' && out->count == 0)))
                break;
            else
                w[n++] = *p;
        }
        if (quoted)
            return err_set(e, ERR_FORMAT, "a quote is not closed");
        out->words[out->count++] = w;
    }
    return 0;
}

// ---- keywords ---------------------------------------------------------------------------------

struct state {
    struct arena *a;
    const struct ssh_config_query *q;
    struct ssh_config *c;
    int depth;
};

static int add_text(struct state *s, const struct ssh_config_file *file, bool active,
                    struct err *e);

typedef int keyword_set(struct state *s, const struct line *l, struct err *e);

static int set_once(const char **slot, const char *value) {
    if (!*slot)
        *slot = value;
    return 0;
}

static int set_host_name(struct state *s, const struct line *l, struct err *e) {
    (void)e;
    return set_once(&s->c->host_name, l->words[1]);
}

static int set_host_key_alias(struct state *s, const struct line *l, struct err *e) {
    (void)e;
    return set_once(&s->c->host_key_alias, l->words[1]);
}

static int set_user(struct state *s, const struct line *l, struct err *e) {
    (void)e;
    return set_once(&s->c->user, l->words[1]);
}

static int set_proxy_jump(struct state *s, const struct line *l, struct err *e) {
    (void)e;
    // ssh(1): the first of ProxyJump and ProxyCommand wins.
    if (!s->c->proxy_command)
        (void)set_once(&s->c->proxy_jump, l->words[1]);
    return 0;
}

static int set_proxy_command(struct state *s, const struct line *l, struct err *e) {
    (void)e;
    if (!s->c->proxy_jump)
        (void)set_once(&s->c->proxy_command, l->words[1]);
    return 0;
}

static int set_identity_agent(struct state *s, const struct line *l, struct err *e) {
    (void)e;
    return set_once(&s->c->identity_agent, l->words[1]);
}

static int set_port(struct state *s, const struct line *l, struct err *e) {
    int64_t port;
    if (str_parse_i64(l->words[1], 1, 65535, &port, e) < 0)
        return err_wrap(e, "Port");
    if (!s->c->port)
        s->c->port = (int)port;
    return 0;
}

static int set_identities_only(struct state *s, const struct line *l, struct err *e) {
    bool yes = strcasecmp(l->words[1], "yes") == 0 || strcasecmp(l->words[1], "true") == 0;
    bool no = strcasecmp(l->words[1], "no") == 0 || strcasecmp(l->words[1], "false") == 0;
    if (!yes && !no)
        return err_set(e, ERR_FORMAT, "IdentitiesOnly takes yes or no");
    if (!s->c->identities_only_set)
        s->c->identities_only = yes;
    s->c->identities_only_set = true;
    return 0;
}

static int add_identity(struct state *s, const struct line *l, struct err *e) {
    struct ssh_config *c = s->c;
    if (c->identity_count == SSH_CONFIG_IDENTITIES_MAX)
        return err_set(e, ERR_LIMIT, "more than %d IdentityFile lines", SSH_CONFIG_IDENTITIES_MAX);
    if (!c->identities)
        c->identities = arena_new(s->a, const char *, SSH_CONFIG_IDENTITIES_MAX);
    c->identities[c->identity_count++] = l->words[1];
    return 0;
}

static const char *join_words(struct state *s, const struct line *l) {
    const char *all = l->words[1];
    for (size_t i = 2; i < l->count; i++)
        all = arena_printf(s->a, "%s\n%s", all, l->words[i]);
    return all;
}

static int set_user_known_hosts(struct state *s, const struct line *l, struct err *e) {
    (void)e;
    return set_once(&s->c->user_known_hosts, join_words(s, l));
}

static int set_global_known_hosts(struct state *s, const struct line *l, struct err *e) {
    (void)e;
    return set_once(&s->c->global_known_hosts, join_words(s, l));
}

static const char *expand_home(struct arena *a, const char *home, const char *path) {
    if (str_eq(path, "~"))
        return home;
    return str_starts(path, "~/") ? arena_printf(a, "%s%s", home, path + 1) : path;
}

static int include(struct state *s, const struct line *l, struct err *e) {
    if (s->depth >= SSH_CONFIG_INCLUDE_DEPTH_MAX)
        return err_set(e, ERR_LIMIT, "Include goes deeper than %d", SSH_CONFIG_INCLUDE_DEPTH_MAX);
    if (!s->q->read_files)
        return 0;
    for (size_t i = 1; i < l->count; i++) {
        const char *pattern = expand_home(s->a, s->q->home, l->words[i]);
        if (pattern[0] != '/')
            pattern = arena_printf(s->a, "%s/.ssh/%s", s->q->home, pattern);
        struct ssh_config_file *files = NULL;
        size_t count = 0;
        if (s->q->read_files(s->q->ctx, s->a, pattern, &files, &count, e) < 0)
            return -1;
        s->depth++;
        for (size_t f = 0; f < count; f++)
            if (add_text(s, &files[f], true, e) < 0)
                return -1;
        s->depth--;
    }
    return 0;
}

static const struct {
    const char *name;
    keyword_set *set;
} keywords[] = {
    {"HostName", set_host_name},
    {"HostKeyAlias", set_host_key_alias},
    {"User", set_user},
    {"Port", set_port},
    {"IdentityFile", add_identity},
    {"IdentitiesOnly", set_identities_only},
    {"IdentityAgent", set_identity_agent},
    {"ProxyJump", set_proxy_jump},
    {"ProxyCommand", set_proxy_command},
    {"UserKnownHostsFile", set_user_known_hosts},
    {"GlobalKnownHostsFile", set_global_known_hosts},
    {"Include", include},
};

static bool host_matches(const struct line *l, const char *alias) {
    bool match = false;
    for (size_t i = 1; i < l->count; i++) {
        bool negated = l->words[i][0] == '!';
        if (!ssh_config_glob(l->words[i] + negated, alias))
            continue;
        if (negated)
            return false;
        match = true;
    }
    return match;
}

// A comma-separated list, "gpu*,!gpu9".
static bool list_matches(struct arena *a, const char *list, const char *text) {
    char **items;
    struct line l = {.count = 1};
    size_t count = str_split(a, list, ',', &items);
    for (size_t i = 0; i < count && l.count < SSH_CONFIG_WORDS_MAX; i++)
        l.words[l.count++] = items[i];
    return host_matches(&l, text);
}

// The value that a Match criterion is compared with; NULL: unsupported criterion.
static const char *match_subject(const struct state *s, const char *criterion) {
    const struct ssh_config *c = s->c;
    if (strcasecmp(criterion, "host") == 0)
        return c->host_name ? c->host_name : s->q->alias;
    if (strcasecmp(criterion, "originalhost") == 0)
        return s->q->alias;
    if (strcasecmp(criterion, "user") == 0)
        return c->user ? c->user : s->q->user;
    return strcasecmp(criterion, "localuser") == 0 ? s->q->user : NULL;
}

static bool match_holds(const struct state *s, const struct line *l) {
    if (l->count == 2 && strcasecmp(l->words[1], "all") == 0)
        return true;
    for (size_t i = 1; i < l->count; i += 2) {
        bool negated = l->words[i][0] == '!';
        const char *criterion = l->words[i] + negated, *subject = match_subject(s, criterion);
        if (!subject || i + 1 == l->count) {
            log_warn("skipping a Match block of the ssh configuration", "host=%s criterion=%s",
                     s->q->alias, criterion);
            return false;
        }
        if (list_matches(s->a, l->words[i + 1], subject) == negated)
            return false;
    }
    return true;
}

static int apply(struct state *s, const struct line *l, bool *active, struct err *e) {
    const char *name = l->words[0];
    if (l->count < 2)
        return err_set(e, ERR_FORMAT, "%s has no value", str_printable(s->a, name, strlen(name)));
    if (strcasecmp(name, "Host") == 0) {
        *active = host_matches(l, s->q->alias);
        return 0;
    }
    if (strcasecmp(name, "Match") == 0) {
        *active = match_holds(s, l);
        return 0;
    }
    for (size_t i = 0; *active && i < sizeof keywords / sizeof *keywords; i++)
        if (strcasecmp(name, keywords[i].name) == 0)
            return keywords[i].set(s, l, e);
    return 0;
}

static int add_text(struct state *s, const struct ssh_config_file *file, bool active,
                    struct err *e) {
    const char *p = file->text, *end = file->text + file->len;
    for (int number = 1; p < end; number++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t len = (size_t)((nl ? nl : end) - p);
        struct line l;
        if (len > SSH_CONFIG_LINE_BYTES_MAX)
            return err_set(e, ERR_LIMIT, "%s:%d: a line of more than %d bytes", file->path, number,
                           SSH_CONFIG_LINE_BYTES_MAX);
        if (memchr(p, '\0', len))
            return err_set(e, ERR_FORMAT, "%s:%d: a NUL byte", file->path, number);
        if (split_line(s->a, p, len, &l, e) < 0 || (l.count && apply(s, &l, &active, e) < 0))
            return err_wrap(e, "%s:%d", file->path, number);
        p += len + 1;
    }
    return 0;
}

int ssh_config_add(struct arena *a, const struct ssh_config_query *q,
                   const struct ssh_config_file *file, struct ssh_config *c, struct err *e) {
    struct state s = {.a = a, .q = q, .c = c};
    return add_text(&s, file, true, e);
}

// ---- tokens -----------------------------------------------------------------------------------

static int expand(struct arena *a, const struct ssh_config_query *q, const struct ssh_config *c,
                  const char *host, const char *value, const char **out, struct err *e) {
    struct strbuf b;
    strbuf_init(&b, SSH_CONFIG_LINE_BYTES_MAX);
    for (const char *p = value; *p; p++) {
        if (*p != '%') {
            strbuf_addc(&b, *p);
            continue;
        }
        switch (*++p) {
        case '%': strbuf_addc(&b, '%'); break;
        case 'h': strbuf_adds(&b, host); break;
        case 'n': strbuf_adds(&b, q->alias); break;
        case 'd': strbuf_adds(&b, q->home); break;
        case 'u': strbuf_adds(&b, q->user); break;
        case 'r': strbuf_adds(&b, c->user ? c->user : q->user); break;
        case 'p': strbuf_addf(&b, "%d", c->port ? c->port : 22); break;
        default: {
            char token[2] = {*p, '\0'};
            strbuf_fini(&b);
            return err_set(e, ERR_CONFIG, "ssh configuration: '%s': %%%s is not supported here",
                           value, token);
        }
        }
    }
    bool over = b.overflow;
    *out = over ? NULL : arena_strndup(a, strbuf_cstr(&b), b.len);
    strbuf_fini(&b);
    return over ? err_set(e, ERR_LIMIT, "ssh configuration: a value of more than %d bytes",
                          SSH_CONFIG_LINE_BYTES_MAX)
                : 0;
}

static int expand_list(struct arena *a, const struct ssh_config_query *q,
                       const struct ssh_config *c, const char **list, struct err *e) {
    if (!*list)
        return 0;
    char **parts;
    size_t count = str_split(a, *list, '\n', &parts);
    const char *all = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *path;
        if (expand(a, q, c, c->host_name, expand_home(a, q->home, parts[i]), &path, e) < 0)
            return -1;
        all = all ? arena_printf(a, "%s\n%s", all, path) : path;
    }
    *list = all;
    return 0;
}

int ssh_config_finish(struct arena *a, const struct ssh_config_query *q, struct ssh_config *c,
                      struct err *e) {
    if (!c->host_name)
        c->host_name = q->alias;
    else if (expand(a, q, c, q->alias, c->host_name, &c->host_name, e) < 0)
        return -1;
    for (size_t i = 0; i < c->identity_count; i++) {
        const char *path = expand_home(a, q->home, c->identities[i]);
        if (expand(a, q, c, c->host_name, path, &c->identities[i], e) < 0)
            return -1;
    }
    if (c->identity_agent &&
        expand(a, q, c, c->host_name, expand_home(a, q->home, c->identity_agent),
               &c->identity_agent, e) < 0)
        return -1;
    if (c->proxy_command && strcasecmp(c->proxy_command, "none") == 0)
        c->proxy_command = NULL;
    if (expand_list(a, q, c, &c->user_known_hosts, e) < 0)
        return -1;
    return expand_list(a, q, c, &c->global_known_hosts, e);
}
