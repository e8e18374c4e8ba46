// SPDX-License-Identifier: Apache-2.0
// The words by which sharded inputs are dealt.
#include "conf/deal_words.h"

#include <stddef.h>

const char *const deal_shard_words[] = {"size", "key", "count", NULL};
const char *const deal_uneven_words[] = {"allow", "pad", "drop", "refuse", NULL};
