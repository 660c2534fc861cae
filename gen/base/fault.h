/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault: accesses to memory of the application that may not be accessible: it
 * was unmapped or protected, or its mapped file was cut short.
 *
 * The kernel makes the access, or a check before it, and reports an error; an
 * access of this process would end it with SIGSEGV or SIGBUS. Where the system
 * denies process_vm_readv, memory that cannot be written is found only if it
 * cannot be read, either. Only Linux has these checks: elsewhere none is made.
 *
 * A check says nothing about a later access: another thread or process may
 * change the mapping or the file meanwhile.
 *
 * Cost on a virtual machine, for 256 KiB in the cache and pages of 4 KiB:
 * memcpy 9 us, the kernel's copy 27 us, a check 8 us by madvise (Linux 5.14),
 * and about 25 us by process_vm_readv.
 */
#ifndef HG_GEN_BASE_FAULT_H
#define HG_GEN_BASE_FAULT_H

#include "base/os.h"

/* Copy `size` bytes. False: part of the source cannot be read, or part of the
 * destination cannot be written; some bytes may have been copied. */
HG_PRIVATE bool hg_fault_copy(void *to, const void *from, size_t size);

/* Copy one of many runs of the application's memory, which is checked: `run` is
 * `to` or `from`. There is no check if the run before was in the same page.
 * *page_p: the page of the last run; 0 at first. False as above. */
HG_PRIVATE bool hg_fault_copy_run(void *to, const void *from, size_t size,
    const void *run, uintptr_t *page_p);

/* Whether memory can be read. */
HG_PRIVATE bool hg_fault_can_read(const void *memory, size_t size);

/* Whether memory can be read and written. */
HG_PRIVATE bool hg_fault_can_write(void *memory, size_t size);

#endif
