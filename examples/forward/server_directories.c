/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server_directories: see server_directories.h.
 *
 * A response has at most DIRECTORIES_BYTES of names and attributes, so that it
 * travels in one message.
 */
#define _GNU_SOURCE 1
#include "server_directories.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_files.h"
#include "server_names.h"
#include "server_workers.h"

#define DIRECTORIES_BYTES 24576u
#define DIRECTORIES_NAME_BYTES 40u   /* of an entry without its name */
#define DIRECTORIES_ENTRY_BYTES 128u /* of its attributes */

/* The buffer of a thread: names first, then what the kernel returns. */
#define DIRECTORIES_NAMES_SIZE (FWD_ENTRIES_MAX * sizeof(fwd_name_t))
#define DIRECTORIES_KERNEL_SIZE 32768u

_Static_assert(
    DIRECTORIES_NAMES_SIZE + DIRECTORIES_KERNEL_SIZE <= WORKERS_BUFFER_SIZE,
    "the buffer of a thread holds both");

static bool directories_is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Add an entry of the kernel to the output. False: the response is full. */
static bool directories_add(struct job *job, const struct file *file,
    const struct dirent64 *entry, uint32_t *bytes)
{
    const fwd_readdir_in_t *in = &job->in.readdir;
    fwd_names_t *names = &job->out.readdir.names;
    fwd_name_t *name = &names->names[names->count];
    bool plus = in->plus != 0 && !directories_is_dot(entry->d_name);

    *bytes += DIRECTORIES_NAME_BYTES + (uint32_t) strlen(entry->d_name) +
        (plus ? DIRECTORIES_ENTRY_BYTES : 0);
    if (*bytes > DIRECTORIES_BYTES || names->count == FWD_ENTRIES_MAX ||
        (names->count == in->count && in->count > 0))
        return false;
    memset(name, 0, sizeof(*name));
    name->cookie = (uint64_t) entry->d_off;
    name->inode = entry->d_ino;
    name->type = entry->d_type;
    name->name = entry->d_name;
    /* A name that is gone by now is reported without its entry. */
    if (plus &&
        names_enter(job->session, file->node, entry->d_name, &name->entry) != 0)
        name->entry.node = 0;
    names->count++;
    return true;
}

/* Read entries after the cookie. file->position is held. 0 or an errno. */
static int directories_fill(struct job *job, const struct file *file)
{
    char *buffer = (char *) workers_buffer() + DIRECTORIES_NAMES_SIZE;
    uint32_t bytes = 0;
    ssize_t at = 0;
    ssize_t size;

    if (lseek(file->fd, (off_t) job->in.readdir.cookie, SEEK_SET) < 0)
        return errno;
    size = getdents64(file->fd, buffer, DIRECTORIES_KERNEL_SIZE);
    if (size < 0)
        return errno;
    while (at < size) {
        const struct dirent64 *entry =
            (const struct dirent64 *) (const void *) (buffer + at);

        if (!directories_add(job, file, entry, &bytes))
            break;
        at += entry->d_reclen;
    }
    return 0;
}

int32_t directories_read(struct job *job)
{
    struct session *session = job->session;
    struct file *file = files_get(session, job->in.readdir.file);
    int error = ENOTDIR;

    if (file == NULL)
        return FWD_FORGOTTEN;
    job->out.readdir.names.names = (fwd_name_t *) workers_buffer();
    if (file->node->type == S_IFDIR) {
        (void) pthread_mutex_lock(&file->position);
        error = directories_fill(job, file);
        (void) pthread_mutex_unlock(&file->position);
    }
    files_put(session, file);
    return error;
}
