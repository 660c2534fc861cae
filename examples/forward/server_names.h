/* SPDX-License-Identifier: BSD-3-Clause */
/* server_names: the calls that look up, make, rename and remove names. */
#ifndef HG_EXAMPLES_SERVER_NAMES_H
#define HG_EXAMPLES_SERVER_NAMES_H

#include "server_calls.h"
#include "server_nodes.h"

/* Look up a checked name in a directory; counts a lookup. 0 or an errno. */
int names_enter(struct session *session, const struct node *parent,
    const char *name, fwd_entry_t *entry);

/* If the server is root, this thread makes files as `uid` and `gid` from now
 * on. Its other rights stay those of root. 0, or EINVAL if they are not valid
 * here. */
int names_become(uint32_t uid, uint32_t gid);

/* Whether a repeated call, which finds its name, has made the node before. The
 * node then has the mark of the call. If the server was killed before it set
 * the mark, this function sets it: no other call can claim the node then. */
bool names_claim(const struct node *parent, const fwd_make_in_t *in);

int32_t names_lookup(struct job *job);
int32_t names_find(struct job *job);
int32_t names_forget(struct job *job);
int32_t names_make(struct job *job);
int32_t names_link(struct job *job);
int32_t names_remove(struct job *job);
int32_t names_rename(struct job *job);
int32_t names_readlink(struct job *job);

#endif
