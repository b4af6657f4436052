// What only C can know of an MPI's datatypes, in one form for all MPIs.
//
// Combiners and other constants get numbers of our own; counts are 64 bits wide, whichever functions the MPI
// has for them; predefined types come in a list, since an MPI defines them as macros and lacks some.
#include <float.h>
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

_Static_assert(sizeof(MPI_Aint) == sizeof(int64_t) && sizeof(MPI_Count) == sizeof(int64_t),
               "addresses and counts have 64 bits");

// --- Constructors ------------------------------------------------------------------------------------------

enum combiner { // as in envelope.rs
    NAMED,
    DUP,
    CONTIGUOUS,
    VECTOR,
    HVECTOR,
    INDEXED,
    HINDEXED,
    INDEXED_BLOCK,
    HINDEXED_BLOCK,
    STRUCT,
    SUBARRAY,
    DARRAY,
    F90_REAL,
    F90_COMPLEX,
    F90_INTEGER,
    RESIZED,
    UNKNOWN
};

struct striate_envelope {
    int64_t combiner, integers, addresses, counts, types;
};

// Functions of MPI 1 that Fortran programs may still call take their displacements as integers.
#if defined(OPEN_MPI)
#define INTEGERS(name) (MPI_COMBINER_##name - 1)
#else
#define INTEGERS(name) MPI_COMBINER_##name##_INTEGER
#endif

static enum combiner number(int combiner) {
    switch (combiner) {
    case MPI_COMBINER_NAMED:
        return NAMED;
    case MPI_COMBINER_DUP:
        return DUP;
    case MPI_COMBINER_CONTIGUOUS:
        return CONTIGUOUS;
    case MPI_COMBINER_VECTOR:
        return VECTOR;
    case MPI_COMBINER_HVECTOR:
    case INTEGERS(HVECTOR):
        return HVECTOR;
    case MPI_COMBINER_INDEXED:
        return INDEXED;
    case MPI_COMBINER_HINDEXED:
    case INTEGERS(HINDEXED):
        return HINDEXED;
    case MPI_COMBINER_INDEXED_BLOCK:
        return INDEXED_BLOCK;
    case MPI_COMBINER_HINDEXED_BLOCK:
        return HINDEXED_BLOCK;
    case MPI_COMBINER_STRUCT:
    case INTEGERS(STRUCT):
        return STRUCT;
    case MPI_COMBINER_SUBARRAY:
        return SUBARRAY;
    case MPI_COMBINER_DARRAY:
        return DARRAY;
    case MPI_COMBINER_F90_REAL:
        return F90_REAL;
    case MPI_COMBINER_F90_COMPLEX:
        return F90_COMPLEX;
    case MPI_COMBINER_F90_INTEGER:
        return F90_INTEGER;
    case MPI_COMBINER_RESIZED:
        return RESIZED;
    default:
        return UNKNOWN;
    }
}

// MPICH has types whose arguments only the functions of MPI 4 can tell. It has these functions in all
// versions whose MPI is 4.
#if MPI_VERSION >= 4

int striate_mpiio_type_envelope(MPI_Datatype type, struct striate_envelope *envelope) {
    MPI_Count integers, addresses, counts, types;
    int combiner;
    int code = PMPI_Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &combiner);
    if (code == MPI_SUCCESS)
        *envelope =
            (struct striate_envelope){number(combiner), integers, addresses, counts, types};
    return code;
}

int striate_mpiio_type_contents(MPI_Datatype type, const struct striate_envelope *envelope,
                                int *integers, int64_t *addresses, int64_t *counts,
                                MPI_Datatype *types) {
    return PMPI_Type_get_contents_c(type, envelope->integers, envelope->addresses,
                                    envelope->counts, envelope->types, integers,
                                    (MPI_Aint *)addresses, (MPI_Count *)counts, types);
}

#else

int striate_mpiio_type_envelope(MPI_Datatype type, struct striate_envelope *envelope) {
    int integers, addresses, types, combiner;
    int code = PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    if (code == MPI_SUCCESS)
        *envelope = (struct striate_envelope){number(combiner), integers, addresses, 0, types};
    return code;
}

int striate_mpiio_type_contents(MPI_Datatype type, const struct striate_envelope *envelope,
                                int *integers, int64_t *addresses, int64_t *counts,
                                MPI_Datatype *types) {
    (void)counts;
    return PMPI_Type_get_contents(type, (int)envelope->integers, (int)envelope->addresses,
                                  (int)envelope->types, integers, (MPI_Aint *)addresses, types);
}

#endif

