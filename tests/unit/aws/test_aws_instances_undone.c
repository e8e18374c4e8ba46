// SPDX-License-Identifier: Apache-2.0
// Instances that cannot be made, or that end: what is taken back, and what the user reads.
#include "tests/unit/aws/instances_made.h"

// ---- giving up ----------------------------------------------------------------------------------

// Each text is the error up to the path of the log.
static const struct {
    const char *options, *says, *error;
    size_t nodes;
} REFUSALS[] = {
    {"zones = ['us-east-1d']\n", FULL,
     "on-demand nodes of g6.xlarge: refused in us-east-1d (capacity, "
     "InsufficientInstanceCapacity): none; nothing is left of it; ",
     2},
    {"zones = ['us-east-1d', 'us-east-1e']\n", FULL,
     "on-demand nodes of g6.xlarge: refused in us-east-1e and every other zone (capacity, "
     "InsufficientInstanceCapacity): none; nothing is left of it; ",
     2},
    {"zones = ['us-east-1d']\nfallback = ['spot', 'on-demand']\n", FULL,
     "spot, then on-demand nodes of g6.xlarge: refused in us-east-1d (capacity, "
     "InsufficientInstanceCapacity): none; nothing is left of it; ",
     2},
    {"zones = ['us-east-1d']\nfallback = ['spot', 'reservation', 'on-demand']\n"
     "capacity_reservation = 'cr-12345678'\n",
     FULL,
     "spot, then reservation, then on-demand nodes of g6.xlarge: refused in us-east-1d (capacity, "
     "InsufficientInstanceCapacity): none; nothing is left of it; ",
     2},
    {"", FULL,
     "on-demand nodes of g6.xlarge: refused in us-east-1 (capacity, "
     "InsufficientInstanceCapacity): none; nothing is left of it; ",
     2},
    {"", REFUSED("api error VcpuLimitExceeded: too much"),
     "on-demand nodes of g6.xlarge: refused in us-east-1 (quota, VcpuLimitExceeded): too much "
     "(quota L-DB2E81BA, Running On-Demand G and VT instances; 2 nodes need 8 vCPUs); nothing "
     "is left of it; ",
     2},
    {"zones = ['us-east-1d']\n", REFUSED("api error VcpuLimitExceeded: too much"),
     "on-demand nodes of g6.xlarge: refused in us-east-1d (quota, VcpuLimitExceeded): too much "
     "(quota L-DB2E81BA, Running On-Demand G and VT instances; 1 node needs 4 vCPUs); nothing "
     "is left of it; ",
     1},
    {"instance_type = 'g9.huge'\n", REFUSED("api error VcpuLimitExceeded: too much"),
     "on-demand nodes of g9.huge: refused in us-east-1 (quota, VcpuLimitExceeded): too much "
     "(quota L-DB2E81BA, Running On-Demand G and VT instances); nothing is left of it; ",
     2},
    {"instance_type = 'x9.huge'\n", REFUSED("api error VcpuLimitExceeded: too much"),
     "on-demand nodes of x9.huge: refused in us-east-1 (quota, VcpuLimitExceeded): too much"
     "; nothing is left of it; ",
     2},
    {"fallback = ['capacity-block']\ncapacity_reservation = 'cr-12345678'\n",
     REFUSED("api error VcpuLimitExceeded: too much"),
     "capacity-block nodes of g6.xlarge: refused in us-east-1 (quota, VcpuLimitExceeded): too "
     "much (2 nodes need 8 vCPUs); nothing is left of it; ",
     2},
    {"zones = ['us-east-1d']\n", REFUSED("api error VpcLimitExceeded: too many"),
     "on-demand nodes of g6.xlarge: refused in us-east-1 (quota, VpcLimitExceeded): too many "
     "(quota L-F678F1CE, VPCs per Region); nothing is left of it; ",
     2},
    {"", REFUSED("api error VolumeLimitExceeded: too many"),
     "on-demand nodes of g6.xlarge: refused in us-east-1 (quota, VolumeLimitExceeded): too "
     "many; nothing is left of it; ",
     2},
    {"", REFUSED("operation error EC2: CreateVpc, RequestID: 7a-1, api error Weird: no"),
     "on-demand nodes of g6.xlarge: refused in us-east-1 (other, Weird of ec2:CreateVpc): no; "
     "nothing is left of it; read the log that is named here (request 7a-1, log: ",
     2},
    {"subnet = 'subnet-12345678'\n", REFUSED("no matching EC2 Subnet found"),
     "on-demand nodes of g6.xlarge: refused in us-east-1 (other): creating EC2 Instance: no "
     "matching EC2 Subnet found; t.toml:3:10: aws.subnet is 'subnet-12345678', in us-east-1; "
     "nothing is left of it; ",
     2},
};

