/* The system's own MPI-IO, for src/mpiio.rs: flat functions over handles that Rust can hold.
 *
 * MPI's handles are pointers in one library and integers in the other; here they travel as intptr_t.
 * Functions return MPI's error code. This is compiled by the compiler wrapper of the MPI that the
 * process uses, so that no constant of MPI is repeated in Rust. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(MPI_Aint) == sizeof(int64_t), "displacements are passed as int64_t");
_Static_assert(sizeof(MPI_Datatype) <= sizeof(intptr_t), "types are passed as intptr_t");
_Static_assert(sizeof(MPI_File) == sizeof(intptr_t), "files are passed as intptr_t");

static MPI_Datatype to_type(intptr_t handle) {
    return (MPI_Datatype)handle;
}

/* --- The library ---------------------------------------------------------------------- */

int striate_mpiio_is_openmpi(void) {
#ifdef OPEN_MPI
    return 1;
#else
    return 0;
#endif
}

/* Whether MPI can be called: initialised and not yet finalised. */
int striate_mpiio_is_running(void) {
    int initialised = 0, finalised = 1;
    MPI_Initialized(&initialised);
    MPI_Finalized(&finalised);
    return initialised && !finalised;
}

/* The message of a code; `text` has room for `room` bytes. */
void striate_mpiio_error_string(int code, char *text, int room) {
    char message[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (MPI_Error_string(code, message, &length) != MPI_SUCCESS)
        strcpy(message, "unknown error");
    snprintf(text, (size_t)room, "%s", message);
}

/* Functions without a communicator report to one of these two; by default they end the job. */
int striate_mpiio_errors_return(intptr_t saved[2]) {
    const MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    for (int i = 0; i < 2; i++) {
        MPI_Errhandler handler;
        int code = MPI_Comm_get_errhandler(comms[i], &handler);
        if (code != MPI_SUCCESS)
            return code;
        saved[i] = (intptr_t)handler;
        code = MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}

void striate_mpiio_errors_restore(const intptr_t saved[2]) {
    const MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    for (int i = 0; i < 2; i++) {
        MPI_Errhandler handler = (MPI_Errhandler)saved[i];
        MPI_Comm_set_errhandler(comms[i], handler);
        MPI_Errhandler_free(&handler);
    }
}

/* --- Types ---------------------------------------------------------------------------- */

intptr_t striate_mpiio_byte(void) {
    return (intptr_t)MPI_BYTE;
}

static int give(int code, MPI_Datatype made, intptr_t *type) {
    *type = (intptr_t)made;
    return code;
}

int striate_mpiio_contiguous(int count, intptr_t child, intptr_t *type) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    int code = MPI_Type_contiguous(count, to_type(child), &made);
    return give(code, made, type);
}

int striate_mpiio_hvector(int count, int block, int64_t stride, intptr_t child, intptr_t *type) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    int code = MPI_Type_create_hvector(count, block, (MPI_Aint)stride, to_type(child), &made);
    return give(code, made, type);
}

int striate_mpiio_hindexed_block(int count, int block, const int64_t *offsets, intptr_t child,
                                 intptr_t *type) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const MPI_Aint *displacements = (const MPI_Aint *)offsets;
    int code =
        MPI_Type_create_hindexed_block(count, block, displacements, to_type(child), &made);
    return give(code, made, type);
}

int striate_mpiio_hindexed(int count, const int *blocks, const int64_t *offsets, intptr_t child,
                           intptr_t *type) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const MPI_Aint *displacements = (const MPI_Aint *)offsets;
    int code = MPI_Type_create_hindexed(count, blocks, displacements, to_type(child), &made);
    return give(code, made, type);
}

int striate_mpiio_struct(int count, const int *blocks, const int64_t *offsets,
                         const intptr_t *children, intptr_t *type) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    MPI_Datatype *types = calloc((size_t)count + 1, sizeof *types);
    if (!types)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < count; i++)
        types[i] = to_type(children[i]);
    int code = MPI_Type_create_struct(count, blocks, (const MPI_Aint *)offsets, types, &made);
    free(types);
    return give(code, made, type);
}

int striate_mpiio_resized(intptr_t child, int64_t lb, int64_t extent, intptr_t *type) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    int code = MPI_Type_create_resized(to_type(child), (MPI_Aint)lb, (MPI_Aint)extent, &made);
    return give(code, made, type);
}

