// SPDX-License-Identifier: Apache-2.0
// dtctl doctor looks for Terraform, its version, and settings of provider aws that fit.
#include "tests/unit/aws/terraform_opened.h"

static struct findings findings;

// A finding as the user reads it; remedy NULL: none.
static const char *finding(const char *verdict, const char *what, const char *fact,
                           const char *remedy) {
    const char *line = arena_printf(&a, "%-5s %-22s %s\n", verdict, what, fact);
    return remedy ? arena_printf(&a, "%s%-28s -> %s\n", line, "", remedy) : line;
}

static void version(const char *text) {
    fake_put("tf", arena_printf(&a, "#!/bin/sh\necho '{\"terraform_version\":\"%s\"}'\n", text),
             0755);
}

static const char *doctor(const char *toml) {
    load(toml);
    begin();
    findings = (struct findings){.context = &context};
    aws_doctor(&findings);
    return said();
}

static const char *usual(const char *program) {
    return doctor(arena_printf(&a,
                               "[aws]\nregion = 'eu-west-1'\ninstance_type = 'g6.xlarge'\n"
                               "terraform = '%s'\n",
                               program));
}

static void counts(size_t good, size_t bad, const char *what) {
    is_uint(findings.counts[FINDING_GOOD], good, "%s: good findings count", what);
    is_uint(findings.counts[FINDING_BAD], bad, "%s: bad findings count", what);
    is_uint(findings.counts[FINDING_WARN], 0, "%s: no finding is a warning", what);
}

static void test_program(void) {
    const char *program = fake_in("tf"), *absent = fake_in("absent");
    const char *aws = finding("ok", "aws", "g6.xlarge in eu-west-1", NULL);
    version("1.9.5");
    is_str(usual(program),
           arena_printf(
               &a, "%s%s",
               finding("ok", "terraform", arena_printf(&a, "%s, version 1.9.5", program), NULL),
               aws),
           "a new program is good");
    counts(2, 0, "a new program");
    version("1.6.2");
    is_str(usual(program),
           arena_printf(&a, "%s%s",
                        finding("bad", "terraform",
                                arena_printf(&a,
                                             "'%s' is version 1.6.2; dtctl needs 1.7 or newer, and "
                                             "below 2.0; install one, or name it in aws.terraform",
                                             program),
                                "install another, or name it in aws.terraform"),
                        aws),
           "an old program is bad");
    counts(1, 1, "an old program");
    is_str(usual(absent),
           arena_printf(
               &a, "%s%s",
               finding(
                   "bad", "terraform",
                   arena_printf(&a, "t.toml:4:13: aws.terraform: there is no program '%s'", absent),
                   "install it, or name it in aws.terraform"),
               aws),
           "an absent program is bad");
    counts(1, 1, "an absent program");
    version("1.9.5");
    has_str(doctor(arena_printf(&a,
                                "[aws]\nregion = 'eu-west-1'\ninstance_type = 'g6.xlarge'\n"
                                "state = 's3://bucket/x'\nterraform = '%s'\n",
                                program)),
            "dtctl needs 1.10 or newer", "a state in S3 needs a newer program");
    counts(1, 1, "a state in S3");
}

static void test_settings(void) {
    static const char remedy[] = "correct it; dtctl plan shows what it would be";
    const char *line = arena_printf(&a, "terraform = '%s'\n", fake_in("tf"));
    version("1.9.5");
    has_str(doctor(arena_printf(&a, "[aws]\ninstance_type = 'g6.xlarge'\n%s", line)),
            finding("bad", "aws",
                    "aws.region: no region: neither here nor in AWS_REGION nor in '/.aws/config'; "
                    "set one, such as --region us-east-1",
                    remedy),
            "a region is needed");
    counts(1, 1, "no region");
    has_str(doctor(arena_printf(&a, "[aws]\nregion = 'eu-wets-1'\n%s", line)),
            finding("bad", "aws",
                    "t.toml:2:10: aws.region: AWS has no region 'eu-wets-1' (did you mean "
                    "eu-west-…?)",
                    remedy),
            "the region has to exist");
    counts(1, 1, "a wrong region");
}

int main(void) {
    open_all();
    opened = cluster.terraform;
    test_program();
    test_settings();
    close_all();
    return done_testing();
}
