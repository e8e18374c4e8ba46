// SPDX-License-Identifier: Apache-2.0
// Lines and states of Terraform: any bytes become a line with non-null strings, or a state with
// consistent counts, or an error with a text. Quoted errors of AWS become printable.
#include "aws/aws_errors.h"
#include "aws/aws_tfvars.h"
#include "terraform/terraform_output.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct arena a = {0};
    struct err e = {0};
    struct terraform_line l;
    struct terraform_state state;
    struct aws_vars vars;
    const char *text = arena_strndup(&a, (const char *)data, size);
    terraform_line_parse(&a, text, size, &l);
    must(l.message && l.address && l.type && l.action && l.id && l.summary && l.detail);
    must(l.index >= -1);
    (void)terraform_line_output(l.outputs, "inventory");
    const char *type = "", *id = "";
    must(terraform_line_missing(&a, &l, &type, &id) == (id[0] != 0));
    if (terraform_state_parse(&a, text, size, &state, &e) < 0)
        must(e.code != ERR_NONE && e.text[0]);
    else
        for (size_t i = 0; i < state.count; i++)
            must(state.resources[i].id && state.resources[i].type && state.resources[i].key);
    struct terraform_lock lock;
    bool locked = terraform_lock_parse(&a, text, &lock);
    must(lock.id && lock.who && lock.operation && locked == (lock.id[0] != 0));
    for (const char *p = lock.who; *p; p++)
        must((unsigned char)*p >= 0x20 && *p != 0x7f);
    struct aws_refusal r = aws_refusal_of(&a, text);
    must(r.words && r.next && r.quota && strlen(r.code) < sizeof r.code);
    for (const char *p = r.words; *p; p++)
        must((unsigned char)*p >= 0x20 && *p != 0x7f);
    for (const char *p = r.action; *p; p++)
        must((unsigned char)*p > 0x20 && (unsigned char)*p < 0x7f);
    err_clear(&e);
    if (aws_vars_read(&a, text, size, &vars, &e) < 0)
        must(e.code != ERR_NONE);
    arena_fini(&a);
    return 0;
}
