//! Ranks that write the same element collectively: it has the value of one of them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use striate_array::{Dataset, Format, Options, Slab, Type};
use striate_comm::Threads;

#[test]
fn all_ranks_write_the_same_elements() {
    const LEN: usize = 1000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("same.nc");
    let options = Options::default().with("striate_method", "two-phase").unwrap();
    Threads::new(4)
        .try_run(|comm| {
            let mut define = Dataset::create(&comm, &path, Format::Cdf5, &options)?;
            let x = define.dimension("x", LEN as u64)?;
            let field = define.variable("field", Type::Double, &[x])?;
            let mut data = define.end()?;
            for round in 0..200 {
                // With conversion: intermediate bytes must not be visible to other ranks.
                data.put_all(field, &Slab::all(), &vec![round; LEN])?;
                let mut found = vec![-1_i32; LEN];
                data.get_all(field, &Slab::all(), &mut found)?;
                assert!(found.iter().all(|&value| value == round), "round {round}: {found:?}");
            }
            data.close()
        })
        .unwrap();
}
