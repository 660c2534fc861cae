/* SPDX-License-Identifier: BSD-3-Clause */
/* info: see info.h. */
#include "info.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The limits and switches of the RPC layer, as they are without being set. */
static hg_return_t info_print_options(void)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    hg_return_t ret = HG_Get_options(&options);

    if (ret != HG_SUCCESS)
        return ret;
    printf("option      max_in_flight=%u calls\n", options.max_in_flight);
    printf(
        "option      max_in_flight_bytes=%zu\n", options.max_in_flight_bytes);
    printf("option      max_unanswered=%u calls\n", options.max_unanswered);
    printf("option      max_args_size=%zu bytes\n", options.max_args_size);
    printf("option      max_fetched_bytes=%zu\n", options.max_fetched_bytes);
    printf("option      max_held_bytes=%zu\n", options.max_held_bytes);
    printf("option      output_hold_ms=%u\n", options.output_hold_ms);
    printf("option      drain_ms=%u\n", options.drain_ms);
    printf("option      bulk_ms=%u\n", options.bulk_ms);
    printf("option      no_builtins=%d\n", options.no_builtins);
    printf("option      histograms=%d\n", options.histograms);
    printf("option      bulk_checksum=%d\n", options.bulk_checksum);
    return HG_SUCCESS;
}

/* An address string's beginning, and on which device that works. */
static void info_print_transport(const struct na_protocol_info *entry)
{
    bool same = strcmp(entry->class_name, entry->protocol_name) == 0;
    bool any = strcmp(entry->device_name, "any") == 0;

    printf("transport   %s%s%s://%s%s\n", same ? "" : entry->class_name,
        same ? "" : "+", entry->protocol_name, any ? "" : " on ",
        any ? "" : entry->device_name);
}

hg_return_t info_print(void)
{
    static const char *const variables[] = {
        "HG_LOG_LEVEL", "HG_LOG_SUBSYS", "HG_SM_RMA"};
    struct na_protocol_info *list = NULL;
    const struct na_protocol_info *entry;
    unsigned major;
    unsigned minor;
    unsigned patch;
    hg_return_t ret;
    size_t i;

    ret = HG_Version_get(&major, &minor, &patch);
    if (ret != HG_SUCCESS)
        return ret;
    printf("version     %u.%u.%u\n", major, minor, patch);
    printf("mercury     %d.%d.%d\n", HG_MERCURY_MAJOR, HG_MERCURY_MINOR,
        HG_MERCURY_PATCH);
    ret = HG_Get_na_protocol_info(NULL, &list);
    if (ret != HG_SUCCESS)
        return ret;
    for (entry = list; entry != NULL; entry = entry->next)
        info_print_transport(entry);
    HG_Free_na_protocol_info(list);
    for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);

        printf("environment %s%s%s\n", variables[i],
            value != NULL ? "=" : " is not set", value != NULL ? value : "");
    }
    return info_print_options();
}

hg_return_t info_print_class(const char *address)
{
    hg_class_t *hg_class = HG_Init2(address, HG_TRUE);
    char name[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(name);
    hg_addr_t self;
    hg_return_t ret;

    if (hg_class == NULL)
        return HG_NA_ERROR; /* the library has said why */
    ret = HG_Addr_self(hg_class, &self);
    if (ret == HG_SUCCESS) {
        ret = HG_Addr_to_string(hg_class, name, &size, self);
        (void) HG_Addr_free(hg_class, self);
    }
    if (ret == HG_SUCCESS) {
        printf("address     %s\n", name);
        printf("protocol    %s+%s\n", HG_Class_get_name(hg_class),
            HG_Class_get_protocol(hg_class));
        printf("eager       %" PRIu64 " bytes of input, %" PRIu64
               " of output\n",
            HG_Class_get_input_eager_size(hg_class),
            HG_Class_get_output_eager_size(hg_class));
    }
    (void) HG_Finalize2(hg_class);
    return ret;
}
