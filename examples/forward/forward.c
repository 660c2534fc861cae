/* SPDX-License-Identifier: BSD-3-Clause */
/* forward: see forward.h. */
#include "forward.h"

hg_return_t hg_proc_fwd_data_t(hg_proc_t proc, void *data)
{
    fwd_data_t *bytes = (fwd_data_t *) data;
    hg_proc_op_t op = hg_proc_get_op(proc);
    hg_return_t ret;

    if (op == HG_FREE) {
        hg_proc_release(proc, bytes->bytes);
        bytes->bytes = NULL;
        return HG_SUCCESS;
    }
    ret = hg_proc_uint32_t(proc, &bytes->size);
    if (ret != HG_SUCCESS)
        return ret;
    if (op == HG_DECODE) {
        bytes->bytes = NULL;
        if (bytes->size > hg_proc_get_size_left(proc))
            return HG_OVERFLOW; /* more than there is */
        if (bytes->size == 0)
            return HG_SUCCESS;
        bytes->bytes = hg_proc_alloc(proc, bytes->size);
        if (bytes->bytes == NULL)
            return HG_NOMEM;
    }
    return hg_proc_raw(proc, bytes->bytes, bytes->size);
}

hg_return_t hg_proc_fwd_name_t(hg_proc_t proc, void *data)
{
    fwd_name_t *name = (fwd_name_t *) data;
    hg_return_t ret;

    ret = hg_proc_uint64_t(proc, &name->cookie);
    if (ret == HG_SUCCESS)
        ret = hg_proc_uint64_t(proc, &name->inode);
    if (ret == HG_SUCCESS)
        ret = hg_proc_uint32_t(proc, &name->type);
    if (ret == HG_SUCCESS)
        ret = hg_proc_hg_const_string_t(proc, &name->name);
    if (ret == HG_SUCCESS && name->name == NULL &&
        hg_proc_get_op(proc) == HG_DECODE)
        ret = HG_PROTOCOL_ERROR;
    if (ret == HG_SUCCESS)
        ret = hg_proc_uint64_t(proc, &name->entry.node);
    if (ret != HG_SUCCESS || name->entry.node == 0)
        return ret;
    ret = hg_proc_fwd_id_t(proc, &name->entry.id);
    if (ret == HG_SUCCESS)
        ret = hg_proc_fwd_attr_t(proc, &name->entry.attr);
    return ret;
}

hg_return_t hg_proc_fwd_names_t(hg_proc_t proc, void *data)
{
    fwd_names_t *names = (fwd_names_t *) data;
    hg_proc_op_t op = hg_proc_get_op(proc);
    hg_return_t ret = HG_SUCCESS;
    uint32_t i;

    if (op != HG_FREE)
        ret = hg_proc_uint32_t(proc, &names->count);
    if (ret != HG_SUCCESS)
        return ret;
    if (op == HG_DECODE) {
        names->names = NULL;
        if (names->count > FWD_ENTRIES_MAX)
            return HG_OVERFLOW;
        if (names->count == 0)
            return HG_SUCCESS;
        names->names = (fwd_name_t *) hg_proc_alloc(
            proc, names->count * sizeof(names->names[0]));
        if (names->names == NULL)
            return HG_NOMEM;
    }
    for (i = 0; i < names->count && ret == HG_SUCCESS; i++)
        ret = hg_proc_fwd_name_t(proc, &names->names[i]);
    if (op == HG_FREE) {
        hg_proc_release(proc, names->names);
        names->names = NULL;
    }
    return ret;
}
