// SPDX-License-Identifier: Apache-2.0
// From error codes to kinds and next steps.
#include "cluster/aws_refusal.h"

#include "base/str.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *next;
} KINDS[] = {
    [AWS_REFUSAL_NONE] = {"none", ""},
    [AWS_REFUSAL_CAPACITY] = {"capacity",
                              "name further zones (aws.zones), another type, or add a way to buy "
                              "to aws.fallback; or try again later"},
    [AWS_REFUSAL_QUOTA] = {"quota",
                           "ask for a higher limit (console: Service Quotas), or take fewer nodes "
                           "or a smaller type"},
    [AWS_REFUSAL_UNSUPPORTED] = {"unsupported", "choose another zone, region or type"},
    [AWS_REFUSAL_PLACEMENT] = {"placement",
                               "set aws.placement_group = \"off\", or choose another zone or "
                               "subnet"},
    [AWS_REFUSAL_PRICE] = {"price", "raise aws.spot_max_price, or leave it away"},
    [AWS_REFUSAL_PERMISSION] =
        {"permission", "check the credentials (aws.profile, AWS_PROFILE) and their rights; "
                       "README lists those that are needed"},
    [AWS_REFUSAL_THROTTLE] = {"throttle", "try again in some minutes"},
    [AWS_REFUSAL_OTHER] = {"other", "read the log that is named here"},
};

// Codes by how they begin; the first row that fits decides.
static const struct {
    const char *code;
    enum aws_refusal_kind kind;
} CODES[] = {
    {"InsufficientInstanceCapacity", AWS_REFUSAL_CAPACITY},
    {"InsufficientHostCapacity", AWS_REFUSAL_CAPACITY},
    {"InsufficientReservedInstanceCapacity", AWS_REFUSAL_CAPACITY},
    {"InsufficientVolumeCapacity", AWS_REFUSAL_CAPACITY},
    {"InsufficientCapacity", AWS_REFUSAL_CAPACITY},
    {"UnfulfillableCapacity", AWS_REFUSAL_CAPACITY},
    {"ReservationCapacityExceeded", AWS_REFUSAL_CAPACITY},
    {"CapacityReservation", AWS_REFUSAL_CAPACITY},
    {"SpotMaxPriceTooLow", AWS_REFUSAL_PRICE},
    {"VcpuLimitExceeded", AWS_REFUSAL_QUOTA},
    {"MaxSpotInstanceCountExceeded", AWS_REFUSAL_QUOTA},
    {"InstanceLimitExceeded", AWS_REFUSAL_QUOTA},
    {"AddressLimitExceeded", AWS_REFUSAL_QUOTA},
    {"VpcLimitExceeded", AWS_REFUSAL_QUOTA},
    {"InternetGatewayLimitExceeded", AWS_REFUSAL_QUOTA},
    {"SecurityGroupLimitExceeded", AWS_REFUSAL_QUOTA},
    {"VpcEndpointLimitExceeded", AWS_REFUSAL_QUOTA},
    {"NetworkInterfaceLimitExceeded", AWS_REFUSAL_QUOTA},
    {"PlacementGroupLimitExceeded", AWS_REFUSAL_QUOTA},
    {"VolumeLimitExceeded", AWS_REFUSAL_QUOTA},
    {"RequestLimitExceeded", AWS_REFUSAL_THROTTLE},
    {"Throttl", AWS_REFUSAL_THROTTLE},
    {"TooManyRequests", AWS_REFUSAL_THROTTLE},
    {"SlowDown", AWS_REFUSAL_THROTTLE},
    {"InvalidPlacementGroup", AWS_REFUSAL_PLACEMENT},
    {"InsufficientFreeAddressesInSubnet", AWS_REFUSAL_PLACEMENT},
    {"PlacementGroup", AWS_REFUSAL_PLACEMENT},
    {"Unsupported", AWS_REFUSAL_UNSUPPORTED},
    {"InvalidInstanceType", AWS_REFUSAL_UNSUPPORTED},
    {"UnauthorizedOperation", AWS_REFUSAL_PERMISSION},
    {"AuthFailure", AWS_REFUSAL_PERMISSION},
    {"AccessDenied", AWS_REFUSAL_PERMISSION},
    {"OptInRequired", AWS_REFUSAL_PERMISSION},
    {"PendingVerification", AWS_REFUSAL_PERMISSION},
    {"ExpiredToken", AWS_REFUSAL_PERMISSION},
    {"RequestExpired", AWS_REFUSAL_PERMISSION},
    {"InvalidClientTokenId", AWS_REFUSAL_PERMISSION},
    {"SignatureDoesNotMatch", AWS_REFUSAL_PERMISSION},
    {"UnrecognizedClient", AWS_REFUSAL_PERMISSION},
    {"Blocked", AWS_REFUSAL_PERMISSION},
};

