#define HG_API_VERSION 2
#include "hg.h"
MERCURY_GEN_PROC(pair_t, ((int32_t)(a))((int32_t)(b)))
MERCURY_GEN_PROC(sum_t, ((int32_t)(sum)))
static hg_return_t add(hg_handle_t call) { /* runs in HG_Trigger */
    pair_t in;
    sum_t out;
    hg_return_t ret = HG_Get_input(call, &in);
    if (ret == HG_SUCCESS) {
        out.sum = in.a + in.b;
        (void) HG_Free_input(call, &in);
        ret = HG_Respond(call, NULL, NULL, &out); /* now, or later */
    }
    (void) HG_Destroy(call);
    return ret; /* an error goes to the caller, if it was not answered */
}
static hg_return_t added(const struct hg_cb_info *info) { /* so does this */
    hg_handle_t call = info->info.forward.handle;
    sum_t out;
    if (info->ret == HG_SUCCESS && HG_Get_output(call, &out) == HG_SUCCESS) {
        printf("40 + 2 = %d\n", (int) out.sum);
        (void) HG_Free_output(call, &out);
    } else {
        fprintf(stderr, "%s: %s\n", HG_Error_to_string(info->ret),
            HG_Get_error_text(call));
    }
    *(int *) info->arg = 1;
    return HG_SUCCESS;
}
int main(void) {
    hg_class_t *hg = HG_Init("self://", HG_TRUE);
    hg_context_t *context = hg != NULL ? HG_Context_create(hg) : NULL;
    hg_addr_t server;
    hg_handle_t call;
    pair_t in = {40, 2};
    int done = 0;
    if (context == NULL || HG_Addr_self(hg, &server) ||
        HG_Create(context, server,
            MERCURY_REGISTER(hg, "add", pair_t, sum_t, add), &call) ||
        HG_Set_deadline(call, 1000) || HG_Forward(call, added, &done, &in))
        return 1;
    while (!done) {
        (void) HG_Progress(context, 100);
        while (HG_Trigger(context, 0, 10, NULL) == HG_SUCCESS)
            ;
    }
    return HG_Destroy(call) || HG_Addr_free(hg, server) ||
        HG_Context_destroy(context) || HG_Finalize(hg);
}
