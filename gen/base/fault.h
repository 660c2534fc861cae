/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault: checks of memory of the application, which may not be accessible: it
 * was unmapped or protected, or its mapped file was cut short.
 *
 * An access of this process to such memory would end it with SIGSEGV or SIGBUS.
 * So a check passes a byte of each page through a pipe: the kernel reports an
 * error instead. It says nothing about a later access: another thread or
 * process may change the mapping or the file meanwhile.
 *
 * Cost on a virtual machine, in the cache, pages of 4 KiB: a check of 1 MiB
 * takes 9 us for reading, a memcpy 36 us.
 *
 * Locking: opening and closing have a mutex, which a process that forks holds.
 * The checks have none: each takes as many bytes out of the pipe as it has put
 * in, and does not use their values. So threads, and the child of a fork, share
 * one pipe.
 */
#ifndef HG_GEN_BASE_FAULT_H
#define HG_GEN_BASE_FAULT_H

#include "base/os.h"

/* Open the pipe, or use it once more, until hg_fault_close. Errors, logged:
 * those of hg_log_no_fd. Without a pipe the checks find no fault. */
HG_PRIVATE hg_return_t hg_fault_open(void);
HG_PRIVATE void hg_fault_close(void);

/* Whether memory can be read. */
HG_PRIVATE bool hg_fault_can_read(const void *memory, size_t size);

/* Whether memory can be written. Its bytes may change: it is about to be
 * overwritten. */
HG_PRIVATE bool hg_fault_can_write(void *memory, size_t size);

/* Copy one of many runs of the application's memory, which is checked: `run` is
 * `to` or `from`. There is no check if the run before was in the same page.
 * *page_p: the page of the last run; 0 at first. False: it cannot be read, or
 * written. */
HG_PRIVATE bool hg_fault_copy_run(void *to, const void *from, size_t size,
    const void *run, uintptr_t *page_p);

#endif