static void test_given_up(void) {
    for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS; i++) {
        start(REFUSALS[i].options, 0);
        fill(REFUSALS[i].nodes);
        for (int k = 1; k <= 4; k++)
            says(k, REFUSALS[i].says, 1);
        is_int(make(), -1, "case %zu is given up", i);
        is_int(error.code, ERR_FAILED, "case %zu has failed", i);
        is_str(arena_printf(&a, "%.*s", (int)strlen(REFUSALS[i].error), error.text),
               REFUSALS[i].error, "case %zu has its words", i);
        ok(str_ends(error.text, arena_printf(&a, "log: %s)", log_path())), "case %zu has its log",
           i);
        ok(!has_vars(), "case %zu leaves no variables", i);
        ok(!strstr(fake_terraform_calls(), "-destroy"), "case %zu has nothing to destroy", i);
    }
}

// AWS does not say which name was not found.
static void test_names(void) {
    static const struct {
        const char *option, *key, *words, *value;
    } cases[] = {
        {"vpc = 'vpc-12345678'\n", "aws.vpc", "no matching EC2 VPC found", "vpc-12345678"},
        {"image = 'ami-12345678'\n", "aws.image", "api error InvalidAMIID.NotFound: x",
         "ami-12345678"},
        {"image = '/my/image'\n", "aws.image", "couldn't find resource", "/my/image"},
        {"image = 'ami-12345678'\n", "aws.image", "Your query returned no results", "ami-12345678"},
        {"instance_profile = 'p'\n", "aws.instance_profile",
         "api error InvalidParameterValue: Invalid IAM Instance Profile name", "p"},
        {"capacity_reservation = 'cr-12345678'\n", "aws.capacity_reservation",
         "api error InvalidCapacityReservationId.NotFound: x", "cr-12345678"},
        {"kms_key = 'alias/k'\n", "aws.kms_key", "api error KMSKeyNotFound: x", "alias/k"},
        {"placement_group_name = 'g'\n", "aws.placement_group_name",
         "api error InvalidPlacementGroup.Unknown: x", "g"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int given = 1; given >= (i > 0); given--) {
            start(given ? cases[i].option : "", 0);
            says(1, arena_printf(&a, REFUSED("%s"), cases[i].words), 1);
            is_int(make(), -1, "'%s' is refused", cases[i].words);
            const char *words =
                arena_printf(&a, ": %s is '%s', in us-east-1; ", cases[i].key, cases[i].value);
            is_int(strstr(error.text, words) != NULL, given,
                   "the error names the value if there is one: %s", error.text);
        }
}

// An attempt is destroyed, unless there were nodes before.
static void test_undone(void) {
    static const char creates[] = HOOK("apply_start", "aws_vpc", "null", "create")
        REFUSED("api error UnauthorizedOperation: no");
    start("", 0);
    says(1, creates, 1);
    says(2, "", 0);
    is_int(make(), -1, "a new cluster is refused");
    has_str(error.text, "; nothing is left of it; ", "the error says so");
    is_str(fake_terraform_calls(), NEW UNDO, "Terraform destroys all of it");
    ok(!has_vars(), "the variables are removed");
    start("", 0);
    says(1, creates, 1);
    says(2, "", 1);
    is_int(make(), -1, "a new cluster is refused, and stays");
    has_str(error.text, "; what was made is still there (dtctl down); ", "the error says so");
    ok(has_vars(), "the variables stay for dtctl down");
    start("", 0);
    cluster.has_before = true;
    says(1, REFUSED("api error UnauthorizedOperation: no"), 1);
    says(2, "", 0);
    is_int(make(), -1, "a continued command is refused");
    is_str(fake_terraform_calls(), UP "\n" UNDO, "Terraform destroys all of the first command");
    start("", 1);
    says(1, creates, 1);
    says(2, "", 0);
    is_int(make(), -1, "a further node is refused");
    has_str(error.text, "; the nodes there were stay; ", "the error says so");
    is_str(fake_terraform_calls(), UP "\n" UP "\n", "an apply takes the further node back");
    is_str(variable(1, "node_names"), "node0 node1", "two nodes were wanted");
    is_str(variable(2, "node_names"), "node0", "one stays");
    ok(has_vars(), "the variables are those of the old nodes");
    start("", 1);
    says(1, REFUSED("api error UnauthorizedOperation: no"), 1);
    is_int(make(), -1, "a further node is refused before anything is made");
    is_str(fake_terraform_calls(), UP "\n", "nothing is taken back");
    start("", 0);
    says(1,
         HOOK("apply_start", "aws_ami", "null", "read")
             REFUSED("api error UnauthorizedOperation: no"),
         1);
    is_int(make(), -1, "a new cluster is refused when AWS was only asked");
    is_str(fake_terraform_calls(), NEW, "nothing is destroyed then");
    start("", 1);
    says(1, REFUSED("something else"), 1);
    is_int(make(), -1, "a further node fails without a code");
    has_str(error.text,
            "up: creating EC2 Instance: something else (log: ", "the failure is Terraform's");
}

// ---- an answer that was lost --------------------------------------------------------------------

static void test_duplicate(void) {
    static const char twice[] = REFUSED("api error InvalidKeyPair.Duplicate: x");
    start("", 0);
    says(1, twice, 1);
    says(2, outputs(""), 0);
    says(3, outputs("{\"kind\":\"key\",\"id\":\"key-1\"}"), 0);
    fake_terraform_says("state-sweep", STATE(RESOURCE("managed", "aws_key_pair", "\"id\":\"k\"")),
                        0);
    says(4, "", 0);
    says(5, MADE, 0);
    int64_t began = clock_ahead_ms;
    is_int(make(), 0, "the key that was lost is removed: %s", error.text);
    is_str(fake_terraform_calls(),
           NEW APPLY "\n" APPLY "\n" APPLY " -lock-timeout=0s -destroy\n" AGAIN,
           "AWS lists it in the second look");
    is_int(clock_ahead_ms - began, 5000, "the pause between is 5 s");
    has_str(said(),
            "test: warning: AWS created a resource but its answer was lost; removing the resource "
            "kind=key id=key-1\n",
            "the user reads which");
    start("", 0);
    says(1, twice, 1);
    for (int i = 2; i <= 4; i++)
        says(i, outputs(""), 0);
    says(5, MADE, 0);
    is_int(make(), 0, "the key may never be listed: %s", error.text);
    is_int(fake_pauses, 2, "three looks have two pauses");
    start("", 0);
    fake_stops_in_pause = 1;
    says(1, twice, 1);
    says(2, outputs(""), 0);
    is_int(make(), -1, "the user stops the pause");
    is_str(error.text, "stopped; dtctl up continues, dtctl down removes what was made",
           "the error has the next steps");
    ok(has_vars(), "the variables name the owner");
    start("", 0);
    says(1,
         HOOK("apply_start", "aws_vpc", "null", "create")
             REFUSED("api error InvalidKeyPair.Duplicate: x"),
         1);
    says(2, "", 1);
    is_int(make(), -1, "the recorded part cannot be destroyed");
    has_str(error.text, "taking back what was made: ", "the error says so");
    start("", 1);
    says(1,
         HOOK("apply_start", "aws_vpc", "null", "create")
             REFUSED("api error InvalidKeyPair.Duplicate: x"),
         1);
    says(2, problem("x", "api error ExpiredToken: y"), 1);
    is_int(make(), -1, "AWS cannot be searched");
    is_str(fake_terraform_calls(), UP "\n" APPLY "\n", "the old nodes are left alone");
}

// ---- instances that end -------------------------------------------------------------------------

#define FACTS(nodes)   ",\"facts\":{\"value\":{\"nodes\":[" nodes "]}}"
#define FACT(n, state) "{\"id\":\"i-" n "\",\"name\":\"node" n "\",\"state\":\"" state "\"}"
#define INSTANCE(n)                                                                                \
    "{\"mode\":\"managed\",\"type\":\"aws_instance\",\"name\":\"node\",\"instances\":["            \
    "{\"index_key\":" n ",\"attributes\":{\"id\":\"i-" n "\"}}]}"
#define INSTANCES                                                                                  \
    STATE(INSTANCE("0") "," RESOURCE("managed", "aws_vpc", "\"id\":\"i-1\"") "," INSTANCE("1"))
#define BOTH NODE("0", "") NODE("1", "")

static void test_ending(void) {
    start("", 1);
    fake_terraform_says("state-infra", INSTANCES, 0);
    says(1, MADE_OF(BOTH, FACTS(FACT("0", "stopped") "," FACT("1", "shutting-down"))), 0);
    says(2, MADE_OF(BOTH, FACTS(FACT("0", "running") "," FACT("1", "shutting-down"))), 0);
    is_int(make(), 0, "an instance that ends is replaced: %s", error.text);
    is_str(fake_terraform_calls(), UP "\n" UP " -refresh=false -replace=aws_instance.node[1]\n",
           "one more apply replaces it");
    is_str(said(),
           "test: warning: AWS says that the instance of a node is stopped node=node0 id=i-0 "
           "remedy=\"start it there, or dtctl up --replace node0\"\n"
           "AWS is still ending node1 (i-1); a new one is created after that\n",
           "the user reads of both nodes");
    is_str(strbuf_cstr(&boot_rows), "hide\nshow\n", "the rows make room for the words");
    start("", 1);
    says(1, MADE_OF(BOTH, FACTS(FACT("0", "stopping") "," FACT("1", "running"))), 0);
    is_int(make(), 0, "instances that run, or stop, are left alone: %s", error.text);
    has_str(said(), "is stopped node=node0", "the user reads that one stops");
    ok(!strstr(said(), "node1"), "the other one is not mentioned");
    start("", 1);
    fake_terraform_says("state-infra", "", 1);
    says(1, MADE_OF(BOTH, FACTS(FACT("1", "shutting-down"))), 0);
    is_int(make(), -1, "without a state nothing can be replaced");
    has_str(error.text, "cannot read terraform's state", "the error says so");
    start("", 1);
    says(1, MADE_OF(BOTH, ",\"facts\":{\"value\":{\"nodes\":7}}"), 0);
    is_int(make(), 0, "facts may be missing: %s", error.text);
}

static void test_replaced(void) {
    start("", 2);
    config.aws.replace = "node1";
    fake_terraform_says("state-infra", INSTANCES, 0);
    says(1, REFUSED("api error RequestLimitExceeded: x"), 1);
    says(2, MADE, 0);
    is_int(make(), 0, "a node is replaced: %s", error.text);
    is_str(fake_terraform_calls(),
           UP " -replace=aws_instance.node[1]\n" UP " -replace=aws_instance.node[1]\n",
           "each attempt replaces it");
    start("", 2);
    config.aws.replace = "node7";
    is_int(make(), -1, "a node that there is not cannot be replaced");
    has_str(error.text, "node7", "the error names it");
    start("", 2);
    config.aws.replace = "node0";
    fake_terraform_says("state-infra", "", 1);
    is_int(make(), -1, "without a state no node can be replaced");
    is_str(fake_terraform_calls(), "", "nothing is tried");
}

int main(void) {
    open_all();
    test_given_up();
    test_names();
    test_undone();
    test_duplicate();
    test_ending();
    test_replaced();
    strbuf_fini(&boot_rows);
    close_all();
    return done_testing();
}
