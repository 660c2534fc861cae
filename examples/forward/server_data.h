/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server_data: the calls that move the data of open files.
 *
 * See server_long for those that take long.
 */
#ifndef HG_EXAMPLES_SERVER_DATA_H
#define HG_EXAMPLES_SERVER_DATA_H

#include "server_calls.h"

int32_t data_read(struct job *job);
int32_t data_write(struct job *job);
int32_t data_fsync(struct job *job);
int32_t data_flush(struct job *job);
int32_t data_fallocate(struct job *job);
int32_t data_copy(struct job *job);
int32_t data_seek(struct job *job);

#endif
