/* firmware.c: a kernel as libkrun wants it: in a shared library, which says where its guests have it.
 *
 * What libkrunfw is, for a kernel of the distribution's source. The kernel is entered in 64-bit mode, at its
 * first byte. The guest writes to these pages, so they are data, and whole.
 * Source: `utils/bin2cbundle.py` of libkrunfw 5.
 */
#include <stddef.h>

__asm__(".section .data\n"
        ".balign 4096\n"
        "kernel:\n"
        ".incbin \"kernel.bin\"\n"
        ".balign 4096\n"
        "kernel_end:\n"
        ".previous\n");

extern char kernel[], kernel_end[];

/* Where the kernel is linked to be: CONFIG_PHYSICAL_START. */
#define START 0x1000000

char *krunfw_get_kernel(size_t *load_address, size_t *entry, size_t *size)
{
    *load_address = START;
    *entry = START;
    *size = (size_t)(kernel_end - kernel);
    return kernel;
}

int krunfw_get_version(void)
{
    return 5;
}
