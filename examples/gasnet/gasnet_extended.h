/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gasnet_extended: put, get, memset, waiting for them. gasnet.h includes it.
 *
 * The segment of a node of the same host is mapped here, so an operation on it
 * is a copy, which is complete when the function returns. Others go to the
 * library. A put that is complete is visible to all later loads of its owner:
 * the fences here and in the functions that synchronize make that true where
 * stores may be reordered.
 *
 * Errors end the job with a message.
 */
#ifndef GASNET_EXTENDED_H
#define GASNET_EXTENDED_H

#include "gasnet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For each node what an address there is here less; GASNET_HG_FAR: the segment
 * is not mapped. The entry of this node is 0. */
extern const intptr_t *gasnet_hg_shifts;
#define GASNET_HG_FAR INTPTR_MIN

/* With GASNET_DEBUG: end the job if the node does not exist, the memory is
 * outside its segment, or this thread must not communicate now. */
void gasnet_hg_check(gasnet_node_t node, const void *remote, size_t nbytes);
#ifdef GASNET_DEBUG
#define GASNET_HG_CHECK(node, remote, nbytes) \
    gasnet_hg_check(node, remote, nbytes)
#else
#define GASNET_HG_CHECK(node, remote, nbytes) ((void) 0)
#endif

/* Of a node whose segment is not mapped, and at least one byte. Those without
 * _bulk have read the source when they return. */
void gasnet_hg_put(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes);
gasnet_handle_t gasnet_hg_put_nb(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes);
gasnet_handle_t gasnet_hg_put_nb_bulk(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes);
void gasnet_hg_put_nbi(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes);
void gasnet_hg_put_nbi_bulk(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes);
void gasnet_hg_get(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes);
gasnet_handle_t gasnet_hg_get_nb(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes);
void gasnet_hg_get_nbi(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes);
gasnet_handle_t gasnet_hg_memset_nb(
    gasnet_node_t node, void *dest, int value, size_t nbytes);
void gasnet_hg_memset_nbi(
    gasnet_node_t node, void *dest, int value, size_t nbytes);

void gasnet_hg_wait_syncnb(gasnet_handle_t handle);

/* There is nothing to wait for after an operation on a mapped segment. */
static inline void gasnet_wait_syncnb(gasnet_handle_t handle)
{
    if (handle != GASNET_INVALID_HANDLE || GASNET_HG_CHECKED)
        gasnet_hg_wait_syncnb(handle);
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
}

/* Put, get and memset of a node whose segment is mapped, or nothing at all.
 * Returns 0 if the library must do it. */
static inline int gasnet_hg_near_put(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    intptr_t shift;

    GASNET_HG_CHECK(node, dest, nbytes);
    shift = gasnet_hg_shifts[node];
    if (__builtin_expect(shift == GASNET_HG_FAR, 0))
        return nbytes == 0;
    memcpy((char *) dest + shift, src, nbytes);
    return 1;
}

static inline int gasnet_hg_near_get(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes)
{
    intptr_t shift;

    GASNET_HG_CHECK(node, src, nbytes);
    shift = gasnet_hg_shifts[node];
    if (__builtin_expect(shift == GASNET_HG_FAR, 0))
        return nbytes == 0;
    memcpy(dest, (const char *) src + shift, nbytes);
    return 1;
}

static inline int gasnet_hg_near_memset(
    gasnet_node_t node, void *dest, int value, size_t nbytes)
{
    intptr_t shift;

    GASNET_HG_CHECK(node, dest, nbytes);
    shift = gasnet_hg_shifts[node];
    if (__builtin_expect(shift == GASNET_HG_FAR, 0))
        return nbytes == 0;
    memset((char *) dest + shift, value, nbytes);
    return 1;
}

/* ---- Memory to memory ---- */

