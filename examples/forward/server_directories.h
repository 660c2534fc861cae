/* SPDX-License-Identifier: BSD-3-Clause */
/* server_directories: the call that reads directories. */
#ifndef HG_EXAMPLES_SERVER_DIRECTORIES_H
#define HG_EXAMPLES_SERVER_DIRECTORIES_H

#include "server_calls.h"

int32_t directories_read(struct job *job);

#endif
