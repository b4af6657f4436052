//! The fuzz target of filters without a fuzzer: the same assertions on a fixed sequence of inputs.
//!
//! Inputs are the committed seeds, small chunks that the HDF5 library and its plug-ins wrote, and
//! mutants of them. Inputs that once failed are kept among the seeds. Coverage-guided runs of the
//! same body are described in CONTRIBUTING.md.

#[path = "../../../fuzz/bodies/hdf5_filter.rs"]
mod bodies;

use striate_fuzzing::{Mutations, drive};

const MUTANTS: usize = 10_000;

#[test]
fn no_bytes_upset_a_filter() {
    drive("hdf5_filter", 0x5EED_0023, MUTANTS, &Mutations::default(), bodies::hdf5_filter);
}
