// SPDX-License-Identifier: Apache-2.0
// YAML by libyaml's events, into the tree of base/json.h.
//
// Plain scalars are null, true, false, integers and decimal numbers as in YAML 1.1; all others are
// strings. A number keeps its spelling in str. An alias shares the nodes of its anchor.
// The line of a member is that of its key.
#ifndef CONVERT_CONVERT_YAML_H
#define CONVERT_CONVERT_YAML_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

enum {
    CONVERT_YAML_NODES_MAX = 100000, // each alias counts as all that it stands for
    CONVERT_YAML_MEMBERS_MAX = 2000, // of one mapping
    CONVERT_YAML_ANCHORS_MAX = 100,
};

// One document of a mapping. Errors are ERR_CONFIG and name the line: syntax, a second document, a
// limit (JSON_DEPTH_MAX, those above), keys that are no scalars or given twice, "<<".
int convert_yaml_parse(struct arena *a, const char *text, size_t len, struct json **out,
                       struct err *e);

#endif
