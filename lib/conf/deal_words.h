// SPDX-License-Identifier: Apache-2.0
// The words of inputs.NAME.shard and inputs.NAME.uneven, in the configuration and in the job that a
// node gets. Both lists end with NULL, and their order is that of enum config_shard and enum
// config_uneven.
#ifndef CONF_DEAL_WORDS_H
#define CONF_DEAL_WORDS_H

extern const char *const deal_shard_words[], *const deal_uneven_words[];

#endif
