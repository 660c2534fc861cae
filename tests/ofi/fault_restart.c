/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that opens the address of a killed one crashes when a peer of that
 * one sends. fault_restart PROVIDER exits with 0 if the fault is present.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fi_cq_entry entry;

/* With FI_SOURCE: in another process, until it is killed. */
static pid_t start(char *provider, uint64_t flags)
{
    struct fi_info *info, *hints = fi_allocinfo();
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    pid_t pid = flags ? fork() : 0;

    if (pid > 0 || alarm(30))
        return pid;
    hints->fabric_attr->prov_name = provider;
    if (fi_getinfo(
            FI_VERSION(1, 9), "127.0.0.1", "24679", flags, hints, &info) ||
        fi_fabric(info->fabric_attr, &fabric, NULL) ||
        fi_domain(fabric, info, &domain, NULL) ||
        fi_av_open(domain, &av_attr, &av, NULL) ||
        fi_cq_open(domain, &cq_attr, &cq, NULL) ||
        fi_endpoint(domain, info, &ep, NULL) || fi_ep_bind(ep, &av->fid, 0) ||
        fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) || fi_enable(ep) ||
        (!flags && fi_av_insert(av, info->dest_addr, 1, NULL, 0, NULL) != 1))
        _exit(2);
    while (flags != 0 && signal(SIGSEGV, SIG_DFL) != SIG_ERR)
        (void) fi_cq_read(cq, &entry, 1);
    return 0;
}

int main(int argc, char **argv)
{
    pid_t pid = start(argv[argc - 1], FI_SOURCE);
    int status = start(argv[argc - 1], 0);

    while (fi_send(ep, "", 1, NULL, 0, NULL) || fi_cq_read(cq, &entry, 1) != 1)
        continue;
    if (kill(pid, SIGKILL) == 0 && wait(&status) == pid)
        pid = start(argv[argc - 1], FI_SOURCE);
    while (waitpid(pid, &status, WNOHANG) == 0)
        if (sleep(1) == 0 && fi_send(ep, "", 1, NULL, 0, NULL) == 0)
            (void) fi_cq_read(cq, &entry, 1);
    return !WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV;
}
