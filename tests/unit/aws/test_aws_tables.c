// SPDX-License-Identifier: Apache-2.0
// Provider aws: instance types and quotas, what refusals mean, the order of attempts.
#include "aws/aws_errors.h"
#include "aws/aws_fallback.h"
#include "aws/aws_instance_types.h"
#include "base/str.h"
#include "tests/tap.h"

static struct arena a;

static void types(void) {
    const struct aws_type *t = aws_instance_types_find("p4d.24xlarge");
    if (!t)
        bail_out("p4d.24xlarge is not known");
    is_int(t->gpus, 8, "the type has eight GPUs");
    is_int(t->vcpus, 96, "the type has 96 vCPUs");
    is_int(t->efa, 4, "the type has four EFA interfaces");
    ok(aws_instance_types_find("p9.nano") == NULL, "an unknown type is not made up");
    static const char *const further[] = {"g6.16xlarge", "g6e.16xlarge", "g7.48xlarge",
                                          "g7e.4xlarge", "gr6.8xlarge",  "p3dn.24xlarge"};
    for (size_t i = 0; i < sizeof further / sizeof further[0]; i++)
        ok(aws_instance_types_find(further[i]) != NULL, "%s is known", further[i]);
    is_str(aws_instance_types_nearest("g6.xlarg"), "g6.xlarge", "the nearest name is found");
    is_str(aws_instance_types_quota("g6.xlarge", AWS_ON_DEMAND).code, "L-DB2E81BA",
           "on-demand G instances have their own quota");
    is_str(aws_instance_types_quota("g4dn.metal", AWS_SPOT).code, "L-3819A6DF",
           "spot G instances have their own quota");
    is_str(aws_instance_types_quota("p5en.48xlarge", AWS_SPOT).code, "L-C4BD4855",
           "P5 spot has its own");
    is_str(aws_instance_types_quota("p4d.24xlarge", AWS_SPOT).code, "L-7212CCBC",
           "spot P4 instances have their own quota");
    ok(aws_instance_types_nearest("m7i.large") == NULL,
       "no type is proposed for a very different name");
    static const char *const arm[] = {"g5g.xlarge", "p6e-gb200.36xlarge", "m7gd.metal", "a1.large",
                                      "im4gn.large"};
    static const char *const x86[] = {"g6.xlarge", "gr6.4xlarge", "g4dn.metal", "p5.48xlarge"};
    for (size_t i = 0; i < sizeof arm / sizeof arm[0]; i++)
        ok(aws_instance_types_is_arm(arm[i]), "%s is for arm64", arm[i]);
    for (size_t i = 0; i < sizeof x86 / sizeof x86[0]; i++)
        ok(!aws_instance_types_is_arm(x86[i]), "%s is not", x86[i]);
    is_str(aws_instance_types_quota("p5.48xlarge", AWS_RESERVATION).code, "L-417A185B",
           "a reservation runs on demand");
    is_str(aws_instance_types_quota("p5.48xlarge", AWS_CAPACITY_BLOCK).code, "",
           "a block has no quota");
    is_str(aws_instance_types_quota("t3.micro", AWS_ON_DEMAND).code, "L-1216C47A",
           "t3 belongs to the quota of the standard types");
    is_str(aws_instance_types_quota("gr6.4xlarge", AWS_ON_DEMAND).code, "L-DB2E81BA",
           "gr6 counts as G");
    is_str(aws_instance_types_quota("trn1.2xlarge", AWS_ON_DEMAND).code, "", "trn1's is not known");
    is_int(aws_purchase_named("spot"), AWS_SPOT, "a way to buy is found by its name");
    is_int(aws_purchase_named("stolen"), -1, "an unknown way to buy is refused");
}