static inline void gasnet_put(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    if (!gasnet_hg_near_put(node, dest, src, nbytes))
        gasnet_hg_put(node, dest, src, nbytes);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void gasnet_put_bulk(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    gasnet_put(node, dest, src, nbytes);
}

static inline void gasnet_get(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes)
{
    if (!gasnet_hg_near_get(dest, node, src, nbytes))
        gasnet_hg_get(dest, node, src, nbytes);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static inline void gasnet_get_bulk(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes)
{
    gasnet_get(dest, node, src, nbytes);
}

static inline void gasnet_memset(
    gasnet_node_t node, void *dest, int value, size_t nbytes)
{
    if (!gasnet_hg_near_memset(node, dest, value, nbytes))
        gasnet_wait_syncnb(gasnet_hg_memset_nb(node, dest, value, nbytes));
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline gasnet_handle_t gasnet_put_nb(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    return gasnet_hg_near_put(node, dest, src, nbytes)
        ? GASNET_INVALID_HANDLE
        : gasnet_hg_put_nb(node, dest, src, nbytes);
}

static inline gasnet_handle_t gasnet_put_nb_bulk(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    return gasnet_hg_near_put(node, dest, src, nbytes)
        ? GASNET_INVALID_HANDLE
        : gasnet_hg_put_nb_bulk(node, dest, src, nbytes);
}

static inline gasnet_handle_t gasnet_get_nb(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes)
{
    return gasnet_hg_near_get(dest, node, src, nbytes)
        ? GASNET_INVALID_HANDLE
        : gasnet_hg_get_nb(dest, node, src, nbytes);
}

static inline gasnet_handle_t gasnet_get_nb_bulk(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes)
{
    return gasnet_get_nb(dest, node, src, nbytes);
}

static inline gasnet_handle_t gasnet_memset_nb(
    gasnet_node_t node, void *dest, int value, size_t nbytes)
{
    return gasnet_hg_near_memset(node, dest, value, nbytes)
        ? GASNET_INVALID_HANDLE
        : gasnet_hg_memset_nb(node, dest, value, nbytes);
}

static inline void gasnet_put_nbi(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    if (!gasnet_hg_near_put(node, dest, src, nbytes))
        gasnet_hg_put_nbi(node, dest, src, nbytes);
}

static inline void gasnet_put_nbi_bulk(
    gasnet_node_t node, void *dest, const void *src, size_t nbytes)
{
    if (!gasnet_hg_near_put(node, dest, src, nbytes))
        gasnet_hg_put_nbi_bulk(node, dest, src, nbytes);
}

static inline void gasnet_get_nbi(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes)
{
    if (!gasnet_hg_near_get(dest, node, src, nbytes))
        gasnet_hg_get_nbi(dest, node, src, nbytes);
}

static inline void gasnet_get_nbi_bulk(
    void *dest, gasnet_node_t node, const void *src, size_t nbytes)
{
    gasnet_get_nbi(dest, node, src, nbytes);
}

static inline void gasnet_memset_nbi(
    gasnet_node_t node, void *dest, int value, size_t nbytes)
{
    if (!gasnet_hg_near_memset(node, dest, value, nbytes))
        gasnet_hg_memset_nbi(node, dest, value, nbytes);
}

/* ---- Registers ---- */

/* The first of the `nbytes` low-order bytes of a value in memory. */
static inline char *gasnet_hg_low(gasnet_register_value_t *value, size_t nbytes)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (char *) value + (sizeof(*value) - nbytes);
#else
    (void) nbytes;
    return (char *) value;
#endif
}

static inline void gasnet_put_val(gasnet_node_t node, void *dest,
    gasnet_register_value_t value, size_t nbytes)
{
    gasnet_put(node, dest, gasnet_hg_low(&value, nbytes), nbytes);
}

static inline gasnet_handle_t gasnet_put_nb_val(gasnet_node_t node, void *dest,
    gasnet_register_value_t value, size_t nbytes)
{
    return gasnet_put_nb(node, dest, gasnet_hg_low(&value, nbytes), nbytes);
}

static inline void gasnet_put_nbi_val(gasnet_node_t node, void *dest,
    gasnet_register_value_t value, size_t nbytes)
{
    gasnet_put_nbi(node, dest, gasnet_hg_low(&value, nbytes), nbytes);
}

static inline gasnet_register_value_t gasnet_get_val(
    gasnet_node_t node, const void *src, size_t nbytes)
{
    gasnet_register_value_t value = 0;

    gasnet_get(gasnet_hg_low(&value, nbytes), node, src, nbytes);
    return value;
}

gasnet_valget_handle_t gasnet_get_nb_val(
    gasnet_node_t node, const void *src, size_t nbytes);
gasnet_register_value_t gasnet_wait_syncnb_valget(
    gasnet_valget_handle_t handle);

/* ---- Synchronization ---- */

/* gasnet_try_... poll, also if there is nothing to wait for: a program may spin
 * on one of them until a peer has written to its memory. */
int gasnet_try_syncnb(gasnet_handle_t handle);
void gasnet_wait_syncnb_all(gasnet_handle_t *handles, size_t numhandles);
int gasnet_try_syncnb_all(gasnet_handle_t *handles, size_t numhandles);
void gasnet_wait_syncnb_some(gasnet_handle_t *handles, size_t numhandles);
int gasnet_try_syncnb_some(gasnet_handle_t *handles, size_t numhandles);

void gasnet_wait_syncnbi_gets(void);
void gasnet_wait_syncnbi_puts(void);
void gasnet_wait_syncnbi_all(void);
int gasnet_try_syncnbi_gets(void);
int gasnet_try_syncnbi_puts(void);
int gasnet_try_syncnbi_all(void);

void gasnet_begin_nbi_accessregion(void);
gasnet_handle_t gasnet_end_nbi_accessregion(void);

#ifdef __cplusplus
}
#endif

#endif
