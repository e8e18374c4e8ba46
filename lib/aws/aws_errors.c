// SPDX-License-Identifier: Apache-2.0
// Error codes of AWS: kinds and next steps.
#include "aws/aws_errors.h"

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
    [AWS_REFUSAL_PRICE] = {"price", "raise aws.spot_max_price, or omit it"},
    [AWS_REFUSAL_PERMISSION] = {"permission",
                                "allow it to these credentials (infra/operator-policy.json lists "
                                "all that is needed), or use others (aws.profile, AWS_PROFILE)"},
    [AWS_REFUSAL_CREDENTIALS] = {"credentials",
                                 "the credentials are not valid: check them (aws.profile, "
                                 "AWS_PROFILE), and that the account has this region enabled "
                                 "(console: Account, AWS Regions)"},
    [AWS_REFUSAL_ACCOUNT] = {"account",
                             "do in AWS's console what it says: accept terms, subscribe, or wait "
                             "until the account is verified"},
    [AWS_REFUSAL_THROTTLE] = {"throttle", "try again in some minutes"},
    [AWS_REFUSAL_DUPLICATE] = {"duplicate",
                               "end what is there under that name, or choose another (-c)"},
    [AWS_REFUSAL_OTHER] = {"other", "read the log that is named here"},
};

// Error codes by prefix; the first matching row applies. quota: the exceeded limit, if it is not
// one of vCPUs; the flag marks errors that are the same in every zone.
static const struct {
    const char *code;
    enum aws_refusal_kind kind;
    const char *quota;
    bool everywhere;
} CODES[] = {
    {"InsufficientInstanceCapacity", AWS_REFUSAL_CAPACITY, "", false},
    {"InsufficientHostCapacity", AWS_REFUSAL_CAPACITY, "", false},
    {"InsufficientReservedInstanceCapacity", AWS_REFUSAL_CAPACITY, "", false},
    {"InsufficientVolumeCapacity", AWS_REFUSAL_CAPACITY, "", false},
    {"InsufficientCapacity", AWS_REFUSAL_CAPACITY, "", false},
    {"UnfulfillableCapacity", AWS_REFUSAL_CAPACITY, "", false},
    {"ReservationCapacityExceeded", AWS_REFUSAL_CAPACITY, "", false},
    {"CapacityReservation", AWS_REFUSAL_CAPACITY, "", false},
    {"SpotMaxPriceTooLow", AWS_REFUSAL_PRICE, "", false},
    {"VcpuLimitExceeded", AWS_REFUSAL_QUOTA, "", false},
    {"MaxSpotInstanceCountExceeded", AWS_REFUSAL_QUOTA, "", false},
    {"InstanceLimitExceeded", AWS_REFUSAL_QUOTA, "", false},
    {"AddressLimitExceeded", AWS_REFUSAL_QUOTA, "L-0263D0A3, EC2-VPC Elastic IPs", true},
    {"VpcLimitExceeded", AWS_REFUSAL_QUOTA, "L-F678F1CE, VPCs per Region", true},
    {"InternetGatewayLimitExceeded", AWS_REFUSAL_QUOTA, "L-A4707A72, Internet gateways per Region",
     true},
    {"SecurityGroupLimitExceeded", AWS_REFUSAL_QUOTA, "L-E79EC296, VPC security groups per Region",
     true},
    {"VpcEndpointLimitExceeded", AWS_REFUSAL_QUOTA, "L-1B52E74A, Gateway VPC endpoints per Region",
     true},
    {"NetworkInterfaceLimitExceeded", AWS_REFUSAL_QUOTA,
     "L-DF5E4CA3, Network interfaces per Region", true},
    {"PlacementGroupLimitExceeded", AWS_REFUSAL_QUOTA, "", true},
    {"VolumeLimitExceeded", AWS_REFUSAL_QUOTA, "", true},
    {"InvalidKMSKey", AWS_REFUSAL_PERMISSION, "", true},
    {"KMSKey", AWS_REFUSAL_PERMISSION, "", true},
    {"SpotInstance", AWS_REFUSAL_CAPACITY, "", false}, // ended by AWS before it ran
    {"RequestLimitExceeded", AWS_REFUSAL_THROTTLE, "", false},
    {"Throttl", AWS_REFUSAL_THROTTLE, "", false},
    {"TooManyRequests", AWS_REFUSAL_THROTTLE, "", false},
    {"SlowDown", AWS_REFUSAL_THROTTLE, "", false},
    {"InvalidPlacementGroup.Duplicate", AWS_REFUSAL_DUPLICATE, "", false},
    {"InvalidKeyPair.Duplicate", AWS_REFUSAL_DUPLICATE, "", false},
    {"InvalidGroup.Duplicate", AWS_REFUSAL_DUPLICATE, "", false},
    {"InvalidPermission.Duplicate", AWS_REFUSAL_DUPLICATE, "", false},
    {"InvalidSubnet.Conflict", AWS_REFUSAL_DUPLICATE, "", false},
    {"RouteAlreadyExists", AWS_REFUSAL_DUPLICATE, "", false},
    {"Resource.AlreadyAssociated", AWS_REFUSAL_DUPLICATE, "", false},
    {"EntityAlreadyExists", AWS_REFUSAL_DUPLICATE, "", false},
    {"InvalidPlacementGroup.Unknown", AWS_REFUSAL_PLACEMENT, "", true},
    {"InvalidPlacementGroup", AWS_REFUSAL_PLACEMENT, "", false},
    {"InsufficientFreeAddressesInSubnet", AWS_REFUSAL_PLACEMENT, "", false},
    {"InvalidIPAddress.InUse", AWS_REFUSAL_PLACEMENT, "", false},
    {"PlacementGroup", AWS_REFUSAL_PLACEMENT, "", false},
    {"Unsupported", AWS_REFUSAL_UNSUPPORTED, "", false},
    {"InvalidInstanceType", AWS_REFUSAL_UNSUPPORTED, "", true},
    {"UnauthorizedOperation", AWS_REFUSAL_PERMISSION, "", true},
    {"AccessDenied", AWS_REFUSAL_PERMISSION, "", true},
    {"Forbidden", AWS_REFUSAL_PERMISSION, "", true}, // S3, for an answer without text
    {"AuthFailure", AWS_REFUSAL_CREDENTIALS, "", true},
    {"OptInRequired", AWS_REFUSAL_ACCOUNT, "", true},
    {"PendingVerification", AWS_REFUSAL_ACCOUNT, "", true},
    {"ExpiredToken", AWS_REFUSAL_CREDENTIALS, "", true},
    {"RequestExpired", AWS_REFUSAL_CREDENTIALS, "", true},
    {"InvalidClientTokenId", AWS_REFUSAL_CREDENTIALS, "", true},
    {"SignatureDoesNotMatch", AWS_REFUSAL_CREDENTIALS, "", true},
    {"UnrecognizedClient", AWS_REFUSAL_CREDENTIALS, "", true},
    {"Blocked", AWS_REFUSAL_ACCOUNT, "", true},
};

