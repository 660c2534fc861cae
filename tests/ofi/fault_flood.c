/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of many small messages in a row not all arrive. fault_flood PROVIDER exits
 * with 0 if the fault is present.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

static char name[512], message[100];
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;

static int start(char *provider)
{
    struct fi_info *info, *hints = fi_allocinfo();
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fid_fabric *fabric;
    struct fid_domain *domain;

    hints->caps = FI_MSG;
    hints->fabric_attr->prov_name = provider;
    return fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) ||
        fi_fabric(info->fabric_attr, &fabric, NULL) ||
        fi_domain(fabric, info, &domain, NULL) ||
        fi_av_open(domain, &av_attr, &av, NULL) ||
        fi_cq_open(domain, &cq_attr, &cq, NULL) ||
        fi_endpoint(domain, info, &ep, NULL) || fi_ep_bind(ep, &av->fid, 0) ||
        fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) || fi_enable(ep) ||
        fi_getname(&ep->fid, name, &(size_t){sizeof(name)});
}

int main(int argc, char **argv)
{
    struct fi_cq_entry entry;
    int fds[2], i, rc = pipe(fds);
    time_t last = time(NULL), end = last + 3;
    pid_t pid = (argc > 2 ? 0 : alarm(100), fork());

    rc |= start(argv[argc - 1]);
    if (pid == 0 && (alarm(20), read(fds[0], name, sizeof(name))) > 0 &&
        fi_av_insert(av, name, 1, NULL, 0, NULL) == 1)
        while (fi_inject(ep, message, sizeof(message), 0) <= 0)
            (void) fi_cq_read(cq, &entry, 1);
    rc |= write(fds[1], name, sizeof(name)) < 1;
    for (i = 0; i < 100; i++)
        rc |= fi_recv(ep, message, sizeof(message), NULL, 0, NULL);
    for (; rc == 0 && last < end && time(NULL) < last + 5;)
        for (; fi_cq_read(cq, &entry, 1) == 1; last = time(NULL), i++)
            rc |= fi_recv(ep, message, sizeof(message), NULL, 0, NULL);
    if (rc == 0 && pid > 0 && kill(pid, SIGKILL) == 0 && wait(NULL) == pid &&
        last >= end)
        execl(argv[0], argv[0], "again", argv[argc - 1], NULL); /* till alarm */
    return rc != 0 || i == 100;
}
