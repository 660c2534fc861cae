/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects of libfabric: fabric, domain, address vector, endpoints.
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

#include "plug/list.h"

#define NA_OFI_QUEUE_MIN 4096 /* completions */

/* Threads of a provider are created with signals blocked; signals are for
 * threads of the application. */
static void na_ofi_block_signals(sigset_t *before)
{
    sigset_t all;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, before);
}

static void na_ofi_restore_signals(const sigset_t *before)
{
    (void) pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* ---- Fabric, domain, address vector ---- */

static int na_ofi_open_objects(struct na_ofi_family *family)
{
    struct fi_av_attr attr;
    int rc = fi_fabric(family->info->fabric_attr, &family->fabric, NULL);

    if (rc == 0)
        rc = fi_domain(family->fabric, family->info, &family->domain, NULL);
    if (rc != 0)
        return rc;
    memset(&attr, 0, sizeof(attr));
    attr.type = family->info->domain_attr->av_type;
    if (attr.type == FI_AV_UNSPEC)
        attr.type = FI_AV_TABLE;
    return fi_av_open(family->domain, &attr, &family->av, NULL);
}

/* Whether the provider changes its table of keys without the lock it reads it
 * with: the native tcp did until 1.18. */
static bool na_ofi_has_unsafe_keys(const struct na_ofi_class *self)
{
    const char *provider = self->info->fabric_attr->prov_name;

    return FI_VERSION_LT(fi_version(), FI_VERSION(1, 19)) &&
        (strcmp(provider, "net") == 0 || strcmp(provider, "tcp") == 0);
}

/* Open the provider of family->info. After an error the caller calls
 * na_ofi_fabric_close. */
static na_return_t na_ofi_fabric_open(
    struct na_ofi_class *self, struct na_ofi_family *family)
{
    int rc;

    HG_ASSERT(family->info != NULL && family->fabric == NULL);
    rc = na_ofi_open_objects(family);
    return rc == 0 ? NA_SUCCESS
                   : na_ofi_failed(self, "cannot open the domain",
                         family->info->domain_attr->name, rc);
}

/* Close one object; `which` names it in the log if that fails. */
static void na_ofi_close_object(
    struct na_ofi_class *self, struct fid *object, const char *which)
{
    int rc = object != NULL ? fi_close(object) : 0;

    if (rc != 0)
        self->base.core->log(HG_LOG_LEVEL_WARNING, "ofi",
            "cannot close the %s, which is leaked: %s", which,
            fi_strerror(-rc));
}

/* Close what was opened. */
static void na_ofi_fabric_close(
    struct na_ofi_class *self, struct na_ofi_family *family)
{
    na_ofi_close_object(
        self, family->av != NULL ? &family->av->fid : NULL, "address vector");
    family->av = NULL;
    na_ofi_close_object(
        self, family->domain != NULL ? &family->domain->fid : NULL, "domain");
    family->domain = NULL;
    na_ofi_close_object(
        self, family->fabric != NULL ? &family->fabric->fid : NULL, "fabric");
    family->fabric = NULL;
    fi_freeinfo(family->info);
    family->info = NULL;
}

/* ---- Endpoints ---- */

/* After a completion, the descriptor of a queue of libfabric 1.17's net stays
 * readable: its fi_trywait does not reset a signal. But a queue with
 * FI_WAIT_POLLFD exposes the descriptors behind that one, the last of which is
 * an epoll of the domain's sockets: see na_ofi_poll_fd. */
static bool na_ofi_has_broken_fd(const struct na_ofi_class *self)
{
    return strcmp(self->info->fabric_attr->prov_name, "net") == 0;
}

#if FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION >= 12
static int na_ofi_find_epoll(struct fid_cq *cq, int timeout, int *fd_p)
{
    struct pollfd fds[8];
    struct fi_wait_pollfd wait;
    struct fi_cq_data_entry none;
    char path[32];
    char what[32];
    ssize_t size;
    int rc;

    /* The new queue is empty. Waiting for it adds the descriptors. */
    (void) fi_cq_sread(cq, &none, 1, NULL, timeout);
    memset(&wait, 0, sizeof(wait));
    wait.nfds = sizeof(fds) / sizeof(fds[0]);
    wait.fd = fds;
    rc = fi_control(&cq->fid, FI_GETWAIT, &wait);
    if (rc != 0 || wait.nfds == 0)
        return rc != 0 ? rc : -FI_ENODATA;
    *fd_p = fds[wait.nfds - 1].fd;
    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd_p);
    size = readlink(path, what, sizeof(what));
    return size == 22 && memcmp(what, "anon_inode:[eventpoll]", 22) == 0
        ? 0
        : -FI_ENODATA;
}

