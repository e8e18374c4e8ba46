// SPDX-License-Identifier: Apache-2.0
// The text that names a model: a word, and settings of its fields: resnet18, resnet18(stem=cifar),
// vit(dim=192,depth=12,heads=3,patch=4), mlp(hidden=256,256). Models, fields and defaults are the
// tables of train_names.h.
#ifndef CONF_TRAIN_MODEL_H
#define CONF_TRAIN_MODEL_H

#include "base/err.h"
#include "conf/train_names.h"

#include <stdbool.h>
#include <stddef.h>

enum { TRAIN_HIDDEN_MAX = 16, TRAIN_MODEL_BYTES_MAX = 160 /* of a text, its end included */ };

struct train_model_spec {
    enum train_model model;
    bool has[TRAIN_FIELDS];   // the model has this field
    bool given[TRAIN_FIELDS]; // the text sets it; the others have their defaults
    int value[TRAIN_FIELDS];  // number, or index of a word; hidden: unused
    int hidden[TRAIN_HIDDEN_MAX], nhidden;
};

// ERR_CONFIG names the unknown model or field, and lists the known ones.
int train_model_parse(struct train_model_spec *out, const char *text, struct err *e);
int train_model_check(const char *text, struct err *e); // for option_row.check
// The word, and fields that differ from their defaults.
void train_model_format(const struct train_model_spec *s, char out[TRAIN_MODEL_BYTES_MAX]);
// Fields with their defaults, "dim=192,depth=12", and what the model is.
const char *train_model_fields(enum train_model model);
const char *train_model_text(enum train_model model);
const char *train_field_text(enum train_field field);

#endif
