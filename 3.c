#include "hg.h"
MERCURY_GEN_RPC_STUB(int32_t, add, ((int32_t)(a))((int32_t)(b)), )
int main(int argc, char **argv) {
    na_class_t *na = NA_Initialize("sm://", NA_FALSE); /* or "zmq+tcp://" */
    na_addr_t server;
    int32_t sum;
    if (argc < 2 || na == NULL || HG_Init(na) || add_register() == 0 ||
        NA_Addr_lookup_wait(na, argv[1], 5000, &server) ||
        add_call(server, 1000, 40, 2, &sum))
        return 1;
    printf("40 + 2 = %d\n", (int) sum);
    return NA_Addr_free(na, server) || HG_Finalize() || NA_Finalize(na);
}