// The sizes of a family differ by their factor.
static void sizes(void) {
    static const struct {
        const char *name;
        int gib_per_vcpu;
    } families[] = {{"g4dn", 4}, {"g5", 4}, {"g6", 4}, {"g6e", 8}};
    int seen = 0;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const struct aws_type *first = NULL;
        for (int size = 1; size <= 48; size++) {
            const struct aws_type *t = aws_instance_types_find(
                size == 1 ? arena_printf(&a, "%s.xlarge", families[i].name)
                          : arena_printf(&a, "%s.%dxlarge", families[i].name, size));
            if (!t)
                continue;
            seen++;
            first = first ? first : t;
            is_int(t->vcpus, 4 * size, "%s has the vCPUs of its size", t->name);
            is_int(t->memory_gib, t->vcpus * families[i].gib_per_vcpu,
                   "the memory of the type grows with its vCPUs");
            is_int((int)(t->gpu_memory_gib * 10), (int)(first->gpu_memory_gib * 10),
                   "all sizes with one GPU have the same GPU memory");
            ok(t->gpus == 1 || t->gpus == size / 6 || t->gpus == 4, "the type has %d GPUs",
               t->gpus);
            ok((t->efa > 0) == (size >= 8), "a type has EFA from 8xlarge on");
            ok(t->gpus > 1 || t->efa <= 1, "types with one GPU have one EFA interface at most");
        }
    }
    ok(seen > 20, "sizes of four families are listed");
    is_int(aws_instance_types_find("g4dn.metal")->memory_gib, 384,
           "a metal type has the memory of a whole machine");
    ok(aws_instance_types_nearest("g6.xlarABC") == NULL, "three letters off is far");
    is_str(aws_instance_types_nearest("g6.xlarAB"), "g6.xlarge", "two are near");
}

static void refusal(const char *text, enum aws_refusal_kind kind, const char *code) {
    struct aws_refusal r = aws_refusal_of(&a, text);
    is_str(aws_refusal_name(r.kind), aws_refusal_name(kind), "%.60s", text);
    is_str(r.code, code, "the error has the code of its table row");
    ok(r.next[0] != 0, "the refusal has a next step");
}

static void refusals(void) {
    refusal("creating EC2 Instance: operation error EC2: RunInstances, https response error "
            "StatusCode: 400, RequestID: x, api error InsufficientInstanceCapacity: We currently "
            "do not have sufficient capacity",
            AWS_REFUSAL_CAPACITY, "InsufficientInstanceCapacity");
    refusal("x, api error VcpuLimitExceeded: You have requested more vCPU capacity than your "
            "current vCPU limit of 0 allows",
            AWS_REFUSAL_QUOTA, "VcpuLimitExceeded");
    refusal("api error Unsupported: Your requested instance type is not supported",
            AWS_REFUSAL_UNSUPPORTED, "Unsupported");
    refusal("api error InvalidPlacementGroup.InUse: x", AWS_REFUSAL_PLACEMENT,
            "InvalidPlacementGroup.InUse");
    refusal("api error InvalidPlacementGroup.Duplicate: x", AWS_REFUSAL_DUPLICATE,
            "InvalidPlacementGroup.Duplicate");
    refusal("api error RouteAlreadyExists: x", AWS_REFUSAL_DUPLICATE, "RouteAlreadyExists");
    refusal("api error SpotMaxPriceTooLow: x", AWS_REFUSAL_PRICE, "SpotMaxPriceTooLow");
    refusal("api error UnauthorizedOperation: You are not authorized", AWS_REFUSAL_PERMISSION,
            "UnauthorizedOperation");
    refusal("api error RequestLimitExceeded: Request limit exceeded.", AWS_REFUSAL_THROTTLE,
            "RequestLimitExceeded");
    refusal(
        "waiting for EC2 Instance (i-1) create: unexpected state 'shutting-down', wanted target "
        "'running'. last error: Server.InsufficientInstanceCapacity: Insufficient capacity",
        AWS_REFUSAL_CAPACITY, "InsufficientInstanceCapacity");
    refusal("unexpected state 'terminated', wanted target 'running'. last error: "
            "Client.VolumeLimitExceeded: Volume limit exceeded",
            AWS_REFUSAL_QUOTA, "VolumeLimitExceeded");
    refusal("unexpected state 'terminated', wanted target 'running'. last error: "
            "Server.SpotInstanceTermination: x",
            AWS_REFUSAL_CAPACITY, "SpotInstanceTermination");
    refusal("last error: Client.InternalError: Client error on launch", AWS_REFUSAL_OTHER,
            "InternalError");
    refusal("api error InvalidIPAddress.InUse: Address 10.0.0.10 is in use.", AWS_REFUSAL_PLACEMENT,
            "InvalidIPAddress.InUse");
    refusal("api error SomethingNew: x", AWS_REFUSAL_OTHER, "SomethingNew");
    refusal("api error ", AWS_REFUSAL_OTHER, "");
    refusal("", AWS_REFUSAL_OTHER, "");
    struct aws_refusal r = aws_refusal_of(
        &a,
        "api error InsufficientInstanceCapacity: We do not have sufficient p5.48xlarge capacity "
        "in the Availability Zone you requested (us-east-1a). You can currently get it by not "
        "specifying a zone in your request or choosing us-east-1b, us-east-1d.");
    is_uint(r.zone_count, 2, "the zones that AWS recommends");
    is_str(r.zones[0], "us-east-1b", "the first recommended zone is kept");
    is_str(r.zones[1], "us-east-1d", "the second recommended zone is kept");
    r = aws_refusal_of(&a, "api error InsufficientInstanceCapacity: try again by choosing "
                           "us-east-1b, or us-east-1c.");
    is_uint(r.zone_count, 2, "the zone behind 'or' is counted");
    is_str(r.zones[1], "us-east-1c", "the zone behind 'or' is listed");
    r = aws_refusal_of(&a, "api error RequestLimitExceeded: x");
    ok(!r.everywhere, "a limit of requests passes");
    r = aws_refusal_of(&a, "api error Unsupported: a\x1b[31mb");
    ok(strchr(r.words, 0x1b) == NULL, "control characters do not get through");
}

