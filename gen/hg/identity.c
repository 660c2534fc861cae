/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * identity: who makes a call.
 *
 * What the transport has proved of a peer stands in its address, and never
 * changes there; the handle keeps that. What a peer says of itself is nowhere
 * asked. Nothing above includes this room: it has no header.
 *
 * Locking: none. A handle of the request model is gone with its layer, so that
 * one's gate is passed if it is open.
 */
#include "hg/layer.h"

HG_EXPORT const char *HG_Get_peer_id(hg_handle_t handle)
{
    const struct na_addr *addr;
    const char *identity = "";
    bool inside;

    if (handle == NULL)
        return identity;
    inside = hg_layer_enter(NULL) != NULL;
    addr = handle->addr;
    if (handle->target && addr != NULL)
        identity = na_class_ops(addr->na_class)->addr_identity(addr);
    if (inside)
        (void) hg_layer_leave(HG_SUCCESS);
    return identity;
}