/* A wait that times out before it starts, on a busy machine, adds nothing. */
static int na_ofi_get_epoll(struct fid_cq *cq, int *fd_p)
{
    int timeout = 1;
    int rc;

    do {
        rc = na_ofi_find_epoll(cq, timeout, fd_p);
        timeout *= 2;
    } while (rc != 0 && timeout <= 128);
    return rc;
}
#define NA_OFI_WAIT_POLLFD FI_WAIT_POLLFD
#else
static int na_ofi_get_epoll(struct fid_cq *cq, int *fd_p)
{
    (void) cq;
    (void) fd_p;
    return -FI_ENOSYS;
}
#define NA_OFI_WAIT_POLLFD FI_WAIT_FD
#endif

/* Open the completion queue, with a descriptor if the provider has one: some
 * refuse to open such a queue, udp;ofi_rxd refuses to return the descriptor. */
static int na_ofi_open_queue(struct na_ofi_end *end)
{
    struct na_ofi_class *self = end->na_class;
    struct fi_cq_attr attr;
    int rc;

    memset(&attr, 0, sizeof(attr));
    attr.size = self->info->tx_attr->size + self->info->rx_attr->size;
    if (attr.size < NA_OFI_QUEUE_MIN)
        attr.size = NA_OFI_QUEUE_MIN;
    attr.format = FI_CQ_FORMAT_DATA;
    attr.wait_obj =
        na_ofi_has_broken_fd(self) ? NA_OFI_WAIT_POLLFD : FI_WAIT_FD;
    end->fd = NA_POLL_FD_NONE;
    /* A class that spins never sleeps on a descriptor, and a queue with one is
     * slower to poll. */
    rc = self->base.info->wait_mode == NA_WAIT_SPIN
        ? -FI_ENOSYS
        : fi_cq_open(end->family->domain, &attr, &end->cq, NULL);
    if (rc == 0) {
        rc = na_ofi_has_broken_fd(self)
            ? na_ofi_get_epoll(end->cq, &end->fd)
            : fi_control(&end->cq->fid, FI_GETWAIT, &end->fd);
        if (rc == 0) {
            (void) fcntl(end->fd, F_SETFD, FD_CLOEXEC);
            return 0;
        }
        (void) fi_close(&end->cq->fid);
        end->cq = NULL;
        end->fd = NA_POLL_FD_NONE;
    }
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(end->family->domain, &attr, &end->cq, NULL);
}

/* Set the address of an endpoint: for the class's first one the requested
 * address, for others the same interface, or a name that was never used. */
static void na_ofi_place(const struct na_ofi_end *end, bool first,
    struct fi_info *info, unsigned char src[NA_OFI_RAW_MAX])
{
    struct na_ofi_class *self = end->na_class;
    const struct na_ofi_family *family = end->family;
    size_t used;

    if (family->src_size == 0 || (!first && !na_ofi_is_str(self)))
        return;
    HG_ASSERT(family->src_size <= NA_OFI_RAW_MAX);
    memcpy(src, family->src, NA_OFI_RAW_MAX);
    info->src_addr = src;
    info->src_addrlen = family->src_size;
    used = strnlen((const char *) src, NA_OFI_RAW_MAX);
    if (!first)
        (void) snprintf((char *) src + used, NA_OFI_RAW_MAX - used, ":%u",
            atomic_fetch_add(&self->names, 1));
}

static int na_ofi_ep_open(
    struct na_ofi_end *end, bool first, struct fid_ep **ep_p)
{
    struct na_ofi_family *family = end->family;
    struct fi_info info = *family->info;
    unsigned char src[NA_OFI_RAW_MAX];
    int rc;

