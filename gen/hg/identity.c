/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * identity: who makes a call.
 *
 * The address of a peer holds what the transport has proved of it, and that
 * never changes; the handle keeps the address. A peer's own claims are not
 * used. Nothing above includes this module: it has no header.
 *
 * Locking: none. A handle of the request model is gone with its layer, so that
 * one's gate is passed if it is open.
 */
#include "hg/check.h"
#include "hg/layer.h"

HG_EXPORT const char *HG_Get_peer_id(hg_handle_t handle)
{
    const char *identity = "";
    bool inside;

    if (handle == NULL)
        return identity;
    inside = hg_layer_enter(NULL) != NULL;
    if (hg_check_handle(handle, "HG_Get_peer_id") == HG_SUCCESS &&
        handle->target && handle->addr != NULL)
        identity =
            na_class_ops(handle->addr->na_class)->addr_identity(handle->addr);
    if (inside)
        (void) hg_layer_leave(HG_SUCCESS);
    return identity;
}
