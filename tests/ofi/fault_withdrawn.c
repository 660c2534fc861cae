/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A read that has begun when its memory is withdrawn and freed never completes.
 * fault_withdrawn PROVIDER exits with 0 if the fault is present.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>

#define SIZE ((size_t) 256 << 20)
static char buf[SIZE], name[512];

static void found(int number)
{
    _exit(number == 0);
}

int main(int argc, char **argv)
{
    void *memory = calloc(1, SIZE); /* mapped by itself */
    struct fi_info *info, *hints = fi_allocinfo();
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_cq_entry entry;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *mr;
    size_t size = sizeof(name);

    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = argv[argc - 1];
    if (fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) ||
        fi_fabric(info->fabric_attr, &fabric, NULL) ||
        fi_domain(fabric, info, &domain, NULL) ||
        fi_av_open(domain, &av_attr, &av, NULL) ||
        fi_cq_open(domain, &cq_attr, &cq, NULL) ||
        fi_endpoint(domain, info, &ep, NULL) || fi_ep_bind(ep, &av->fid, 0) ||
        fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) || fi_enable(ep) ||
        fi_getname(&ep->fid, name, &size) ||
        fi_av_insert(av, name, 1, NULL, 0, NULL) != 1 ||
        fi_mr_reg(domain, memory, SIZE, FI_REMOTE_READ, 0, 7, 0, &mr, NULL))
        return 2;
    for (*buf = 1; fi_read(ep, buf, SIZE, NULL, 0, 0, 7, NULL) == -FI_EAGAIN;)
        (void) fi_cq_read(cq, &entry, 1);
    while (*(volatile char *) buf == 1)
        (void) fi_cq_read(cq, &entry, 0);
    if (fi_close(&mr->fid) || alarm(5) || signal(SIGALRM, found))
        return 2;
    free(memory);
    while (fi_cq_read(cq, &entry, 1) == -FI_EAGAIN)
        continue;
    return 1;
}
