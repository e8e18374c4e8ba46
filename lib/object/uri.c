// SPDX-License-Identifier: Apache-2.0
// Addresses of objects: checks, percent-encoding, hosts of buckets.
#include "object/uri.h"

#include "base/bucket_name.h"

#include <ctype.h>
#include <string.h>

static bool is_plain(unsigned char c) {
    return isascii(c) && (isalnum(c) || strchr("-._~", c)) && c;
}

void uri_encode(struct strbuf *out, const char *s, size_t len, bool slash) {
    for (size_t i = 0; i < len; i++)
        if (is_plain((unsigned char)s[i]) || (s[i] == '/' && !slash))
            strbuf_addc(out, s[i]);
        else
            strbuf_addf(out, "%%%02X", (unsigned char)s[i]);
}

char *uri_decode(struct arena *a, const char *s) {
    char *out = arena_alloc(a, strlen(s) + 1, 1, 1), *p = out;
    for (; *s; s++) {
        unsigned char byte = (unsigned char)*s;
        struct err ignored;
        if (*s == '+')
            byte = ' ';
        else if (*s == '%') {
            char hex[3] = {s[1], s[1] ? s[2] : '\0', '\0'};
            hex[0] = (char)tolower((unsigned char)hex[0]);
            hex[1] = (char)tolower((unsigned char)hex[1]);
            if (str_unhex(&byte, 1, hex, &ignored) < 0 || !byte)
                return NULL;
            s += 2;
        }
        *p++ = (char)byte;
    }
    *p = '\0';
    return out;
}

// ---- addresses of the user ----------------------------------------------------------------------

// Refuses spaces, control characters, user names and fragments, which curl would read differently.
static int check_url(const char *text, const char *scheme, struct err *e) {
    const char *host = text + strlen(scheme), *end = host + strcspn(host, "/?#");
    bool good = end > host && strlen(text) < URI_BYTES_MAX;
    for (const char *p = text; good && *p; p++)
        good = *p > ' ' && *p < 0x7f && !strchr("\"<>\\^`{|}#", *p) && (*p != '@' || p > end);
    return good ? 0
                : err_set(e, ERR_CONFIG,
                          "'%.200s' is not an address such as %sHOST/PATH (no user name, no "
                          "fragment; encode other characters as %%XX)",
                          text, scheme);
}

int uri_parse(struct arena *a, const char *text, struct uri *out, struct err *e) {
    *out = (struct uri){0};
    if (str_starts(text, "https://")) {
        out->url = arena_strdup(a, text);
        return check_url(text, "https://", e);
    }
    if (!str_starts(text, "s3://"))
        return err_set(e, ERR_CONFIG, "'%.200s' is neither s3://BUCKET/KEY nor https://…", text);
    size_t len = bucket_name_len(text);
    if (!len)
        return err_set(e, ERR_CONFIG, "'%.200s': the bucket's name has " BUCKET_NAME_RULE, text);
    const char *bucket = text + strlen("s3://"), *end = bucket + len;
    out->bucket = arena_strndup(a, bucket, len);
    out->key = arena_strdup(a, *end ? end + 1 : "");
    return strlen(out->key) <= URI_KEY_BYTES_MAX
               ? 0
               : err_set(e, ERR_LIMIT, "'%.200s…' is longer than %d bytes, the limit of a key",
                         text, URI_KEY_BYTES_MAX);
}

// ---- servers ------------------------------------------------------------------------------------

int uri_server(struct arena *a, const char *endpoint, const char *region, struct uri_server *out,
               struct err *e) {
    if (!endpoint) {
        *out = (struct uri_server){.scheme = "https", .path = ""};
        out->host = arena_printf(a, "s3.%s.amazonaws.com%s", region,
                                 str_starts(region, "cn-") ? ".cn" : "");
        return 0;
    }
    const char *scheme = str_starts(endpoint, "https://")  ? "https"
                         : str_starts(endpoint, "http://") ? "http"
                                                           : NULL;
    if (!scheme)
        return err_set(e, ERR_CONFIG,
                       "the endpoint '%.200s' begins with neither https:// nor http://", endpoint);
    const char *prefix = arena_printf(a, "%s://", scheme), *host = endpoint + strlen(prefix);
    if (check_url(endpoint, prefix, e) < 0)
        return err_wrap(e, "endpoint");
    size_t len = strcspn(host, "/?"), path = strlen(host + len);
    if (strchr(host, '?'))
        return err_set(e, ERR_CONFIG, "the endpoint '%.200s' has a query", endpoint);
    while (path && host[len + path - 1] == '/')
        path--;
    *out = (struct uri_server){.scheme = scheme, .custom = true};
    out->host = arena_strndup(a, host, len);
    out->path = arena_strndup(a, host + len, path);
    // A client leaves the scheme's own port out of the header Host, which is signed.
    const char *own = strcmp(scheme, "https") == 0 ? ":443" : ":80";
    if (str_ends(out->host, own))
        out->host = arena_strndup(a, out->host, len - strlen(own));
    return 0;
}

void uri_place(struct arena *a, const struct uri_server *s, const char *bucket, const char *key,
               struct uri_place *out) {
    struct strbuf path = {0};
    // The wildcard of AWS's certificate does not match a bucket with dots.
    bool in_path = s->custom || strchr(bucket, '.');
    out->host = in_path ? s->host : arena_printf(a, "%s.%s", bucket, s->host);
    strbuf_addf(&path, "%s/", s->path);
    if (in_path)
        strbuf_addf(&path, "%s%s", bucket, *key ? "/" : "");
    uri_encode(&path, key, strlen(key), false);
    out->path = arena_strdup(a, strbuf_cstr(&path));
    strbuf_fini(&path);
}
