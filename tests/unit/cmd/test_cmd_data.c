// SPDX-License-Identifier: Apache-2.0
// dtctl data, push and import on files of this computer: what is made, what is printed, what is
// refused.
#include "tests/unit/cmd/nodes_fake.h"

static void put(const char *path, const char *text) {
    path = file_join(&nodes_arena, nodes_folder, path);
    if (file_make_dirs(file_dir(&nodes_arena, path), 0700, &dtctl_err) < 0 ||
        file_write_atomic(path, text, strlen(text), 0600, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
}

static const char *text_of(const char *path) {
    char *text;
    size_t len;
    struct err e = {0};
    return file_read(&nodes_arena, path, 1 << 20, &text, &len, &e) < 0 ? "" : text;
}

// ---- data ---------------------------------------------------------------------------------------

static void test_make_shapes(void) {
    is_int(dtctl("data", "make-shapes", "a b", "--images", "12", "--test-images", "5", NULL), 0,
           "shapes are made: %s", dtctl_err.text);
    is_str(
        dtctl_out(),
        "a b: 12 images to train on and 5 to evaluate on, 32 x 32, 10 classes; next: dtctl train "
        "--input data='a b'\n",
        "the user reads of the shapes and the next step");
    is_int(dtctl("data", "make-shapes", "small", "--images", "10", "--test-images", "0",
                 "--image-size", "16", "--json", NULL),
           0, "shapes have a size");
    has_str(dtctl_out(), "\"to\":\"small\",\"train_images\":10,\"test_images\":0,\"size\":16}\n",
            "the event has the numbers");
}

static void test_inspect(void) {
    is_int(dtctl("data", "inspect", "a b", NULL), 0, "a data set is looked through: %s",
           dtctl_err.text);
    has_str(dtctl_out(), "a b, train: imagefolder, 12 images, ", "the training part is shown");
    has_str(dtctl_out(), "a b, test: imagefolder, 5 images, ", "the test part is shown");
    has_str(dtctl_out(), "  10 classes of 1 to 2 images\n", "the classes are counted");
    has_str(dtctl_out(), "  width 32 to 32, 32 in the mean; height 32 to 32, 32 in the mean\n",
            "the sizes are shown");
    has_str(dtctl_out(), "      32 x 32    class 0  ", "the first images are shown");
    dtctl("data", "inspect", "a b", "--split", "test", NULL);
    ok(!strstr(dtctl_out(), "train:") && strstr(dtctl_out(), "test:"), "one part can be shown");
    is_int(dtctl("data", "inspect", "small", NULL), 0, "a data set may lack its test part: %s",
           dtctl_err.text);
    has_str(said(), "small has no test part\n", "the user reads that the part is missing");
    is_int(dtctl("data", "inspect", "small", "--split", "test", NULL), 1,
           "a part that is asked for has to be there");
    is_int(dtctl("data", "inspect", "none", NULL), 1, "a data set has to be there");
    put("a b/train/circle/bad.jpg", "no picture");
    is_int(dtctl("data", "inspect", "a b", "--split", "train", NULL), 1,
           "a bad image is a failure");
    has_str(dtctl_err.text,
            "1 image of 'a b' cannot be decoded (try: train.on_bad_sample=skip, or ",
            "the error has the number and the next step");
    has_str(dtctl_out(), "  bad: ", "the bad image is named");
    dtctl("data", "inspect", "a b", "--split", "train", "--json", NULL);
    has_str(dtctl_out(), "\"samples\":13,", "the event has the number of images");
    has_str(dtctl_out(), "\"width_min\":32,\"width_max\":32,\"width_mean\":32,",
            "the event has the sizes");
    has_str(dtctl_out(), ",\"bad\":1,\"bad_samples\":[\"", "the event has the bad images");
}

// Up to twelve classes are listed by name; of more the user reads how many there are.
static void test_classes_shown(void) {
    char *image, to[64];
    size_t len;
    if (file_read(&nodes_arena, "small/train/bar/000000.jpg", 1 << 20, &image, &len, &dtctl_err) <
        0)
        bail_out("%s", dtctl_err.text);
    for (int i = 0; i < 13; i++) {
        snprintf(to, sizeof to, "wide/train/c%02d/0.jpg", i);
        put(to, "");
        if (file_write_atomic(to, image, len, 0600, &dtctl_err) < 0)
            bail_out("%s", dtctl_err.text);
        if (i < 11)
            continue;
        dtctl("data", "inspect", "wide", "--split", "train", NULL);
        has_str(dtctl_out(), "       11  c11                      1\n",
                "twelve classes are listed");
        ok(!strstr(dtctl_out(), "c12 ") && !strstr(dtctl_out(), "… and ") == (i == 11),
           "%d more class%s counted", i - 11, i == 12 ? " is" : "es are");
    }
}

static void test_pack(void) {
    is_int(dtctl("data", "pack", "a b", "out.dtpack", NULL), 1, "a bad image ends a pack");
    is_int(dtctl("data", "pack", "a b", "out.dtpack", "--skip-bad", NULL), 0,
           "bad images can be left out: %s", dtctl_err.text);
    ok(str_starts(dtctl_out(), "out.dtpack: 12 train images, ") &&
           str_ends(dtctl_out(), " in 1 file, 1 left out\n"),
       "the packed images are counted, and the one that another image replaces");
    has_str(said(), "a .dtpack file holds one part: this is train; the other one: --split test\n",
            "the user reads which part is packed");
    is_int(dtctl("data", "pack", "a b", "test.dtpack", "--split", "test", NULL), 0,
           "the other part is packed");
    ok(str_starts(dtctl_out(), "test.dtpack: 5 test images, ") &&
           str_ends(dtctl_out(), " in 1 file\n"),
       "the images of the other part are counted");
    is_int(dtctl("data", "pack", "a b", "shards", "--skip-bad", NULL), 0, "shards are packed");
    has_str(dtctl_out(), "shards/train: 12 train images, ", "the training part has its folder");
    has_str(dtctl_out(), "shards/val: 5 test images, ", "the test part has its folder");
    is_int(dtctl("data", "pack", "small", "few", NULL), 0, "a part that is missing is left out");
    ok(!strstr(dtctl_out(), "few/val"), "a part that is missing has no folder");
    unlink("shards/train/shards.dtindex");
    is_int(dtctl("data", "index", "shards", NULL), 0, "shards are indexed: %s", dtctl_err.text);
    is_str(dtctl_out(), "shards: 17 images of 2 shards are in 2 index files (shards.dtindex)\n",
           "the indexed images are counted");
    ok(file_exists("shards/train/shards.dtindex"), "the index is beside the shards");
    is_int(dtctl("data", "index", "none", NULL), 1, "shards have to be there");
}

// ---- push ---------------------------------------------------------------------------------------

static void test_push(void) {
    put("d/x", "12345");
    put("d/y", "12345");
    put("d/.git/config", "x");
    is_int(dtctl("push", NULL), 2, "push needs a path");
    is_int(dtctl("push", "d", "--dry-run", NULL), 0, "a dry run of push succeeds: %s",
           dtctl_err.text);
    is_str(dtctl_out(), "would send 2 files, 10 B, to 'files' of 3 nodes\n",
           "a dry run counts the files and the nodes");
    dtctl("push", "d/x", "--dry-run", "-w", "n0", "--to", "in/put", NULL);
    is_str(dtctl_out(), "would send 1 file, 5 B, to 'in/put' of 1 node\n",
           "a destination and nodes can be named");
    dtctl("push", "d/", "--dry-run", "--exclude", "x", "--json", NULL);
    has_str(dtctl_out(), "\"to\":\"files\",\"nodes\":3,\"files\":1,\"bytes\":5,\"ignored\":2}\n",
            "the event has the paths that are left out");
    dtctl("push", "d", "--all-files", "--dry-run", NULL);
    has_str(dtctl_out(), "would send 3 files, 11 B, ", "all files can be sent");
    is_int(dtctl("push", "none", NULL), 1, "a path has to be there");
    has_str(dtctl_err.text, "'none'", "the error names the path");
    is_int(dtctl("push", "d", "--to", "a/../b", NULL), 2, "a destination does not lead upwards");
    is_str(dtctl_err.text, "--to 'a/../b' leads through '..'; name the folder itself",
           "the error names the destination");
    is_int(dtctl("push", "d", "--with", "nccl=x", NULL), 2, "a library goes without a path");
    is_int(dtctl("push", "--with", "nccl=x", "--replace", NULL), 2, "a library replaces no folder");
    is_int(dtctl("push", "--with", "nccl=x", "--to", "y", NULL), 2, "a library has its own place");
    is_int(dtctl("push", "d", "-w", "other", NULL), 1, "a node has to be there");
}

// ---- import -------------------------------------------------------------------------------------

static void test_import(void) {
    put("job", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --mail-user=x\nsrun python train.py\n");
    is_int(dtctl("import", "sbatch", "job", NULL), 0, "a job is imported: %s", dtctl_err.text);
    has_str(dtctl_out(), "nodes = 2", "the settings are printed");
    has_str(said(), "job:3: ", "a field without an equivalent has its line");
    ok(!strstr(said(), "; next: "), "without a file there is no next step");
    is_int(dtctl("import", "sbatch", "job", "-o", "made.toml", NULL), 0, "settings are written");
    has_str(text_of("made.toml"), "nodes = 2", "the file has the settings");
    is_str(dtctl_out(), "", "settings that are written are not printed");
    has_str(said(), "; next: dtctl config check\n", "the user reads the next step");
    is_int(dtctl("import", "sbatch", "job", "-o", "made.toml", NULL), 1, "a file is not replaced");
    has_str(dtctl_err.text, "is there already (--force replaces it)", "the error has the flag");
    put("made.toml", "old");
    is_int(dtctl("import", "sbatch", "job", "-o", "made.toml", "--force", NULL), 0,
           "a file can be replaced");
    has_str(text_of("made.toml"), "nodes = 2", "the replaced file has the settings");
    is_int(dtctl("import", "sbatch", "job", "-o", "dry.toml", "--dry-run", NULL), 0,
           "a dry run of import succeeds");
    ok(!file_exists("dry.toml") && strstr(dtctl_out(), "nodes = 2"), "a dry run prints alone");
    is_int(dtctl("import", "other", "job", NULL), 2, "another format is refused");
    is_str(dtctl_err.text, "import takes sbatch, sagemaker, pcluster or sky, not 'other'",
           "the error has the formats");
    is_int(dtctl("import", "sagemaker", "job", NULL), 2, "a file of another format is an error");
    ok(str_starts(dtctl_err.text, "job: "), "the error names the file");
    put("marked", "\xEF\xBB\xBF#!/bin/bash\n#SBATCH --nodes=3\ntrue\n");
    is_int(dtctl("import", "sbatch", "marked", NULL), 0, "a mark of UTF-8 is no text");
    has_str(dtctl_out(), "nodes = 3", "the settings behind the mark are read");
    is_int(dtctl("import", "sbatch", "none", NULL), 2, "a file has to be there");
}

int main(void) {
    nodes_open();
    test_make_shapes();
    test_inspect();
    test_classes_shown();
    test_pack();
    test_push();
    test_import();
    nodes_close();
    return done_testing();
}
