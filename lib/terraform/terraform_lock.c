// SPDX-License-Identifier: Apache-2.0
// The holder of a state's lock: a Terraform of this folder that outlived its dtctl (it holds a
// kernel lock on the log), or the owner of the lock object in S3, which remains when its owner is
// killed.
#include "terraform/terraform.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"

#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// LEFT_MS_MAX: Terraform acquires its lock shortly after its start; a loaded computer needs longer.
enum { SETTLE_PAUSE_MS = 300, LEFT_MS_MAX = 60000, HOST_BYTES = 256 };

// ---- a Terraform of this folder ----------------------------------------------------------------

static bool is_working(const struct terraform *t) {
    auto_close int fd = open(t->log_path, O_RDONLY | O_CLOEXEC);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fd >= 0 && fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

int terraform_settle(struct terraform *t, struct err *e) {
    int64_t until = clock_mono_ms() + (int64_t)TERRAFORM_LOCK_TIMEOUT_S * 1000;
    bool reported = false;
    while (is_working(t)) {
        if (!reported)
            log_warn(
                "terraform of an earlier command is still running; waiting until it has recorded "
                "its changes",
                "log=%s", t->log_path);
        reported = true;
        if (clock_mono_ms() > until)
            return err_set(
                e, ERR_BUSY,
                "terraform of an earlier command is still running after %d s; its log is %s",
                TERRAFORM_LOCK_TIMEOUT_S, t->log_path);
        if (context_pause(t->context, SETTLE_PAUSE_MS, e) < 0)
            return err_set(e, ERR_INTERRUPTED,
                           "stopped while an earlier terraform is still running");
    }
    return 0;
}

// ---- the lock in S3 ----------------------------------------------------------------------------

int terraform_locked(struct terraform *t, const char *root, struct terraform_lock *out,
                     struct err *e) {
    // No lock has this id. Terraform reports the existing lock and releases none.
    static const char *const args[] = {"force-unlock", "-force", "-no-color", "none", NULL};
    struct terraform_result r;
    const char *words;
    if (terraform_run_words(t, root, args, &words, &r, e) < 0)
        return -1;
    if (r.interrupted)
        return terraform_failure(t, &r, "asking for the state's lock", e);
    terraform_lock_parse(t->context->arena, words, out);
    return 0;
}

bool terraform_lock_is_left(const struct terraform *t, const struct terraform_lock *lock) {
    struct passwd *pw = getpwuid(getuid());
    char host[HOST_BYTES] = "";
    struct stat unclean;
    if (!pw || gethostname(host, sizeof host - 1) < 0 || is_working(t) ||
        stat(file_join(t->context->arena, t->folder, "unclean"), &unclean) < 0)
        return false;
    const char *me = arena_printf(t->context->arena, "%s@%s", pw->pw_name, host);
    int64_t after_ms = lock->since_ms - (int64_t)unclean.st_mtim.tv_sec * 1000; // whole seconds
    return strcmp(lock->who, me) == 0 && after_ms >= 0 && after_ms < LEFT_MS_MAX;
}

int terraform_unlock(struct terraform *t, const char *root, const struct terraform_lock *lock,
                     struct err *e) {
    const char *args[] = {"force-unlock", "-force", "-no-color", lock->id, NULL};
    struct terraform_result r;
    if (terraform_run(t, root, args, NULL, NULL, &r, e) < 0)
        return -1;
    return r.status == 0 ? 0 : terraform_failure(t, &r, "releasing a stale lock", e);
}

const char *terraform_lock_words(const struct terraform *t, const struct terraform_lock *lock) {
    struct arena *a = t->context->arena;
    char stamp[CLOCK_ISO_BYTES];
    const char *since =
        lock->since_ms ? arena_printf(a, ", since %.19sZ", clock_iso(stamp, lock->since_ms)) : "";
    return arena_printf(a, "%s (%s%s)", lock->who[0] ? lock->who : "an unknown user",
                        lock->operation[0] ? lock->operation : "terraform", since);
}

const char *terraform_lock_remedy(const struct terraform *t, const struct terraform_lock *lock) {
    return arena_printf(t->context->arena,
                        "if no terraform runs there any more: %s -chdir=%s/infra "
                        "force-unlock %s",
                        t->program, t->folder, lock->id);
}