/* Lower bound, extent, true lower bound, true extent and size. */
int striate_mpiio_bounds(intptr_t type, int64_t bounds[5]) {
    MPI_Aint lb = 0, extent = 0, true_lb = 0, true_extent = 0;
    MPI_Count size = 0;
    int code = MPI_Type_get_extent(to_type(type), &lb, &extent);
    if (code == MPI_SUCCESS)
        code = MPI_Type_get_true_extent(to_type(type), &true_lb, &true_extent);
    if (code == MPI_SUCCESS)
        code = MPI_Type_size_x(to_type(type), &size);
    bounds[0] = lb;
    bounds[1] = extent;
    bounds[2] = true_lb;
    bounds[3] = true_extent;
    bounds[4] = size;
    return code;
}

int striate_mpiio_commit(intptr_t type) {
    MPI_Datatype committed = to_type(type);
    return MPI_Type_commit(&committed);
}

void striate_mpiio_free(intptr_t type) {
    MPI_Datatype freed = to_type(type);
    MPI_Type_free(&freed);
}

int striate_mpiio_pack(const void *memory, int count, intptr_t type, void *stream, int room,
                       int *position) {
    return MPI_Pack(memory, count, to_type(type), stream, room, position, MPI_COMM_SELF);
}

int striate_mpiio_unpack(const void *stream, int length, int *position, void *memory, int count,
                         intptr_t type) {
    return MPI_Unpack(stream, length, position, memory, count, to_type(type), MPI_COMM_SELF);
}

/* --- Which implementation opens a file ------------------------------------------------ */

#ifdef OPEN_MPI

/* Open MPI asks its components for their priority whenever it opens a file, and takes the highest.
 * The priorities are variables that cannot be set once MPI runs, but their storage can be had from
 * the functions that they call, which the library exports. */
static int *priority_of(const char *component) {
    int (*find)(const char *, const char *, const char *, const char *);
    int (*get)(int, const void *, int *, const char **);
    *(void **)&find = dlsym(RTLD_DEFAULT, "mca_base_var_find");
    *(void **)&get = dlsym(RTLD_DEFAULT, "mca_base_var_get_value");
    int *storage = NULL;
    if (find && get) {
        int index = find("ompi", "io", component, "priority");
        if (index < 0 || get(index, &storage, NULL, NULL) != 0)
            storage = NULL;
    }
    return storage;
}

static int *priority_of_ompio(void) {
    return priority_of("ompio");
}

/* The component is named by the version of ROMIO within. */
static int *priority_of_romio(void) {
    const char *const names[] = {"romio341", "romio321", "romio314"};
    int *storage = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !storage; i++)
        storage = priority_of(names[i]);
    return storage;
}

/* Asks for OMPIO (`romio` is 0) or ROMIO in the next open, and says in `saved` what was before.
 * Returns whether it could. */
static int prefer(int romio, int saved[2]) {
    if (!priority_of_ompio() && !priority_of_romio()) {
        /* The components are loaded by the first call that needs them; this one does nothing else,
         * since such a file cannot be made. */
        MPI_File_delete("/proc/self/none", MPI_INFO_NULL);
    }
    int *priorities[] = {priority_of_ompio(), priority_of_romio()};
    if (!priorities[romio != 0])
        return 0;
    for (int i = 0; i < 2; i++)
        if (priorities[i]) {
            saved[i] = *priorities[i];
            *priorities[i] = i == (romio != 0) ? 100 : 0;
        }
    return 1;
}

static void restore(const int saved[2]) {
    int *priorities[] = {priority_of_ompio(), priority_of_romio()};
    for (int i = 0; i < 2; i++)
        if (priorities[i])
            *priorities[i] = saved[i];
}

/* Whose code the file's functions are. The handle is a pointer to the library's own object, which
 * holds a copy of the table of functions of the chosen component; a component is a shared object,
 * by its name. (Open MPI 4 does not put ROMIO's hints in the info of the file.) */
static const char *implementation(MPI_File file) {
    void *const *words = (void *const *)file;
    size_t count = malloc_usable_size((void *)file) / sizeof *words;
    for (size_t i = 0; i < count; i++) {
        Dl_info place;
        if (!words[i] || !dladdr(words[i], &place) || !place.dli_fname)
            continue;
        if (strstr(place.dli_fname, "mca_io_ompio"))
            return "ompio";
        if (strstr(place.dli_fname, "mca_io_romio"))
            return "romio";
    }
    return "";
}

#else

static int prefer(int romio, int saved[2]) {
    (void)saved;
    return romio;
}

static void restore(const int saved[2]) {
    (void)saved;
}

