//! Variables whose elements interleave in memory are written tile by tile of the memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use striate_array::{ArrayError, Dataset, Format, OpenMode, Options, Pending, Slab, Source, Type};
use striate_comm::Threads;
use striate_datatype::Datatype;

const VARIABLES: u64 = 4;
/// Cells of a rank: 8 MiB with all variables.
const CELLS: u64 = 1 << 18;

fn value(rank: u64, cell: u64, variable: u64) -> u64 {
    rank * CELLS * VARIABLES + cell * VARIABLES + variable
}

fn write(path: &std::path::Path, ranks: u64) -> Vec<u64> {
    Threads::new(ranks as usize)
        .try_run(|comm| {
            let rank = comm.rank() as u64;
            let mut define = Dataset::create(&comm, path, Format::Cdf5, &Options::default())?;
            let cells = define.dimension("cells", CELLS * ranks)?;
            let mut variables = Vec::new();
            for number in 0..VARIABLES {
                variables.push(define.variable(&format!("v{number}"), Type::Double, &[cells])?);
            }
            let mut data = define.end()?;
            let each = |i: u64| value(rank, i / VARIABLES, i % VARIABLES) as f64;
            let memory: Vec<f64> = (0..CELLS * VARIABLES).map(each).collect();
            let strided = Datatype::hvector(CELLS, 1, 8 * VARIABLES as i64, &Datatype::bytes(8)?)?;
            let mut pending = Pending::new();
            for (number, &variable) in variables.iter().enumerate() {
                let slab = Slab::new(&[rank * CELLS], &[CELLS]);
                let source = Source::typed(&memory, number, 1, &strided);
                data.iput(&mut pending, variable, &slab, source)?;
            }
            let before = data.stats().calls;
            // A rank without pending accesses takes part as well.
            data.wait_all(if rank == 1 { Pending::new() } else { pending })?;
            let rounds = data.stats().calls - before;
            data.close()?;
            Ok::<_, ArrayError>(rounds)
        })
        .unwrap()
}

#[test]
fn variables_are_written_tile_by_tile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tiles.nc");
    for ranks in [1, 2, 4] {
        let rounds = write(&path, ranks);
        assert!(rounds[0] >= 8, "{rounds:?} rounds for 8 MiB of memory");
        Threads::new(1)
            .try_run(|comm| {
                let mut data =
                    Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default())?;
                for (number, variable) in
                    data.variables().collect::<Vec<_>>().into_iter().enumerate()
                {
                    let mut found = vec![0_u64; (CELLS * ranks) as usize];
                    data.get_all(variable, &Slab::all(), &mut found)?;
                    for (i, found) in found.into_iter().enumerate() {
                        let (rank, cell) = (i as u64 / CELLS, i as u64 % CELLS);
                        if rank != 1 {
                            assert_eq!(
                                found,
                                value(rank, cell, number as u64),
                                "{ranks} ranks: {i}"
                            );
                        }
                    }
                }
                data.close()
            })
            .unwrap();
    }
}
