/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_forwardd, call by call: what each call does in the folder of the server,
 * and its limits.
 */
#define _GNU_SOURCE
#include "forward_client.h"

HG_TEST(a_file_is_looked_up_and_read)
{
    struct forward_server server;
    struct forward_client client;
    fwd_entry_t entry;
    uint64_t file;
    uint32_t size;
    char data[100];

    forward_start(&server, NULL);
    forward_put(&server, "file", "hello", 5);
    forward_open(&client, &server);
    HG_CHECK_EQ_INT(
        forward_lookup(&client, client.root, "none", &entry), ENOENT);
    HG_CHECK_EQ_INT(forward_lookup(&client, client.root, "file", &entry), 0);
    HG_CHECK_EQ_U64(entry.attr.size, 5);
    HG_CHECK_EQ_INT(forward_open_file(&client, entry.node, O_RDONLY, &file), 0);
    HG_CHECK_EQ_INT(
        forward_read(&client, file, 0, data, sizeof(data), &size), 0);
    HG_CHECK_EQ_U64(size, 5);
    HG_CHECK_EQ_MEM(data, "hello", 5);
    HG_CHECK_EQ_INT(forward_release(&client, file), 0);
    HG_CHECK_EQ_INT(forward_release(&client, file), FWD_FORGOTTEN);
    forward_close(&client);
    forward_stop(&server);
}