/* ROMIO fills in hints that are its own. */
static const char *implementation(MPI_File file) {
    MPI_Info info;
    if (MPI_File_get_info(file, &info) != MPI_SUCCESS)
        return "";
    const char *found = "";
    int count = 0;
    MPI_Info_get_nkeys(info, &count);
    for (int i = 0; i < count; i++) {
        char key[MPI_MAX_INFO_KEY + 1] = "";
        MPI_Info_get_nthkey(info, i, key);
        if (strcmp(key, "romio_cb_read") == 0)
            found = "romio";
    }
    MPI_Info_free(&info);
    return found;
}

#endif

/* The same for other libraries that open files through MPI-IO: PnetCDF. */
int striate_mpiio_prefer(int romio, int saved[2]) {
    return prefer(romio, saved);
}

void striate_mpiio_restore(const int saved[2]) {
    restore(saved);
}

/* --- Files ---------------------------------------------------------------------------- */

/* Opens a file with ROMIO, or else OMPIO; `hints` are `count` names, each followed by its value.
 * `*found` is 0, and nothing was done, if there is no such implementation. Collective. */
int striate_mpiio_open(int romio, const char *path, int create, const char *const *hints, int count,
                       intptr_t *file, int *found) {
    int saved[2] = {0, 0};
    *found = prefer(romio, saved);
    if (!*found)
        return MPI_SUCCESS;
    MPI_Info info = MPI_INFO_NULL;
    MPI_File opened = MPI_FILE_NULL;
    int code = count > 0 ? MPI_Info_create(&info) : MPI_SUCCESS;
    for (int i = 0; i < count && code == MPI_SUCCESS; i++)
        code = MPI_Info_set(info, hints[2 * i], hints[2 * i + 1]);
    if (code == MPI_SUCCESS) {
        int mode = MPI_MODE_RDWR | (create ? MPI_MODE_CREATE : 0);
        code = MPI_File_open(MPI_COMM_WORLD, path, mode, info, &opened);
    }
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    restore(saved);
    *file = (intptr_t)opened;
    return code;
}

/* The implementation that the file was opened with; empty if it is not known. */
const char *striate_mpiio_implementation(intptr_t file) {
    return implementation((MPI_File)file);
}

/* The hint of this index that the file uses; `*found` is 0 after the last. */
int striate_mpiio_hint(intptr_t file, int index, char *name, int name_room, char *value,
                       int value_room, int *found) {
    MPI_Info info;
    int count = 0, known = 0, code = MPI_File_get_info((MPI_File)file, &info);
    char full_name[MPI_MAX_INFO_KEY + 1] = "", full_value[MPI_MAX_INFO_VAL + 1] = "";
    *found = 0;
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Info_get_nkeys(info, &count);
    if (code == MPI_SUCCESS && index < count) {
        code = MPI_Info_get_nthkey(info, index, full_name);
        if (code == MPI_SUCCESS)
            code = MPI_Info_get(info, full_name, MPI_MAX_INFO_VAL, full_value, &known);
        *found = 1;
    }
    MPI_Info_free(&info);
    snprintf(name, (size_t)name_room, "%s", full_name);
    snprintf(value, (size_t)value_room, "%s", full_value);
    return code;
}

int striate_mpiio_close(intptr_t file) {
    MPI_File closed = (MPI_File)file;
    return MPI_File_close(&closed);
}

int striate_mpiio_sync(intptr_t file) {
    return MPI_File_sync((MPI_File)file);
}

int striate_mpiio_set_view(intptr_t file, int64_t displacement, intptr_t filetype) {
    return MPI_File_set_view((MPI_File)file, (MPI_Offset)displacement, MPI_BYTE,
                             to_type(filetype), "native", MPI_INFO_NULL);
}

static int finish(int code, const MPI_Status *status, int64_t *bytes) {
    MPI_Count elements = 0;
    if (code == MPI_SUCCESS)
        code = MPI_Get_elements_x(status, MPI_BYTE, &elements);
    *bytes = elements == MPI_UNDEFINED ? -1 : elements;
    return code;
}

int striate_mpiio_write(intptr_t file, int collective, int64_t offset, const void *memory,
                        int count, intptr_t type, int64_t *bytes) {
    MPI_Status status;
    int code = (collective ? MPI_File_write_at_all : MPI_File_write_at)(
        (MPI_File)file, (MPI_Offset)offset, memory, count, to_type(type), &status);
    return finish(code, &status, bytes);
}

int striate_mpiio_read(intptr_t file, int collective, int64_t offset, void *memory, int count,
                       intptr_t type, int64_t *bytes) {
    MPI_Status status;
    int code = (collective ? MPI_File_read_at_all : MPI_File_read_at)(
        (MPI_File)file, (MPI_Offset)offset, memory, count, to_type(type), &status);
    return finish(code, &status, bytes);
}