// Sentences of the provider itself, which carry no code.
static const struct {
    const char *words;
    enum aws_refusal_kind kind;
} PHRASES[] = {
    {"No valid credential sources found", AWS_REFUSAL_PERMISSION},
    {"failed to get shared config profile", AWS_REFUSAL_PERMISSION},
    {"failed to refresh cached credentials", AWS_REFUSAL_PERMISSION},
    {"is not offered in", AWS_REFUSAL_UNSUPPORTED}, // infra/main.tf
};

static bool is_code_char(char c) {
    return isalnum((unsigned char)c) || c == '.' || c == '_';
}

// The word behind "api error ", and where its message begins.
static const char *find_code(const char *text, char code[AWS_REFUSAL_CODE_BYTES_MAX]) {
    static const char mark[] = "api error ";
    const char *at = strstr(text, mark);
    size_t len = 0;
    if (!at)
        return NULL;
    at += sizeof mark - 1;
    while (is_code_char(at[len]))
        len++;
    if (len == 0 || len >= AWS_REFUSAL_CODE_BYTES_MAX)
        return NULL;
    snprintf(code, AWS_REFUSAL_CODE_BYTES_MAX, "%.*s", (int)len, at);
    at += len;
    return at + strspn(at, ": ");
}

// "… or choosing us-east-1b, us-east-1c." names the zones that have some.
static void find_zones(struct arena *a, struct aws_refusal *r) {
    static const char mark[] = "choosing ";
    const char *p = strstr(r->words, mark);
    for (p = p ? p + sizeof mark - 1 : ""; *p && r->zone_count < AWS_REFUSAL_ZONES_MAX;) {
        size_t len = 0;
        while (isalnum((unsigned char)p[len]) || p[len] == '-')
            len++;
        // A zone is a region's name, with its digit, and a letter: nothing else in the sentence is.
        if (len < 6 || !isalpha((unsigned char)p[len - 1]) || !memchr(p, '-', len) ||
            !isdigit((unsigned char)p[len - 2]))
            return;
        r->zones[r->zone_count++] = arena_strndup(a, p, len);
        p += len;
        p += strspn(p, ", ");
        if (str_starts(p, "or "))
            p += 3;
    }
}

struct aws_refusal aws_refusal_of(struct arena *a, const char *text) {
    struct aws_refusal r = {.kind = AWS_REFUSAL_OTHER};
    const char *words = find_code(text, r.code);
    for (size_t i = 0; words && i < sizeof CODES / sizeof CODES[0]; i++) {
        if (str_starts(r.code, CODES[i].code)) {
            r.kind = CODES[i].kind;
            break;
        }
    }
    for (size_t i = 0; !words && i < sizeof PHRASES / sizeof PHRASES[0]; i++)
        if (strstr(text, PHRASES[i].words))
            r.kind = PHRASES[i].kind;
    r.words = words ? words : text;
    r.words = str_printable(a, r.words, strlen(r.words));
    r.next = KINDS[r.kind].next;
    find_zones(a, &r);
    return r;
}

const char *aws_refusal_name(enum aws_refusal_kind kind) {
    return KINDS[kind].name;
}

bool aws_refusal_is_local(enum aws_refusal_kind kind) {
    return kind == AWS_REFUSAL_CAPACITY || kind == AWS_REFUSAL_QUOTA ||
           kind == AWS_REFUSAL_UNSUPPORTED || kind == AWS_REFUSAL_PLACEMENT ||
           kind == AWS_REFUSAL_PRICE;
}
