/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_info: prints the version of the library, its transports on this machine,
 * and the default limits; with an address also what a server gets there.
 *
 *     hg_info
 *     hg_info zmq+tcp://127.0.0.1
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hg.h"
#include "usage.h"

static const char info_help[] =
    "usage: hg_info [ADDRESS]\n"
    "\n"
    "Prints the version of the library, the transports on this machine, the\n"
    "environment variables that the library reads, and the default options.\n"
    "With ADDRESS, opens a server there and prints its full address and how\n"
    "many bytes of arguments fit into one message.\n"
    "\n"
    "  -h, --help   print this text\n"
    "  --version    print the version\n"
    "\n"
    "Examples:\n"
    "  hg_info\n"
    "  hg_info sm://\n"
    "  hg_info zmq+tcp://127.0.0.1\n";

/* An entry of the list, as an address begins, and the device if it is not the
 * only one. Shared memory is sm:// here, as in all addresses. */
static void info_print_transport(const struct na_protocol_info *entry)
{
    bool plain = strcmp(entry->class_name, entry->protocol_name) == 0 ||
        strcmp(entry->class_name, "na") == 0;
    bool any = strcmp(entry->device_name, "any") == 0 ||
        strcmp(entry->class_name, "na") == 0;

    printf("transport   %s%s%s://%s%s\n", plain ? "" : entry->class_name,
        plain ? "" : "+", entry->protocol_name, any ? "" : " on ",
        any ? "" : entry->device_name);
}

static hg_return_t info_print_transports(void)
{
    struct na_protocol_info *list = NULL;
    const struct na_protocol_info *entry;
    hg_return_t ret = HG_Get_na_protocol_info(NULL, &list);

    if (ret != HG_SUCCESS)
        return ret;
    for (entry = list; entry != NULL; entry = entry->next)
        info_print_transport(entry);
    HG_Free_na_protocol_info(list);
    return HG_SUCCESS;
}

static void info_print_environment(void)
{
    static const char *const names[] = {
        "HG_LOG_LEVEL", "HG_LOG_SUBSYS", "HG_SEED_ADDRESS", "HG_SM_RMA"};
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        printf("environment %s%s%s\n", names[i],
            value != NULL ? "=" : " is not set", value != NULL ? value : "");
    }
}

/* The limits and switches of the RPC layer, with their defaults. */
static hg_return_t info_print_options(void)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    hg_return_t ret = HG_Get_options(&options);

    if (ret != HG_SUCCESS)
        return ret;
    printf("option      max_in_flight=%u calls\n", options.max_in_flight);
    printf("option      max_in_flight_bytes=%zu bytes\n",
        options.max_in_flight_bytes);
    printf("option      max_unanswered=%u calls\n", options.max_unanswered);
    printf("option      max_args_size=%zu bytes\n", options.max_args_size);
    printf(
        "option      max_fetched_bytes=%zu bytes\n", options.max_fetched_bytes);
    printf("option      max_held_bytes=%zu bytes\n", options.max_held_bytes);
    printf("option      output_hold_ms=%u ms\n", options.output_hold_ms);
    printf("option      drain_ms=%u ms\n", options.drain_ms);
    printf("option      bulk_ms=%u ms\n", options.bulk_ms);
    printf("option      no_builtins=%d\n", options.no_builtins);
    printf("option      histograms=%d\n", options.histograms);
    printf("option      bulk_checksum=%d\n", options.bulk_checksum);
    return HG_SUCCESS;
}

static hg_return_t info_print(void)
{
    unsigned major;
    unsigned minor;
    unsigned patch;
    hg_return_t ret = HG_Version_get(&major, &minor, &patch);

    if (ret != HG_SUCCESS)
        return ret;
    printf("version     %u.%u.%u\n", major, minor, patch);
    printf("mercury     %d.%d.%d\n", HG_MERCURY_MAJOR, HG_MERCURY_MINOR,
        HG_MERCURY_PATCH);
    ret = info_print_transports();
    if (ret != HG_SUCCESS)
        return ret;
    info_print_environment();
    return info_print_options();
}

/* Open a class that listens on `address`, and print its properties. */
static hg_return_t info_print_class(const char *address)
{
    hg_class_t *hg_class = HG_Init2(address, HG_TRUE);
    char name[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(name);
    hg_addr_t self;
    hg_return_t ret;

    if (hg_class == NULL)
        return HG_NA_ERROR; /* the library has logged the cause */
    ret = HG_Addr_self(hg_class, &self);
    if (ret == HG_SUCCESS) {
        ret = HG_Addr_to_string(hg_class, name, &size, self);
        (void) HG_Addr_free(hg_class, self);
    }
    if (ret == HG_SUCCESS) {
        printf("address     %s\n", name);
        printf("message     %" PRIu64 " bytes of input, %" PRIu64
               " of output\n",
            HG_Class_get_input_eager_size(hg_class),
            HG_Class_get_output_eager_size(hg_class));
    }
    (void) HG_Finalize2(hg_class);
    return ret;
}

int main(int argc, char *argv[])
{
    hg_return_t ret;

    if (usage_is_printed(argc, argv, "hg_info", info_help))
        return 0;
    if (argc > 2)
        return usage_error("hg_info", "more than one ADDRESS");
    if (argc == 2 && argv[1][0] == '-')
        return usage_error("hg_info", "unknown option '%s'", argv[1]);
    ret = info_print();
    if (ret == HG_SUCCESS && argc == 2)
        ret = info_print_class(argv[1]);
    return ret != HG_SUCCESS;
}