    HG_ASSERT(end->cq != NULL && *ep_p == NULL && family->av != NULL);
    na_ofi_place(end, first, &info, src);
    rc = fi_endpoint(family->domain, &info, ep_p, NULL);
    /* First: 1.17's net crashes when one without an address vector closes. */
    if (rc == 0)
        rc = fi_ep_bind(*ep_p, &family->av->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(*ep_p, &end->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0)
        rc = fi_enable(*ep_p);
    return rc;
}

static int na_ofi_open_endpoint(struct na_ofi_end *end)
{
    struct na_ofi_class *self = end->na_class;
    int rc = na_ofi_ep_open(end, end->id == 0, &end->ep);

    /* After fi_enable: libfabric 1.17's shm crashes before it. */
    if (rc == 0)
        rc = fi_setopt(&end->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
            &self->message_size, sizeof(self->message_size));
    end->raw_size = sizeof(end->raw);
    if (rc == 0)
        rc = fi_getname(&end->ep->fid, end->raw, &end->raw_size);
    HG_ASSERT(rc != 0 || end->raw_size <= sizeof(end->raw));
    if (rc == 0 && na_ofi_is_str(self)) {
        end->raw_size = NA_OFI_STR_SIZE;
        na_ofi_remember((const char *) end->raw + strlen(NA_OFI_STR));
    }
    return rc;
}

/* Log why the endpoint could not be opened. */
static na_return_t na_ofi_end_failed(const struct na_ofi_end *end, int rc)
{
    const struct na_ofi_class *self = end->na_class;
    char name[NA_MAX_ADDR_LEN];

    if (end->id != 0 || end->family->src_size == 0)
        return na_ofi_failed(self, "cannot open an endpoint on",
            end->family->info->domain_attr->name, rc);
    na_ofi_name_of(self, end->family->src, end->family->src_size, name);
    return na_ofi_failed(self, "cannot open the endpoint", name, rc);
}

/* Whether puts and gets use a separate endpoint: see rma.c. Hardware has few
 * endpoints, and ends operations in flight by itself. */
static bool na_ofi_has_rma(const struct na_ofi_class *self)
{
    return na_ofi_is_inet(self) || na_ofi_is_str(self);
}

/* Open the endpoint for puts and gets. poll_lock is held: tcp;ofi_rxm crashes
 * if a queue is read while an endpoint is bound to it. */
static na_return_t na_ofi_rma_open(struct na_ofi_end *end)
{
    size_t size = sizeof(end->rma_raw);
    struct fid_ep *ep = NULL;
    sigset_t before;
    int rc;

    if (atomic_load(&end->rma) != NULL)
        return NA_SUCCESS;
    if (!na_ofi_has_rma(end->na_class)) {
        atomic_store(&end->rma, end->ep);
        return NA_SUCCESS;
    }
    na_ofi_block_signals(&before);
    rc = na_ofi_ep_open(end, false, &ep);
    na_ofi_restore_signals(&before);
    if (rc != 0) {
        na_ofi_close_object(
            end->na_class, ep != NULL ? &ep->fid : NULL, "endpoint");
        return na_ofi_failed(
            end->na_class, "cannot open an endpoint", "for puts and gets", rc);
    }
    if (na_ofi_is_inet(end->na_class))
        (void) fi_getname(&ep->fid, end->rma_raw, &size);
    atomic_store(&end->rma, ep);
    return na_ofi_drain_begin(end);
}

/* Close it, which ends the puts and gets in flight. poll_lock is held, or no
 * thread polls. */
static void na_ofi_rma_close(struct na_ofi_end *end)
{
    struct fid_ep *ep = atomic_exchange(&end->rma, NULL);

    if (ep != end->ep)
        na_ofi_close_object(
            end->na_class, ep != NULL ? &ep->fid : NULL, "endpoint");
}

/* Whether connections are TCP sockets of libfabric. If such an endpoint is
 * closed while the answer to a get is partly received, net and tcp of libfabric
 * 1.17 report that get twice and free it twice: they crash, or hang later. */
static bool na_ofi_is_tcp(const struct na_ofi_class *self)
{
    const char *provider = self->info->fabric_attr->prov_name;

    return strncmp(provider, "net", 3) == 0 || strncmp(provider, "tcp", 3) == 0;
}

static bool na_ofi_is_place(
    const struct sockaddr_storage *one, const struct sockaddr_storage *two)
{
    const struct sockaddr_in *in[2];
    const struct sockaddr_in6 *in6[2];

    in[0] = (const struct sockaddr_in *) (const void *) one;
    in[1] = (const struct sockaddr_in *) (const void *) two;
    in6[0] = (const struct sockaddr_in6 *) (const void *) one;
    in6[1] = (const struct sockaddr_in6 *) (const void *) two;
    if (one->ss_family != two->ss_family)
        return false;
    if (one->ss_family == AF_INET)
        return in[0]->sin_port == in[1]->sin_port &&
            in[0]->sin_addr.s_addr == in[1]->sin_addr.s_addr;
    return one->ss_family == AF_INET6 &&
        in6[0]->sin6_port == in6[1]->sin6_port &&
        memcmp(&in6[0]->sin6_addr, &in6[1]->sin6_addr,
            sizeof(in6[0]->sin6_addr)) == 0;
}

/* Whether a socket is a connection with the peer's endpoint `there`, or one
 * that its host made to the endpoint `here` for puts and gets. */
static bool na_ofi_is_between(int socket, const struct sockaddr_storage *here,
    const struct sockaddr_storage *there)
{
    struct sockaddr_storage peer;
    struct sockaddr_storage own;
    socklen_t size = sizeof(peer);
    socklen_t own_size = sizeof(own);

    if (getpeername(socket, (struct sockaddr *) &peer, &size) != 0 ||
        getsockname(socket, (struct sockaddr *) &own, &own_size) != 0)
        return false;
    if (na_ofi_is_place(&own, here))
        na_ofi_set_port(&peer, na_ofi_port(there));
    return na_ofi_is_place(&peer, there);
}

/* Break this process's connections to a peer's endpoint, so that libfabric ends
 * the operations of `end` in flight there. libfabric does not expose its
 * sockets: they are found by their addresses. A connection that the peer made
 * looks like those of other peers of its host: they break, too, and the
 * transfers of those peers are restarted. */
static void na_ofi_break(struct na_ofi_end *end, fi_addr_t at)
{
    DIR *open_ones = opendir("/dev/fd"); /* on Linux of /proc */
    struct sockaddr_storage here;
    struct sockaddr_storage there;
    const struct dirent *entry;
    size_t size = sizeof(there);

    memset(&here, 0, sizeof(here));
    memset(&there, 0, sizeof(there));
    if (open_ones == NULL || at == FI_ADDR_UNSPEC ||
        fi_av_lookup(end->family->av, at, &there, &size) != 0)
        goto out;
    if (atomic_load(&end->rma) != NULL)
        memcpy(&here, end->rma_raw, end->raw_size);
    while ((entry = readdir(open_ones)) != NULL) {
        /* Duplicated, because libfabric may close it and the number may be
         * reused. */
        int copy =
            fcntl((int) strtol(entry->d_name, NULL, 10), F_DUPFD_CLOEXEC, 0);

        if (copy < 0)
            continue;
        if (na_ofi_is_between(copy, &here, &there))
            (void) shutdown(copy, SHUT_RDWR);
        (void) close(copy);
    }
out:
    if (open_ones != NULL)
        (void) closedir(open_ones);
}

/* Close an endpoint, which ends what is in flight, and free it. */
static void na_ofi_end_close(struct na_ofi_end *end)
{
    struct na_ofi_class *self = end->na_class;

    HG_ASSERT(end->contexts == 0);
    na_ofi_rma_close(end);
    na_ofi_close_object(
        self, end->ep != NULL ? &end->ep->fid : NULL, "endpoint");
    na_ofi_close_object(
        self, end->cq != NULL ? &end->cq->fid : NULL, "completion queue");
    na_ofi_buffers_free(end);
    (void) pthread_mutex_destroy(&end->lock);
    (void) pthread_mutex_destroy(&end->poll_lock);
    self->base.core->free(end);
}

/* Open an endpoint, which then receives; `i`: its index in self->ends. The
 * first one keeps its address when it is opened again. */
static na_return_t na_ofi_end_open(
    struct na_ofi_class *self, unsigned i, struct na_ofi_end **end_p)
{
    struct na_ofi_family *family = na_ofi_family_of(self, i == NA_OFI_OTHER);
    struct na_ofi_end *end =
        (struct na_ofi_end *) self->base.core->alloc(sizeof(*end));
    sigset_t before;
    na_return_t ret;
    int rc;

