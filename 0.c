#include "hg.h"
MERCURY_GEN_PROC(pair_t, ((int32_t)(a))((int32_t)(b)))
static hg_return_t add(hg_handle_t call) { /* runs at the server */
    pair_t in;
    hg_return_t ret = HG_Handler_get_input(call, &in);
    if (ret != HG_SUCCESS) return ret; /* the library tells the caller */
    (void) HG_Handler_start_output(call, &(int32_t){in.a + in.b});
    return HG_Handler_free(call);
}
int main(void) {
    na_class_t *na = NA_Initialize("self://", NA_TRUE);
    na_addr_t server; hg_request_t call; int32_t sum;
    if (HG_Init(na) || NA_Addr_self(na, &server) || HG_Forward(server,
            MERCURY_REGISTER("add", pair_t, int32_t, add), &(pair_t){40, 2},
            &sum, &call) || HG_Wait(call, HG_MAX_IDLE_TIME, HG_STATUS_IGNORE))
        return 1; /* the library has written why */
    printf("40 + 2 = %d\n", (int) sum);
    return HG_Request_free(call) || NA_Addr_free(na, server) ||
        HG_Finalize() || NA_Finalize(na);
}