// The words of arrays' constructors.
const int striate_mpiio_order_fortran = MPI_ORDER_FORTRAN;
const int striate_mpiio_distribute_block = MPI_DISTRIBUTE_BLOCK;
const int striate_mpiio_distribute_cyclic = MPI_DISTRIBUTE_CYCLIC;
const int striate_mpiio_distribute_default = MPI_DISTRIBUTE_DFLT_DARG;

// --- Measures ----------------------------------------------------------------------------------------------

struct striate_measures {
    int64_t size, lower_bound, extent, true_lower_bound, true_extent;
};

int striate_mpiio_type_measures(MPI_Datatype type, struct striate_measures *measures) {
    MPI_Count size, low, extent, true_low, true_extent;
    int code = PMPI_Type_size_x(type, &size);
    if (code == MPI_SUCCESS)
        code = PMPI_Type_get_extent_x(type, &low, &extent);
    if (code == MPI_SUCCESS)
        code = PMPI_Type_get_true_extent_x(type, &true_low, &true_extent);
    if (code == MPI_SUCCESS)
        *measures = (struct striate_measures){size, low, extent, true_low, true_extent};
    return code;
}

// --- Whether a type is committed ---------------------------------------------------------------------------

// MPI has no question for it, but packing refuses a type that is not. The refusal must not reach the
// program's error handlers, so the communicator is our own.
static MPI_Comm judge = MPI_COMM_NULL;

// Called once, before the first question. The tag keeps it apart from what other threads create.
int striate_mpiio_type_judge(void) {
    MPI_Group self;
    int code = PMPI_Comm_group(MPI_COMM_SELF, &self);
    if (code != MPI_SUCCESS)
        return code;
    MPI_Comm made = MPI_COMM_NULL;
    code = PMPI_Comm_create_group(MPI_COMM_SELF, self, 23901, &made);
    PMPI_Group_free(&self);
    if (code == MPI_SUCCESS)
        code = PMPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        judge = made;
    return code;
}

int striate_mpiio_type_is_refused(MPI_Datatype type) {
    char none[1] = {0};
    int position = 0, class = MPI_SUCCESS;
    int code = PMPI_Pack(none, 0, type, none, 1, &position, judge);
    if (code != MPI_SUCCESS)
        PMPI_Error_class(code, &class);
    return class == MPI_ERR_TYPE;
}

// --- Predefined types --------------------------------------------------------------------------------------

// A predefined type: elements of one kind, and in pair types a C int behind them. The kind is one of
//   b bytes    i signed integer    u unsigned integer    f IEEE float    x long double    w wide character
// and its size is that of external32.
struct striate_named {
    MPI_Datatype type;
    char kind;
    uint8_t external, elements, with_int;
};

static const struct striate_named named[] = {
#define NAMED_TYPE(type, kind, external) {type, kind, external, 1, 0},
#define COMPLEX_TYPE(type, kind, external) {type, kind, external, 2, 0},
#define PAIR_TYPE(type, kind, external) {type, kind, external, 1, 1},
    NAMED_TYPE(MPI_BYTE, 'b', 1)
    NAMED_TYPE(MPI_PACKED, 'b', 1)
    NAMED_TYPE(MPI_CHAR, 'b', 1)
    NAMED_TYPE(MPI_SIGNED_CHAR, 'b', 1)
    NAMED_TYPE(MPI_UNSIGNED_CHAR, 'b', 1)
    NAMED_TYPE(MPI_WCHAR, 'w', 2)
    NAMED_TYPE(MPI_SHORT, 'i', 2)
    NAMED_TYPE(MPI_UNSIGNED_SHORT, 'u', 2)
    NAMED_TYPE(MPI_INT, 'i', 4)
    NAMED_TYPE(MPI_UNSIGNED, 'u', 4)
    NAMED_TYPE(MPI_LONG, 'i', 4)
    NAMED_TYPE(MPI_UNSIGNED_LONG, 'u', 4)
    NAMED_TYPE(MPI_LONG_LONG_INT, 'i', 8)
    NAMED_TYPE(MPI_UNSIGNED_LONG_LONG, 'u', 8)
    NAMED_TYPE(MPI_FLOAT, 'f', 4)
    NAMED_TYPE(MPI_DOUBLE, 'f', 8)
    NAMED_TYPE(MPI_LONG_DOUBLE, 'x', 16)
    NAMED_TYPE(MPI_C_BOOL, 'b', 1)
    NAMED_TYPE(MPI_INT8_T, 'b', 1)
    NAMED_TYPE(MPI_INT16_T, 'i', 2)
    NAMED_TYPE(MPI_INT32_T, 'i', 4)
    NAMED_TYPE(MPI_INT64_T, 'i', 8)
    NAMED_TYPE(MPI_UINT8_T, 'b', 1)
    NAMED_TYPE(MPI_UINT16_T, 'u', 2)
    NAMED_TYPE(MPI_UINT32_T, 'u', 4)
    NAMED_TYPE(MPI_UINT64_T, 'u', 8)
    NAMED_TYPE(MPI_AINT, 'i', 8)
    NAMED_TYPE(MPI_COUNT, 'i', 8)
    NAMED_TYPE(MPI_OFFSET, 'i', 8)
    COMPLEX_TYPE(MPI_C_FLOAT_COMPLEX, 'f', 4)
    COMPLEX_TYPE(MPI_C_DOUBLE_COMPLEX, 'f', 8)
    COMPLEX_TYPE(MPI_C_LONG_DOUBLE_COMPLEX, 'x', 16)
#ifdef MPI_CXX_BOOL
    NAMED_TYPE(MPI_CXX_BOOL, 'b', 1)
    COMPLEX_TYPE(MPI_CXX_FLOAT_COMPLEX, 'f', 4)
    COMPLEX_TYPE(MPI_CXX_DOUBLE_COMPLEX, 'f', 8)
    COMPLEX_TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, 'x', 16)