// Messages of the Terraform provider that contain no code.
static const struct {
    const char *words;
    enum aws_refusal_kind kind;
    bool everywhere;
} PHRASES[] = {
    {"No valid credential sources found", AWS_REFUSAL_CREDENTIALS, true},
    {"failed to get shared config profile", AWS_REFUSAL_CREDENTIALS, true},
    {"failed to refresh cached credentials", AWS_REFUSAL_CREDENTIALS, true},
    {"; choose another region or type", AWS_REFUSAL_UNSUPPORTED, true}, // infra/main.tf, both
    {"is not offered in", AWS_REFUSAL_UNSUPPORTED, false},
};

static bool is_code_char(char c) {
    return isalnum((unsigned char)c) || c == '.' || c == '_';
}

// Finds the code after "api error ", or after "last error: Server." or "last error: Client." for an
// instance that failed to start. Returns the beginning of its message.
static const char *find_code(const char *text, char code[AWS_REFUSAL_CODE_BYTES_MAX]) {
    static const char *const marks[] = {"api error ", "last error: Server.", "last error: Client."};
    const char *at = NULL;
    size_t len = 0;
    for (size_t i = 0; !at && i < sizeof marks / sizeof marks[0]; i++) {
        at = strstr(text, marks[i]);
        at = at ? at + strlen(marks[i]) : NULL;
    }
    if (!at)
        return NULL;
    while (is_code_char(at[len]))
        len++;
    if (len == 0 || len >= AWS_REFUSAL_CODE_BYTES_MAX)
        return NULL;
    snprintf(code, AWS_REFUSAL_CODE_BYTES_MAX, "%.*s", (int)len, at);
    at += len;
    return at + strspn(at, ": ");
}

