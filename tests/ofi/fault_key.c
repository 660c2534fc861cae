/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transfer with a key of memory that was withdrawn succeeds or never
 * completes. fault_key PROVIDER exits with 0 if the fault is present.
 */
#include <stdio.h>
#include <time.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_rma.h>

static char buf[4096], name[512];
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fi_rma_iov rma = {0, sizeof(buf), 0};

static int fails(char put, fi_addr_t addr)
{
    struct iovec iov = {buf, sizeof(buf)};
    struct fi_msg_rma msg = {&iov, NULL, 1, addr, &rma, 1, NULL, 0};
    struct fi_cq_entry entry;
    ssize_t rc = -FI_EAGAIN;
    time_t end = time(NULL) + 5;

    for (; rc == -FI_EAGAIN && time(NULL) < end;
         (void) fi_cq_read(cq, &entry, 0))
        rc = put ? fi_writemsg(ep, &msg, FI_DELIVERY_COMPLETE)
                 : fi_readmsg(ep, &msg, 0);
    for (rc = -FI_EAGAIN; rc == -FI_EAGAIN && time(NULL) < end;)
        rc = fi_cq_read(cq, &entry, 1);
    printf("%s: %d\n", put ? "write" : "read", (int) rc);
    return rc == 1 || rc == -FI_EAGAIN;
}

int main(int argc, char **argv)
{
    struct fi_info *info, *hints = fi_allocinfo();
    struct fi_av_attr av_attr = {0};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    fi_addr_t addr;
    size_t size = sizeof(name);

    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = argv[argc - 1];
    return fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) ||
        fi_fabric(info->fabric_attr, &fabric, NULL) ||
        fi_domain(fabric, info, &domain, NULL) ||
        fi_av_open(domain, &av_attr, &av, NULL) ||
        fi_cq_open(domain, &cq_attr, &cq, NULL) ||
        fi_endpoint(domain, info, &ep, NULL) || fi_ep_bind(ep, &av->fid, 0) ||
        fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) || fi_enable(ep) ||
        fi_getname(&ep->fid, name, &size) ||
        fi_av_insert(av, name, 1, &addr, 0, NULL) != 1 ||
        !(fails(1, addr) || fails(0, addr));
}
