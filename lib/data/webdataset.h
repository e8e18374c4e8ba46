// SPDX-License-Identifier: Apache-2.0
// Names and labels of webdataset shards: the members of one sample lie side by side and have the
// same path up to the first dot of the base name; what follows is the field. Read are the fields
// jpg or jpeg (the image) and cls (the label, a number in decimal). All others are left alone, a
// class in json too. Pure.
#ifndef DATA_WEBDATASET_H
#define DATA_WEBDATASET_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { WEBDATASET_LABEL_BYTES_MAX = 32 };

enum webdataset_field { WEBDATASET_OTHER, WEBDATASET_IMAGE, WEBDATASET_LABEL, WEBDATASET_FOREIGN };

// *key: how many bytes of path name the sample; 0 for what belongs to none (hidden files, ._x of
// macOS, names without a dot). WEBDATASET_FOREIGN: an image of another format.
enum webdataset_field webdataset_name(const char *path, size_t *key);
// The text of a cls member, up to a newline; ERR_FORMAT, ERR_LIMIT (DATASET_CLASSES_MAX).
int webdataset_label(const char *text, size_t len, int32_t *label, struct err *e);

#endif
