/* SPDX-License-Identifier: BSD-3-Clause */
/* server_attributes: the calls that read and change attributes of nodes. */
#ifndef HG_EXAMPLES_SERVER_ATTRIBUTES_H
#define HG_EXAMPLES_SERVER_ATTRIBUTES_H

#include "server_calls.h"

int32_t attributes_get(struct job *job);
int32_t attributes_set(struct job *job);
int32_t attributes_getxattr(struct job *job);
int32_t attributes_setxattr(struct job *job);
int32_t attributes_removexattr(struct job *job);
int32_t attributes_statfs(struct job *job);

#endif
