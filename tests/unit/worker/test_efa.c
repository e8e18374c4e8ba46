// SPDX-License-Identifier: Apache-2.0
// Adapters of AWS among those of the InfiniBand layer, on made-up machines.
#include "base/arena.h"
#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "worker/efa.h"

#include <string.h>
#include <unistd.h>

static struct arena arena;
static char dir[] = "/tmp/dtctl-efa-XXXXXX";
static struct err e;

static void adapter(const char *machine, const char *name, const char *vendor) {
    char *folder = arena_printf(&arena, "%s/%s/sys/class/infiniband/%s/device", dir, machine, name);
    if (file_make_dirs(folder, 0755, &e) < 0 ||
        (vendor && file_write_atomic(file_join(&arena, folder, "vendor"), vendor, strlen(vendor),
                                     0644, &e) < 0))
        bail_out("%s", e.text);
}

static bool is_here(const char *machine) {
    return efa_is_here(file_join(&arena, dir, machine));
}

int main(void) {
    if (!mkdtemp(dir))
        bail_out("no folder");
    ok(!is_here("none"), "a machine without such a layer has no EFA");
    adapter("nvswitch", "mlx5_0", "0x15b3\n");
    adapter("nvswitch", "rdma_0", NULL);
    ok(!is_here("nvswitch"), "adapters of other makers, and one without a vendor, are no EFA");
    adapter("longer", "x_0", "0x1d0f0\n");
    adapter("longer", "x_1", "0x1d0");
    ok(!is_here("longer"), "another vendor's number that begins or ends alike is no EFA");
    adapter("p5", "mlx5_0", "0x15b3\n");
    adapter("p5", "rdmap16s27", "0x1d0f\n");
    ok(is_here("p5"), "an adapter of AWS beside one of another maker is EFA");
    is_int(file_remove_tree(dir, &e), 0, "cleaned up");
    arena_fini(&arena);
    done_testing();
}
