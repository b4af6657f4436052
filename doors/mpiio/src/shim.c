// What only C can know of an MPI: its constants, which are macros in one and addresses in the other.
#include <mpi.h>

#if defined(OPEN_MPI)
const char striate_mpiio_built_for[] = "Open MPI";
#elif defined(MPICH)
const char striate_mpiio_built_for[] = "MPICH";
#else
#error "neither Open MPI nor MPICH"
#endif
