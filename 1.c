#include "hg.h"
MERCURY_GEN_RPC_STUB(int32_t, add, ((int32_t)(a))((int32_t)(b)), )
int32_t add(int32_t a, int32_t b) { return a + b; } /* the server's */
int main(void) {
    na_class_t *na = NA_Initialize("self://", NA_TRUE);
    na_addr_t server; int32_t sum;
    if (HG_Init(na) || NA_Addr_self(na, &server) || add_provide() == 0 ||
        add_call(server, 1000, 40, 2, &sum)) /* it has 1,000 ms */
        return 1;
    printf("40 + 2 = %d\n", (int) sum);
    return NA_Addr_free(na, server) || HG_Finalize() || NA_Finalize(na);
}