// Parses "… or choosing us-east-1b, us-east-1c.", the zones with capacity.
static void find_zones(struct arena *a, struct aws_refusal *r) {
    static const char mark[] = "choosing ";
    const char *p = strstr(r->words, mark);
    for (p = p ? p + sizeof mark - 1 : ""; *p && r->zone_count < AWS_REFUSAL_ZONES_MAX;) {
        size_t len = 0;
        while (isalnum((unsigned char)p[len]) || p[len] == '-')
            len++;
        // A zone is a region name, which ends in a digit, and a letter. Other words end the list.
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

// The action in the notation of policies ("ec2:RunInstances"): from AWS's message, else from the
// provider's ("operation error EC2: RunInstances").
static const char *find_action(struct arena *a, const char *text) {
    static const char mark[] = "not authorized to perform: ", other[] = "operation error ";
    const char *at = strstr(text, mark), *colon;
    size_t len = 0;
    if (at) {
        at += sizeof mark - 1;
        while (isalnum((unsigned char)at[len]) || (len && strchr(":-", at[len]) && at[len]))
            len++;
        return memchr(at, ':', len) ? arena_strndup(a, at, len) : "";
    }
    at = strstr(text, other);
    colon = at ? strchr(at, ':') : NULL;
    if (!colon || colon[1] != ' ')
        return "";
    while (isalnum((unsigned char)colon[2 + len]))
        len++;
    at += sizeof other - 1;
    char *service = arena_strndup(a, at, (size_t)(colon - at));
    for (char *p = service; *p; p++) {
        if (!isalnum((unsigned char)*p)) // the service name differs from its prefix in policies
            return "";
        *p = (char)tolower((unsigned char)*p);
    }
    return len == 0 || !service[0] ? "" : arena_printf(a, "%s:%.*s", service, (int)len, colon + 2);
}

// Parses "…, RequestID: 7a62c49f-…, api error …".
static const char *find_request(struct arena *a, const char *text) {
    static const char mark[] = "RequestID: ";
    const char *at = strstr(text, mark);
    size_t len = 0;
    if (!at)
        return "";
    at += sizeof mark - 1;
    while (len < AWS_REFUSAL_CODE_BYTES_MAX && (isalnum((unsigned char)at[len]) || at[len] == '-'))
        len++;
    return arena_strndup(a, at, len);
}

// Next steps for credentials whose fault is known more precisely; the first matching row applies.
static const struct {
    const char *mark, *next;
} CREDENTIALS[] = {
    {"ExpiredToken", "the credentials have expired: log in again (aws sso login), or renew them"},
    {"RequestExpired",
     "the credentials have expired: log in again (aws sso login), or renew them; if they have not, "
     "set the clock of this computer"},
    {"SignatureDoesNotMatch",
     "the secret key is not that of the access key, or the clock of this computer is wrong"},
    {"No valid credential sources found",
     "give some: aws.profile, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"},
    {"failed to get shared config profile", "name a profile of ~/.aws (aws.profile, AWS_PROFILE)"},
    {"failed to refresh cached credentials", "log in again (aws sso login), or renew them"},
};

// Next steps that depend on more than the kind.
static const char *find_next(struct arena *a, const struct aws_refusal *r) {
    bool denied =
        str_starts(r->code, "UnauthorizedOperation") || str_starts(r->code, "AccessDenied");
    for (size_t i = 0;
         r->kind == AWS_REFUSAL_CREDENTIALS && i < sizeof CREDENTIALS / sizeof *CREDENTIALS; i++)
        if (str_starts(r->code[0] ? r->code : r->words, CREDENTIALS[i].mark))
            return CREDENTIALS[i].next;
    if (denied && strstr(r->words, "explicit deny"))
        return arena_printf(a,
                            "a policy denies %s whatever else is allowed: ask who manages the "
                            "account, or choose another region or profile",
                            r->action[0] ? r->action : "it");
    if (denied && r->action[0])
        return arena_printf(a,
                            "allow %s to these credentials (infra/operator-policy.json lists all "
                            "that is needed), or use others (aws.profile, AWS_PROFILE)",
                            r->action);
    if (strcmp(r->code, "InvalidPlacementGroup.Unknown") == 0)
        return "name a placement group of this region (aws.placement_group_name)";
    if (strstr(r->code, "KMSKey"))
        return "see that aws.kms_key is in this region, and that these credentials and EC2 may use "
               "it";
    if (strcmp(r->code, "InternalError") == 0) // of an instance that failed to start
        return "try again; where aws.kms_key is set, see that these credentials and EC2 may use "
               "that key";
    if (r->quota[0])
        return "ask for a higher limit (console: Service Quotas), or remove what is not needed";
    return KINDS[r->kind].next;
}

// Length without the full stop and the encoded blob, which is long and for another API call.
static size_t words_length(const char *words) {
    static const char blob[] = " Encoded authorization failure message";
    const char *end = strstr(words, blob);
    size_t len = end ? (size_t)(end - words) : strlen(words);
    return len && words[len - 1] == '.' ? len - 1 : len;
}

struct aws_refusal aws_refusal_of(struct arena *a, const char *text) {
    struct aws_refusal r = {.kind = AWS_REFUSAL_OTHER, .quota = ""};
    const char *words = find_code(text, r.code);
    for (size_t i = 0; words && i < sizeof CODES / sizeof CODES[0]; i++) {
        if (str_starts(r.code, CODES[i].code)) {
            r.kind = CODES[i].kind;
            r.quota = CODES[i].quota;
            r.everywhere = CODES[i].everywhere;
            break;
        }
    }
    for (size_t i = 0; !words && i < sizeof PHRASES / sizeof PHRASES[0]; i++) {
        if (strstr(text, PHRASES[i].words)) {
            r.kind = PHRASES[i].kind;
            r.everywhere = PHRASES[i].everywhere;
            break;
        }
    }
    r.words = words ? words : text;
    r.words = str_printable(a, r.words, words_length(r.words));
    // Other kinds concern the request itself (capacity, limits, types), so the action does not
    // help. Without a code the call did not reach AWS.
    bool may_lack = r.kind == AWS_REFUSAL_PERMISSION || r.kind == AWS_REFUSAL_THROTTLE ||
                    r.kind == AWS_REFUSAL_OTHER;
    r.action = r.code[0] && may_lack ? find_action(a, text) : "";
    r.request = find_request(a, text);
    r.next = find_next(a, &r);
    find_zones(a, &r);
    return r;
}

// Terraform's summary, "instance_type: …", and where the rule is written.
bool aws_refusal_variable(struct arena *a, const char *text, const char **variable,
                          const char **rule) {
    static const char *const summaries[] = {
        "Invalid value for variable: ", "Resource precondition failed: ",
        "Resource postcondition failed: "};
    static const char origin[] = "This was checked by the validation rule";
    for (size_t i = 0; i < sizeof summaries / sizeof summaries[0]; i++) {
        if (!str_starts(text, summaries[i]))
            continue;
        const char *name = text + strlen(summaries[i]);
        size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (len == 0 || !str_starts(name + len, ": "))
            return false;
        const char *from = name + len + 2, *end = strstr(from, origin);
        size_t rest = end ? (size_t)(end - from) : strlen(from);
        while (rest && strchr(" .", from[rest - 1]))
            rest--;
        *variable = arena_strndup(a, name, len);
        *rule = str_printable(a, from, rest);
        return true;
    }
    return false;
}

bool aws_refusal_outranks(const struct aws_refusal *one, const struct aws_refusal *other) {
    int says = 2 * one->everywhere + (one->code[0] != 0);
    return says > 2 * other->everywhere + (other->code[0] != 0);
}

const char *aws_refusal_name(enum aws_refusal_kind kind) {
    return KINDS[kind].name;
}

bool aws_refusal_is_local(enum aws_refusal_kind kind) {
    return kind == AWS_REFUSAL_CAPACITY || kind == AWS_REFUSAL_QUOTA ||
           kind == AWS_REFUSAL_UNSUPPORTED || kind == AWS_REFUSAL_PLACEMENT ||
           kind == AWS_REFUSAL_PRICE;
}