    HG_ASSERT(self->ends[i] == NULL);
    if (end == NULL)
        goto fail;
    memset(end, 0, sizeof(*end));
    end->na_class = self;
    end->family = family;
    end->id = i == NA_OFI_OTHER ? 0 : (uint8_t) i;
    na_plug_list_init(&end->due);
    na_plug_list_init(&end->active);
    if (pthread_mutex_init(&end->lock, NULL) != 0)
        goto free_end;
    if (pthread_mutex_init(&end->poll_lock, NULL) != 0)
        goto destroy_lock;
    na_ofi_block_signals(&before);
    rc = na_ofi_open_queue(end);
    if (rc == 0)
        rc = na_ofi_open_endpoint(end);
    na_ofi_restore_signals(&before);
    ret = rc == 0 ? na_ofi_recv_begin(end) : na_ofi_end_failed(end, rc);
    if (ret != NA_SUCCESS) {
        na_ofi_end_close(end);
        return ret;
    }
    if (end->id == 0) {
        memcpy(family->src, end->raw, end->raw_size);
        family->src_size = end->raw_size;
    }
    *end_p = end;
    return NA_SUCCESS;

destroy_lock:
    (void) pthread_mutex_destroy(&end->lock);
free_end:
    self->base.core->free(end);
fail:
    self->base.core->log(
        HG_LOG_LEVEL_ERROR, "ofi", "no memory for an endpoint");
    return NA_NOMEM;
}