#endif
    PAIR_TYPE(MPI_FLOAT_INT, 'f', 4)
    PAIR_TYPE(MPI_DOUBLE_INT, 'f', 8)
    PAIR_TYPE(MPI_LONG_INT, 'i', 4)
    PAIR_TYPE(MPI_SHORT_INT, 'i', 2)
    PAIR_TYPE(MPI_LONG_DOUBLE_INT, 'x', 16)
    COMPLEX_TYPE(MPI_2INT, 'i', 4)
    // Fortran
    NAMED_TYPE(MPI_CHARACTER, 'b', 1)
    NAMED_TYPE(MPI_LOGICAL, 'i', 4)
    NAMED_TYPE(MPI_INTEGER, 'i', 4)
    NAMED_TYPE(MPI_REAL, 'f', 4)
    NAMED_TYPE(MPI_DOUBLE_PRECISION, 'f', 8)
    COMPLEX_TYPE(MPI_COMPLEX, 'f', 4)
    COMPLEX_TYPE(MPI_DOUBLE_COMPLEX, 'f', 8)
    COMPLEX_TYPE(MPI_2INTEGER, 'i', 4)
    COMPLEX_TYPE(MPI_2REAL, 'f', 4)
    COMPLEX_TYPE(MPI_2DOUBLE_PRECISION, 'f', 8)
#ifdef MPI_2COMPLEX
    {MPI_2COMPLEX, 'f', 4, 4, 0},
    {MPI_2DOUBLE_COMPLEX, 'f', 8, 4, 0},
#endif
#ifdef MPI_LOGICAL1
    NAMED_TYPE(MPI_LOGICAL1, 'b', 1)
    NAMED_TYPE(MPI_LOGICAL2, 'i', 2)
    NAMED_TYPE(MPI_LOGICAL4, 'i', 4)
    NAMED_TYPE(MPI_LOGICAL8, 'i', 8)
#endif
#ifdef MPI_INTEGER1
    NAMED_TYPE(MPI_INTEGER1, 'b', 1)
    NAMED_TYPE(MPI_INTEGER2, 'i', 2)
    NAMED_TYPE(MPI_INTEGER4, 'i', 4)
    NAMED_TYPE(MPI_INTEGER8, 'i', 8)
#endif
#ifdef MPI_INTEGER16
    NAMED_TYPE(MPI_INTEGER16, 'i', 16)
#endif
#ifdef MPI_REAL2
    NAMED_TYPE(MPI_REAL2, 'f', 2)
#endif
#ifdef MPI_REAL4
    NAMED_TYPE(MPI_REAL4, 'f', 4)
    NAMED_TYPE(MPI_REAL8, 'f', 8)
    NAMED_TYPE(MPI_REAL16, 'f', 16)
#endif
#ifdef MPI_COMPLEX4
    COMPLEX_TYPE(MPI_COMPLEX4, 'f', 2)
#endif
#ifdef MPI_COMPLEX8
    COMPLEX_TYPE(MPI_COMPLEX8, 'f', 4)
    COMPLEX_TYPE(MPI_COMPLEX16, 'f', 8)
    COMPLEX_TYPE(MPI_COMPLEX32, 'f', 16)
#endif
};

const struct striate_named *striate_mpiio_named_types(size_t *count) {
    *count = sizeof named / sizeof *named;
    return named;
}

// Bits of a long double's significand, which tell its format.
const int striate_mpiio_long_double_digits = LDBL_MANT_DIG;
