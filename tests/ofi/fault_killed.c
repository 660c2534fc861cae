/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After a peer that sent large messages was killed, no other peer reaches the
 * receiver any more. fault_killed PROVIDER exits with 0 if the fault is
 * present.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

static char name[512], buf[8192];
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fi_cq_entry entry;

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
    int i, pid, status, rc = start(argv[argc - 1]);

    if (argc > 2) {
        rc |= fi_av_insert(av, argv[1], 1, NULL, 0, NULL) != 1;
        while (rc == 0 && fi_send(ep, buf, sizeof(buf), NULL, 0, NULL) != 0)
            (void) fi_cq_read(cq, &entry, 1);
        while (rc == 0 && *argv[2] == 'm') /* reads no completions */
            (void) fi_send(ep, buf, sizeof(buf), NULL, 0, NULL);
        return rc;
    }
    rc |= fi_getname(&ep->fid, name, &(size_t){sizeof(name)});
    for (i = 0; rc == 0 && i < 2; i++) {
        if ((pid = fork()) == 0 && alarm(5) == 0)
            execl(argv[0], argv[0], name, i ? "one" : "many", argv[1], NULL);
        (void) fi_recv(ep, buf, sizeof(buf), NULL, 0, NULL);
        while (waitpid(pid, &status, WNOHANG) == 0)
            if (fi_cq_read(cq, &entry, 1) == 1)
                (void) fi_recv(ep, buf, sizeof(buf), NULL, 0, NULL);
        rc = status != SIGALRM;
    }
    return rc;
}
