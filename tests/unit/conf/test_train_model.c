// SPDX-License-Identifier: Apache-2.0
// Texts that name a model: what they mean, what is refused and with which words.
#include "conf/train_model.h"
#include "tests/tap.h"

static void reads(const char *text, const char *formatted) {
    struct train_model_spec s;
    struct err e = {0};
    char out[TRAIN_MODEL_BYTES_MAX];
    if (!ok(train_model_parse(&s, text, &e) == 0, "'%s' is a model", text)) {
        diag("%s", e.text);
        return;
    }
    train_model_format(&s, out);
    is_str(out, formatted, "'%s' is written as text", text);
    struct train_model_spec again;
    is_int(train_model_parse(&again, out, &e), 0, "the formatted model parses");
    ok(again.model == s.model && memcmp(again.value, s.value, sizeof s.value) == 0 &&
           again.nhidden == s.nhidden && memcmp(again.hidden, s.hidden, sizeof s.hidden) == 0,
       "the formatted model equals the first");
}

static void refuses(const char *text, const char *why) {
    struct train_model_spec s;
    struct err e = {0};
    is_int(train_model_parse(&s, text, &e), -1, "'%s' is no model", text);
    is_str(e.text, why, "the error has the reason");
}

int main(void) {
    struct train_model_spec s;
    struct err e;
    for (int i = 0; i < TRAIN_MODELS; i++)
        reads(train_model_words[i], train_model_words[i]);
    reads("resnet18()", "resnet18");
    reads("resnet18(stem=imagenet)", "resnet18");
    reads("resnet50(stem=cifar)", "resnet50(stem=cifar)");
    reads("vit(patch=4,dim=192)", "vit(patch=4)");
    reads("vit_base(depth=1)", "vit_base(depth=1)");
    reads("mlp(hidden=8,9)", "mlp(hidden=8,9)");
    reads("linformer(pool=mean,keys=7)", "linformer(keys=7,pool=mean)");
    is_int(train_model_parse(&s, "vit(dim=96,heads=6)", &e), 0, "two fields are given");
    ok(s.value[TRAIN_FIELD_DIM] == 96 && s.value[TRAIN_FIELD_HEADS] == 6 &&
           s.value[TRAIN_FIELD_DEPTH] == 12,
       "given fields are set, the others have their defaults");
    ok(s.given[TRAIN_FIELD_DIM] && !s.given[TRAIN_FIELD_DEPTH] && !s.has[TRAIN_FIELD_STEM],
       "given fields are marked");
    refuses("vgg", "there is no model 'vgg', there are mlp, resnet18, resnet34, resnet50, vit, "
                   "vit_tiny, vit_small, vit_base, linformer, airbench");
    refuses("", "there is no model '', there are mlp, resnet18, resnet34, resnet50, vit, vit_tiny, "
                "vit_small, vit_base, linformer, airbench");
    refuses("vit(width=3)",
            "model 'vit' has no field 'width', it has dim, depth, heads, mlp, patch");
    refuses("vit(stem=cifar)",
            "model 'vit' has no field 'stem', it has dim, depth, heads, mlp, patch");
    refuses("vit(dim=8,16)", "model 'vit' has no field '16', it has dim, depth, heads, mlp, patch");
    refuses("vit(,)", "model 'vit' has no field '', it has dim, depth, heads, mlp, patch");
    refuses("vit(dim)", "model 'vit': field 'dim' has no value (try: dim=…)");
    refuses("vit(dim=8,dim=9)", "model 'vit': field 'dim' is set twice");
    refuses("vit(dim=8", "model 'vit(dim=8' does not end with ')'");
    refuses("vit(", "model 'vit(' does not end with ')'");
    refuses("resnet18(stem=vgg)",
            "model 'resnet18': field 'stem' is 'vgg', not one of imagenet, cifar");
    is_int(train_model_parse(&s, "vit(dim=0)", &e), -1, "a width of 0 is refused");
    ok(strstr(e.text, "model 'vit': field 'dim'") != NULL, "a width of 0 is named");
    is_int(train_model_parse(&s, "vit(dim=x)", &e), -1, "a word in place of a number is refused");
    is_int(train_model_parse(&s, "vit(dim=99999999999999999999)", &e), -1,
           "a number of more than 64 bits is refused");
    is_int(train_model_parse(&s, "mlp(hidden=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)", &e), -1,
           "seventeen hidden layers are refused");
    ok(strstr(e.text, "more than 16 hidden layers") != NULL,
       "seventeen hidden layers are too many");
    char longest[TRAIN_MODEL_BYTES_MAX + 1];
    memset(longest, 'm', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    is_int(train_model_parse(&s, longest, &e), -1, "a text that is too long is refused");
    return done_testing();
}