static void refusals_told(void) {
    struct aws_refusal r = aws_refusal_of(
        &a, "creating EC2 Instance: operation error EC2: RunInstances, https response error "
            "StatusCode: 403, RequestID: x, api error UnauthorizedOperation: You are not "
            "authorized to perform this operation. User: arn:aws:iam::123456789012:user/me is not "
            "authorized "
            "to perform: iam:PassRole on resource: r. Encoded authorization failure message: AbCd");
    is_str(r.action, "iam:PassRole", "the action that is missing is read from AWS's words");
    has_str(r.next, "allow iam:PassRole", "the next step names it");
    ok(strstr(r.words, "Encoded") == NULL, "an encoded message is left out");
    ok(str_ends(r.words, "on resource: r"), "the full stop is left out");
    ok(r.everywhere, "no zone helps");
    is_str(r.request, "x", "the request has its id, for AWS's support");
    r = aws_refusal_of(&a, "operation error EC2: CreateVpc, RequestID: \x1b[2Jy, api error "
                           "AccessDenied: User: u is not authorized to perform: ec2:CreateVpc with "
                           "an explicit deny in a service control policy");
    is_str(r.request, "", "a request id of several words is left out");
    has_str(r.next, "a policy denies ec2:CreateVpc whatever else is allowed",
            "the denial of a policy is named as such");
    r = aws_refusal_of(&a,
                       "No valid credential sources found: no EC2 IMDS role found, operation "
                       "error ec2imds: GetMetadata, request canceled, context deadline exceeded");
    is_str(r.action, "", "a call that did not reach AWS lacks no permission");
    r = aws_refusal_of(&a, "api error AuthFailure: AWS was not able to validate the provided "
                           "access credentials");
    has_str(r.next, "has this region enabled",
            "invalid credentials: the next step names the region");
    is_str(r.request, "", "a refusal without a request has no id");
    r = aws_refusal_of(&a, "api error OptInRequired: In order to use this AWS Marketplace product "
                           "you need to accept terms and subscribe");
    is_str(aws_refusal_name(r.kind), "account", "terms to accept are no lack of rights");
    has_str(r.next, "accept terms", "the next step is to accept the terms");
    ok(!aws_refusal_is_local(r.kind) && r.everywhere, "no zone helps");
    refusal("api error PendingVerification: Your account is currently being verified",
            AWS_REFUSAL_ACCOUNT, "PendingVerification");
    r = aws_refusal_of(&a, "creating EC2 VPC: operation error EC2: CreateVpc, https response error "
                           "StatusCode: 403, api error UnauthorizedOperation: No.");
    is_str(r.action, "ec2:CreateVpc", "else by what was being done");
    r = aws_refusal_of(&a, "operation error Resource Groups Tagging API: GetResources, https "
                           "response error, api error AccessDeniedException: no");
    is_str(r.action, "", "a service whose prefix is not its name has no action");
    r = aws_refusal_of(&a, "operation error EC2: , api error UnauthorizedOperation");
    is_str(r.action, "", "an incomplete message gives no action");
    r = aws_refusal_of(&a, "not authorized to perform: everything api error AccessDenied: x");
    is_str(r.action, "", "a refusal without an action has none");
    r = aws_refusal_of(&a, "operation error EC2: RunInstances, api error VcpuLimitExceeded: x");
    is_str(r.action, "", "a limit is about what was wanted, not about a call");
    is_str(r.quota, "", "the vCPU quota comes from the instance type");
    r = aws_refusal_of(&a, "wanted target 'running'. last error: Client.InternalError: no");
    has_str(r.next, "aws.kms_key", "an error at launch suggests the KMS key");
    r = aws_refusal_of(&a, "api error VpcLimitExceeded: The maximum number of VPCs was reached");
    has_str(r.quota, "L-F678F1CE", "another quota is named by its code");
    ok(r.everywhere, "the quota holds in all zones of the region");
    r = aws_refusal_of(&a, "api error InvalidPlacementGroup.Unknown: The placement group 'ours' is "
                           "unknown.");
    has_str(r.next, "aws.placement_group_name",
            "an unknown group suggests the option that names it");
    ok(r.everywhere, "no zone helps where the group does not exist");
    struct aws_refusal zone = aws_refusal_of(&a, "t9.x is not offered in us-east-1a; it is in: .");
    struct aws_refusal region =
        aws_refusal_of(&a, "t9.x is not offered in us-east-1; choose another region or type.");
    struct aws_refusal type = aws_refusal_of(&a, "api error InvalidInstanceType: t9.x");
    ok(!zone.everywhere && region.everywhere,
       "a lack of capacity in a zone is not one of the region");
    ok(aws_refusal_outranks(&region, &zone), "the region says more than the zone");
    ok(aws_refusal_outranks(&type, &region), "AWS's code says more than none");
    ok(!aws_refusal_outranks(&type, &type), "the first of two alike stays");
}

