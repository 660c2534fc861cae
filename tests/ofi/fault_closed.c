/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An endpoint crashes when it polls after a peer has sent to it for the first
 * time and has closed. fault_closed PROVIDER exits with 0 if the fault is
 * present.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

static char name[512];
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;

static void found(int number)
{
    _exit(number != SIGSEGV || shm_unlink(strrchr(name, '/') + 1));
}

static int start(char *provider)
{
    struct fi_info *info, *hints = fi_allocinfo();
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fid_fabric *fabric;
    struct fid_domain *domain;

    hints->fabric_attr->prov_name = provider;
    return fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) ||
        fi_fabric(info->fabric_attr, &fabric, NULL) ||
        fi_domain(fabric, info, &domain, NULL) ||
        fi_av_open(domain, &av_attr, &av, NULL) ||
        fi_cq_open(domain, &cq_attr, &cq, NULL) ||
        fi_endpoint(domain, info, &ep, NULL) || fi_ep_bind(ep, &av->fid, 0) ||
        fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) || fi_enable(ep);
}

int main(int argc, char **argv)
{
    struct fi_cq_entry entry;
    int fds[2], i = pipe(fds);

    if (fork() == 0)
        _exit(start(argv[argc - 1]) ||
            read(fds[0], name, sizeof(name)) != sizeof(name) ||
            fi_av_insert(av, name, 1, NULL, 0, NULL) != 1 ||
            fi_inject(ep, "", 1, 0) != -FI_EAGAIN || fi_close(&ep->fid));
    if (start(argv[argc - 1]) ||
        fi_getname(&ep->fid, name, &(size_t){sizeof(name)}) ||
        write(fds[1], name, sizeof(name)) != sizeof(name) || wait(&i) < 0 || i)
        return 2;
    for (signal(SIGSEGV, found); i < 1000; i++)
        (void) fi_cq_read(cq, &entry, 1);
    return 1;
}
