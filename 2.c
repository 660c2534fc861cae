#include "hg.h"
MERCURY_GEN_RPC_STUB(int32_t, add, ((int32_t)(a))((int32_t)(b)), )
int32_t add(int32_t a, int32_t b) { return a + b; }
int main(int argc, char **argv) {
    struct na_init_info options = NA_INIT_INFO_INITIALIZER;
    char address[NA_MAX_ADDR_LEN];
    na_class_t *na;
    na_addr_t self;
    options.wait_mode = NA_WAIT_BLOCK; /* sleep at once, do not spin before */
    na = NA_Initialize_opt(argc > 1 ? argv[1] : "sm://", NA_TRUE, &options);
    if (na == NULL || HG_Init(na) || add_provide() == 0 ||
        NA_Addr_self(na, &self) ||
        NA_Addr_to_string(na, address, sizeof(address), self))
        return 1;
    printf("%s\n", address); /* for clients */
    (void) fflush(stdout);
    for (;;)
        (void) HG_Handler_process(HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);
}
