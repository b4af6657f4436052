// What only C can know of an MPI: its constants, which are macros in one and addresses in the other.
#include <mpi.h>

#if defined(OPEN_MPI)
#define BUILT_FOR "Open MPI"
#elif defined(MPICH)
#define BUILT_FOR "MPICH"
#else
#error "neither Open MPI nor MPICH"
#endif

// Open MPI 4 does not know it yet.
#if !defined(MPI_ERRORS_ABORT)
#define MPI_ERRORS_ABORT MPI_ERRORS_ARE_FATAL
#endif

// `constants.rs` has the same structure.
const struct {
    const char *built_for;
    MPI_Datatype byte;
    MPI_Errhandler errors_abort;
    MPI_Errhandler errhandler_null;
} striate_mpiio_constants = {
    BUILT_FOR, MPI_BYTE, MPI_ERRORS_ABORT, MPI_ERRHANDLER_NULL,
};

/* What MPI_Status_set_elements_x with MPI_BYTE and MPI_Status_set_cancelled do, as far as the headers show it. The door
 * compares both before it relies on it. */
void striate_mpiio_set_status(MPI_Status *status, MPI_Count bytes) {
#ifdef OPEN_MPI
    status->_ucount = (size_t)bytes;
    status->_cancelled = 0;
#else
    status->count_lo = (int)bytes;
    status->count_hi_and_cancelled = (int)(bytes >> 32) << 1;
#endif
}
