/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A name that was closed and is opened again in the same process leads to the
 * memory of the closed endpoint. fault_name PROVIDER exits with 0 if the fault
 * is present.
 */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

static struct fid_av *av;
static struct fid_ep *ep;
static char name[512];

static void found(int number)
{
    _exit(number != SIGSEGV || shm_unlink("hg-fault:1"));
}

static int start(char *provider)
{
    struct fi_info *info, *hints = fi_allocinfo();
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    size_t size = sizeof(name);

    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = provider;
    return fi_getinfo(
               FI_VERSION(1, 9), "hg-fault", "1", FI_SOURCE, hints, &info) ||
        fi_fabric(info->fabric_attr, &fabric, NULL) ||
        fi_domain(fabric, info, &domain, NULL) ||
        fi_av_open(domain, &av_attr, &av, NULL) ||
        fi_cq_open(domain, &cq_attr, &cq, NULL) ||
        fi_endpoint(domain, info, &ep, NULL) || fi_ep_bind(ep, &av->fid, 0) ||
        fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) || fi_enable(ep) ||
        fi_getname(&ep->fid, name, &size);
}

int main(int argc, char **argv)
{
    if (start(argv[argc - 1]) || fi_close(&ep->fid) || start(argv[argc - 1]))
        return 2;
    signal(SIGSEGV, found);
    (void) fi_av_insert(av, name, 1, NULL, 0, NULL);
    return 1;
}
