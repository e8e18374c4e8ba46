// SPDX-License-Identifier: Apache-2.0
// Refusals of AWS: which of them another zone or another way to buy may help, and which parts of
// their messages the user reads.
#include "aws/aws_errors.h"
#include "base/str.h"
#include "tests/tap.h"

static struct arena a;

static struct aws_refusal of_code(const char *code) {
    return aws_refusal_of(&a, arena_printf(&a, "api error %s: words", code));
}

// ---- codes --------------------------------------------------------------------------------------

// A zone or a way to buy lacks what was asked for: the next attempt is elsewhere.
static void test_elsewhere(void) {
    static const struct {
        const char *code, *kind;
    } cases[] = {
        {"InsufficientInstanceCapacity", "capacity"},
        {"InsufficientHostCapacity", "capacity"},
        {"InsufficientReservedInstanceCapacity", "capacity"},
        {"InsufficientVolumeCapacity", "capacity"},
        {"InsufficientCapacityOnHost", "capacity"},
        {"UnfulfillableCapacity", "capacity"},
        {"ReservationCapacityExceeded", "capacity"},
        {"CapacityReservationFull", "capacity"},
        {"SpotInstanceTermination", "capacity"},
        {"SpotMaxPriceTooLow", "price"},
        {"VcpuLimitExceeded", "quota"},
        {"MaxSpotInstanceCountExceeded", "quota"},
        {"InstanceLimitExceeded", "quota"},
        {"InvalidPlacementGroup.InUse", "placement"},
        {"PlacementGroupFull", "placement"},
        {"InsufficientFreeAddressesInSubnet", "placement"},
        {"InvalidIPAddress.InUse", "placement"},
        {"UnsupportedOperation", "unsupported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aws_refusal r = of_code(cases[i].code);
        is_str(aws_refusal_name(r.kind), cases[i].kind, "%s has its kind", cases[i].code);
        ok(aws_refusal_is_local(r.kind) && !r.everywhere, "%s may be otherwise in another zone",
           cases[i].code);
    }
}

// The account or the request is at fault: an attempt elsewhere fails alike.
static void test_everywhere(void) {
    static const struct {
        const char *code, *kind, *quota;
    } cases[] = {
        {"AddressLimitExceeded", "quota", "L-0263D0A3, EC2-VPC Elastic IPs"},
        {"VpcLimitExceeded", "quota", "L-F678F1CE, VPCs per Region"},
        {"InternetGatewayLimitExceeded", "quota", "L-A4707A72, Internet gateways per Region"},
        {"SecurityGroupLimitExceeded", "quota", "L-E79EC296, VPC security groups per Region"},
        {"VpcEndpointLimitExceeded", "quota", "L-1B52E74A, Gateway VPC endpoints per Region"},
        {"NetworkInterfaceLimitExceeded", "quota", "L-DF5E4CA3, Network interfaces per Region"},
        {"PlacementGroupLimitExceeded", "quota", ""},
        {"VolumeLimitExceeded", "quota", ""},
        {"InvalidPlacementGroup.Unknown", "placement", ""},
        {"InvalidInstanceType", "unsupported", ""},
        {"InvalidKMSKey.InvalidState", "permission", ""},
        {"KMSKeyNotAccessibleFault", "permission", ""},
        {"UnauthorizedOperation", "permission", ""},
        {"AccessDeniedException", "permission", ""},
        {"Forbidden", "permission", ""},
        {"AuthFailure", "credentials", ""},
        {"ExpiredToken", "credentials", ""},
        {"RequestExpired", "credentials", ""},
        {"InvalidClientTokenId", "credentials", ""},
        {"SignatureDoesNotMatch", "credentials", ""},
        {"UnrecognizedClientException", "credentials", ""},
        {"OptInRequired", "account", ""},
        {"PendingVerification", "account", ""},
        {"Blocked", "account", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aws_refusal r = of_code(cases[i].code);
        is_str(aws_refusal_name(r.kind), cases[i].kind, "%s has its kind", cases[i].code);
        is_str(r.quota, cases[i].quota, "%s has its quota, or none", cases[i].code);
        ok(r.everywhere, "%s is the same in every zone", cases[i].code);
    }
}

// The same attempt may succeed a little later: other errors of an attempt say more.
static void test_later(void) {
    static const struct {
        const char *code, *kind;
    } cases[] = {
        {"RequestLimitExceeded", "throttle"},
        {"ThrottlingException", "throttle"},
        {"TooManyRequestsException", "throttle"},
        {"SlowDown", "throttle"},
        {"InvalidPlacementGroup.Duplicate", "duplicate"},
        {"InvalidKeyPair.Duplicate", "duplicate"},
        {"InvalidGroup.Duplicate", "duplicate"},
        {"InvalidPermission.Duplicate", "duplicate"},
        {"InvalidSubnet.Conflict", "duplicate"},
        {"RouteAlreadyExists", "duplicate"},
        {"Resource.AlreadyAssociated", "duplicate"},
        {"EntityAlreadyExists", "duplicate"},
    };
    struct aws_refusal other = of_code("VpcLimitExceeded");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aws_refusal r = of_code(cases[i].code);
        is_str(aws_refusal_name(r.kind), cases[i].kind, "%s has its kind", cases[i].code);
        ok(!aws_refusal_is_local(r.kind), "%s is not of a zone", cases[i].code);
        ok(aws_refusal_outranks(&other, &r), "a lasting error is reported before %s",
           cases[i].code);
    }
}

// ---- parts of a message -------------------------------------------------------------------------

static void test_codes(void) {
    static const char *const letters =
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnop"; // 68
    static const struct {
        int letters; // of the code
        bool fits;
    } cases[] = {{0, false}, {1, true}, {63, true}, {64, false}, {68, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *code = arena_printf(&a, "%.*s", cases[i].letters, letters);
        const char *text = arena_printf(&a, "x, api error %s: words", code);
        struct aws_refusal r = aws_refusal_of(&a, text);
        is_str(r.code, cases[i].fits ? code : "", "a code of %d letters fits or not",
               cases[i].letters);
        is_str(r.words, cases[i].fits ? "words" : text, "%d letters: the user reads the message",
               cases[i].letters);
    }
    struct aws_refusal r = aws_refusal_of(&a, "api error : t9.x is not offered in us-east-1a");
    is_str(aws_refusal_name(r.kind), "unsupported", "without a code the words count");
    is_str(aws_refusal_of(&a, "").words, "", "an empty message has no words");
    is_str(aws_refusal_of(&a, ".").words, "", "a full stop alone is no word");
}

static const char *zones_of(const char *words) {
    struct aws_refusal r = aws_refusal_of(
        &a, arena_printf(&a, "api error InsufficientInstanceCapacity: try again by choosing %s",
                         words));
    char *all = arena_strdup(&a, "");
    for (size_t i = 0; i < r.zone_count; i++)
        all = arena_printf(&a, "%s%s%s", all, i ? " " : "", r.zones[i]);
    return all;
}

static void test_zones(void) {
    static const struct {
        const char *words, *zones;
    } cases[] = {
        {"us-east-1b, us-east-1d.", "us-east-1b us-east-1d"},
        {"us-east-1b or us-east-1d", "us-east-1b us-east-1d"},
        {"us-west-2-lax-1a", "us-west-2-lax-1a"},
        {"x-y-1a", "x-y-1a"},
        {"a-1b", ""},
        {"(us-east-1b)", ""},
        {"us-east-1, us-east-1b", ""},
        {"us-east-11", ""},
        {"useast1b", ""},
        {"us-east-b", ""},
        {"us-east-1b, another, us-east-1d", "us-east-1b"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_str(zones_of(cases[i].words), cases[i].zones, "zones are read from '%s'",
               cases[i].words);
    struct strbuf many = {0};
    for (int c = 'a'; c <= 'r'; c++)
        strbuf_addf(&many, "us-east-1%c, ", c);
    const char *zones = zones_of(strbuf_cstr(&many));
    ok(str_starts(zones, "us-east-1a us-east-1b ") && str_ends(zones, " us-east-1p"),
       "sixteen zones are enough: %s", zones);
    strbuf_fini(&many);
}

static void test_actions(void) {
    static const struct {
        const char *text, *action;
    } cases[] = {
        {"not authorized to perform: ec2:RunInstances on x", "ec2:RunInstances"},
        {"not authorized to perform: elastic-x:Get on x", "elastic-x:Get"},
        {"not authorized to perform: ec2:RunInstances", "ec2:RunInstances"},
        {"not authorized to perform: :", ""},
        {"operation error EC2: RunInstances, x", "ec2:RunInstances"},
        {"operation error A: Get", "a:Get"},
        {"operation error : Get", ""},
        {"operation error EC2:RunInstances", ""},
        {"operation error EC2", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_str(aws_refusal_of(&a, arena_printf(&a, "api error AccessDenied: %s", cases[i].text))
                   .action,
               cases[i].action, "the action of '%s' is read", cases[i].text);
    is_str(aws_refusal_of(&a, "operation error EC2: CreateVpc, api error X: y").action,
           "ec2:CreateVpc", "an unknown code has its action");
    struct aws_refusal r = of_code("AccessDenied");
    ok(str_starts(r.next, "allow it to these credentials"), "an unknown action has advice: %s",
       r.next);
    r = aws_refusal_of(&a, "api error AccessDenied: with an explicit deny in a policy");
    ok(str_starts(r.next, "a policy denies it whatever else is allowed: "),
       "a denial without an action has advice: %s", r.next);
}

static void test_requests(void) {
    static const char *const long_id =
        "0123456789-123456789-123456789-123456789-123456789-123456789-123456789";
    is_str(aws_refusal_of(&a, "RequestID: 7a62c49f-347e, api error X: y").request, "7a62c49f-347e",
           "the id of a request is read");
    is_str(aws_refusal_of(&a, arena_printf(&a, "RequestID: %s, api error X: y", long_id)).request,
           arena_strndup(&a, long_id, 64), "the id of a request is cut");
}

// Of several errors of an attempt, one that is the same everywhere says most; then a code does.
static void test_ranks(void) {
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            struct aws_refusal one = {.everywhere = i / 2, .code = {i % 2 ? 'X' : '\0'}};
            struct aws_refusal other = {.everywhere = k / 2, .code = {k % 2 ? 'X' : '\0'}};
            is_int(aws_refusal_outranks(&one, &other), i > k, "rank %d is above rank %d or not", i,
                   k);
        }
}

int main(void) {
    test_elsewhere();
    test_everywhere();
    test_later();
    test_codes();
    test_zones();
    test_actions();
    test_requests();
    test_ranks();
    arena_fini(&a);
    return done_testing();
}