// Credentials that do not hold are no lack of rights.
static void refusals_of_credentials(void) {
    static const struct {
        const char *text, *next;
    } cases[] = {
        {"api error ExpiredToken: The security token included in the request is expired",
         "have expired: log in again (aws sso login)"},
        {"api error ExpiredTokenException: The security token included in the request is expired",
         "have expired: log in again"},
        {"api error RequestExpired: Request has expired.", "have expired: log in again"},
        {"api error SignatureDoesNotMatch: Signature not yet current", "the clock"},
        {"api error InvalidClientTokenId: The security token included in the request is invalid.",
         "are not valid: check them"},
        {"api error AuthFailure: AWS was not able to validate the provided access credentials",
         "are not valid: check them"},
        {"api error UnrecognizedClientException: x", "are not valid: check them"},
        {"No valid credential sources found: Please see …", "give some"},
        {"failed to get shared config profile, nosuch", "aws.profile"},
        {"failed to refresh cached credentials, the SSO session has expired", "log in again"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aws_refusal r = aws_refusal_of(&a, cases[i].text);
        is_str(aws_refusal_name(r.kind), "credentials", "%.60s", cases[i].text);
        has_str(r.next, cases[i].next, "the next step is about the credentials");
        is_str(r.action, "", "no action is missing");
        ok(r.everywhere && !aws_refusal_is_local(r.kind), "no zone helps");
    }
}

// The module refuses a setting before AWS is asked for anything.
static void refused_variables(void) {
    static const struct {
        const char *text, *variable, *words;
    } cases[] = {
        {"Invalid value for variable: instance_type: a name such as g6.12xlarge belongs here.  "
         "This was checked by the validation rule at variables.tf:112,3-13.",
         "instance_type", "a name such as g6.12xlarge belongs here"},
        {"Resource precondition failed: vpc_id: subnet_id is needed with it.", "vpc_id",
         "subnet_id is needed with it"},
        {"Resource postcondition failed: vpc_id: subnet-1 is not in it but in vpc-1.", "vpc_id",
         "subnet-1 is not in it but in vpc-1"},
        {"Resource precondition failed: g6.xlarge is not offered in us-east-1a; it is in: x.", NULL,
         NULL},
        {"Resource precondition failed: cluster full of me runs already: x", NULL, NULL},
        {"Resource precondition failed: user data: node0's is larger than EC2's 16384 bytes.", NULL,
         NULL},
        {"creating EC2 VPC: Invalid value for variable: cluster: x", NULL, NULL},
        {"Invalid value for variable", NULL, NULL},
        {"Invalid value for variable: : x", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *variable = NULL, *words = NULL;
        bool is_one = aws_refusal_variable(&a, cases[i].text, &variable, &words);
        ok(is_one == (cases[i].variable != NULL), "%.60s", cases[i].text);
        if (!is_one || !cases[i].variable)
            continue;
        is_str(variable, cases[i].variable, "the variable is read");
        is_str(words, cases[i].words, "the rule is read");
    }
}

static struct aws_refusal of_kind(enum aws_refusal_kind kind) {
    return (struct aws_refusal){.kind = kind};
}

static void tries(void) {
    static const char *const zones[] = {"a1a", "a1b", "a1c"};
    static const char *const ways[] = {"spot", "on-demand"};
    struct aws_tries t;
    struct aws_refusal capacity = of_kind(AWS_REFUSAL_CAPACITY), quota = of_kind(AWS_REFUSAL_QUOTA);
    aws_tries_init(&t, zones, 3, ways, 2);
    is_str(t.zone, "a1a", "the first attempt uses the first zone");
    is_str(t.purchase, "spot", "the first attempt uses the first way to buy");
    capacity.zones[0] = "a1x"; // none of ours
    capacity.zones[1] = "a1c";
    capacity.zone_count = 2;
    ok(aws_tries_next(&t, &capacity), "there is a second attempt");
    is_str(t.zone, "a1c", "the second attempt uses the zone that AWS recommends");
    ok(aws_tries_next(&t, &capacity), "there is a third attempt");
    is_str(t.zone, "a1b", "the third attempt uses the last zone");
    ok(aws_tries_next(&t, &capacity), "there is a fourth attempt");
    is_str(t.zone, "a1a", "the fourth attempt begins with the first zone");
    is_str(t.purchase, "on-demand", "the attempts continue with the next way to buy");
    ok(!aws_tries_next(&t, &quota), "a quota holds in every zone, and no way is left");
    ok(aws_tries_next(&t, &capacity) && str_eq(t.zone, "a1c"),
       "the first zone is tried for a quota of that zone");
    ok(aws_tries_next(&t, &capacity) && str_eq(t.zone, "a1b"), "the last zone is tried too");
    ok(!aws_tries_next(&t, &capacity), "no attempt is left after the last zone");
    aws_tries_init(&t, zones, 3, ways, 2);
    ok(aws_tries_next(&t, &quota), "a quota of one way to buy leaves the other way");
    is_str(t.purchase, "on-demand", "a quota of spot instances allows on-demand instances");
    is_str(t.zone, "a1a", "the next way to buy begins with the first zone");
    struct aws_refusal no_type = of_kind(AWS_REFUSAL_UNSUPPORTED);
    no_type.everywhere = true;
    ok(!aws_tries_next(&t, &no_type), "a type that does not exist is not looked for elsewhere");
    struct aws_refusal auth = of_kind(AWS_REFUSAL_PERMISSION);
    ok(!aws_tries_next(&t, &auth), "an authorization error is not repeated");
    struct aws_refusal throttle = of_kind(AWS_REFUSAL_THROTTLE);
    for (int i = 0; i < AWS_TRIES_AGAIN_MAX; i++)
        ok(aws_tries_next(&t, &throttle) && str_eq(t.zone, "a1a"),
           "a throttled attempt is repeated in the same zone");
    ok(!aws_tries_next(&t, &throttle), "a throttled attempt is repeated only once");
    struct aws_refusal duplicate = of_kind(AWS_REFUSAL_DUPLICATE);
    aws_tries_init(&t, zones, 3, ways, 2);
    for (int i = 0; i < AWS_TRIES_AGAIN_MAX; i++)
        ok(aws_tries_next(&t, &duplicate) && str_eq(t.zone, "a1a"),
           "a duplicate name is tried again in the same zone");
    ok(!aws_tries_next(&t, &duplicate), "a duplicate name is tried again only once");
}

static void tries_outside_a_group(void) {
    static const char *const zones[] = {"a1a", "a1b"};
    static const char *const ways[] = {"spot", "reservation", "on-demand"};
    struct aws_tries t;
    struct aws_refusal capacity = of_kind(AWS_REFUSAL_CAPACITY);
    struct aws_refusal quota = of_kind(AWS_REFUSAL_QUOTA);
    struct aws_refusal unsupported = of_kind(AWS_REFUSAL_UNSUPPORTED);
    aws_tries_init(&t, zones, 2, ways, 3);
    t.grouped = true;
    ok(!t.outside, "the first attempt is in the group");
    ok(aws_tries_next(&t, &capacity) && str_eq(t.zone, "a1b") && !t.outside,
       "the second zone is tried in the group");
    ok(aws_tries_next(&t, &unsupported) && str_eq(t.zone, "a1a") && t.outside &&
           str_eq(t.purchase, "spot"),
       "all zones are tried outside of a group that had no capacity in one");
    ok(aws_tries_next(&t, &capacity) && str_eq(t.zone, "a1b") && t.outside,
       "the second zone is tried outside, too");
    ok(aws_tries_next(&t, &capacity) && str_eq(t.purchase, "reservation") && !t.outside,
       "the next way to buy follows");
    ok(aws_tries_next(&t, &capacity) && aws_tries_next(&t, &capacity) &&
           str_eq(t.purchase, "on-demand") && !t.outside,
       "a reservation is not tried outside of its group");
    ok(aws_tries_next(&t, &unsupported) && !aws_tries_next(&t, &unsupported),
       "a group has no part in a refusal of the type");
    aws_tries_init(&t, zones, 2, ways, 1);
    t.grouped = true;
    ok(aws_tries_next(&t, &capacity) && !aws_tries_next(&t, &quota),
       "a limit holds outside of the group, too");
    aws_tries_init(&t, NULL, 0, ways, 1);
    t.grouped = true;
    t.zone = "a1b";
    ok(aws_tries_next(&t, &capacity) && t.outside && str_eq(t.zone, "a1b"),
       "nodes that join others stay in their zone");
    ok(!aws_tries_next(&t, &capacity), "the attempt outside is the last one");
}

static void tries_learnt(void) {
    static const char *const zones[] = {"a1a", "a1b"};
    static const char *const ways[] = {"on-demand"};
    struct aws_tries t;
    struct aws_refusal capacity = of_kind(AWS_REFUSAL_CAPACITY);
    aws_tries_init(&t, NULL, 0, ways, 1);
    ok(t.zone == NULL, "no zone is known: the module chooses");
    aws_tries_learn(&t, "a1", zones, 2, "a1a");
    ok(aws_tries_next(&t, &capacity), "zones were learnt");
    is_str(t.zone, "a1b", "a zone that was tried is not tried again");
    ok(!aws_tries_next(&t, &capacity), "no zone is left");
}

static void tries_local_zones(void) {
    static const char *const ways[] = {"on-demand"};
    static const char *const zones[] = {"us-west-2-lax-1a", "us-west-2a", "us-west-2-den-1b",
                                        "us-west-2c"};
    struct aws_tries t;
    struct aws_refusal capacity = of_kind(AWS_REFUSAL_CAPACITY);
    aws_tries_init(&t, NULL, 0, ways, 1);
    aws_tries_learn(&t, "us-west-2", zones, 4, "us-west-2a");
    is_uint(t.zone_count, 2, "only zones of the region itself are learnt");
    ok(aws_tries_next(&t, &capacity) && str_eq(t.zone, "us-west-2c"),
       "the region's other zone is tried next");
    ok(!aws_tries_next(&t, &capacity), "a Local Zone is not tried unless it is named");
    aws_tries_init(&t, zones, 1, ways, 1);
    is_str(t.zone, "us-west-2-lax-1a", "a Local Zone that is named is tried");
}

// AWS recommends zones in its order.
static void tries_recommended(void) {
    static const char *const zones[] = {"a1a", "a1b", "a1c"};
    static const char *const ways[] = {"on-demand"};
    struct aws_tries t;
    struct aws_refusal capacity = of_kind(AWS_REFUSAL_CAPACITY);
    capacity.zones[0] = "a1a";
    capacity.zones[1] = "a1c";
    capacity.zone_count = 2;
    aws_tries_init(&t, NULL, 0, ways, 1);
    aws_tries_learn(&t, "a1", zones, 3, "a1b");
    ok(aws_tries_next(&t, &capacity) && str_eq(t.zone, "a1a"),
       "the first recommended zone is next");
    ok(aws_tries_next(&t, &capacity) && str_eq(t.zone, "a1c"), "the second one follows");
    ok(!aws_tries_next(&t, &capacity), "no zone is left");
    capacity.zone_count = 0;
    aws_tries_init(&t, NULL, 0, ways, 1);
    aws_tries_learn(&t, "a1", zones, 3, "a1b");
    ok(aws_tries_next(&t, &capacity) && str_eq(t.zone, "a1a"),
       "without a recommendation the first zone is next");
}

// Zones beyond the limit are not tried.
static void tries_many_zones(void) {
    static const char *const ways[] = {"on-demand"};
    enum { MANY = AWS_TRIES_ZONES_MAX + 5 };
    const char *zones[MANY];
    struct aws_tries t;
    struct aws_refusal capacity = of_kind(AWS_REFUSAL_CAPACITY);
    for (int i = 0; i < MANY; i++)
        zones[i] = arena_printf(&a, "a%c", 'A' + i);
    for (int learns = 0; learns < 2; learns++) {
        aws_tries_init(&t, zones, learns ? 0 : MANY, ways, 1);
        if (learns)
            aws_tries_learn(&t, "a", zones, MANY, zones[0]);
        size_t count = 1;
        while (aws_tries_next(&t, &capacity))
            count++;
        is_uint(count, AWS_TRIES_ZONES_MAX, "the tried zones are within the limit (%d)", learns);
        is_str(t.zone, zones[AWS_TRIES_ZONES_MAX - 1],
               "the last tried zone is within the limit (%d)", learns);
    }
}

int main(void) {
    tries_recommended();
    tries_many_zones();
    tries_local_zones();
    types();
    sizes();
    refusals();
    refusals_told();
    refusals_of_credentials();
    refused_variables();
    tries();
    tries_learnt();
    tries_outside_a_group();
    arena_fini(&a);
    return done_testing();
}
