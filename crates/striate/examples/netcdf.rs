//! netCDF in parallel: all ranks define a dataset, write slabs of a variable, and read others.
//!
//! The file is CDF-5, which ncdump, PnetCDF, xarray and others open. Numbers are converted on the
//! way: the program has doubles, the file floats.
#![allow(clippy::float_cmp, reason = "numbers come back as they were written")]

use std::path::PathBuf;

use striate::prelude::*;

/// Time steps, rows of a rank, and columns.
const STEPS: u64 = 3;
const ROWS: u64 = 4;
const COLUMNS: u64 = 90;

fn main() -> Result<(), ArrayError> {
    let directory = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join("striate-netcdf.nc");

    striate::run(4, |comm| {
        let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);

        // Every rank makes the same definitions; `end` checks that, and writes the header.
        let options = Options::from_environment()?;
        let mut define = Dataset::create(&comm, &path, Format::Cdf5, &options)?;
        let time = define.unlimited("time")?;
        let y = define.dimension("y", ROWS * ranks)?;
        let x = define.dimension("x", COLUMNS)?;
        let heat = define.variable("heat", Type::Float, &[time, y, x])?;
        define.attribute(heat, "units", "K")?;
        define.attribute(Owner::Global, "title", "an example")?;
        let mut data = define.end()?;

        // Each rank writes its rows of each time step.
        for step in 0..STEPS {
            let rows = Slab::new(&[step, rank * ROWS, 0], &[1, ROWS, COLUMNS]);
            let values = vec![280.0 + step as f64; (ROWS * COLUMNS) as usize];
            data.put_all(heat, &rows, &values)?;
        }
        data.sync()?;

        // Each rank reads one column of all rows and steps, whichever rank wrote it.
        let column = Slab::new(&[0, 0, rank % COLUMNS], &[STEPS, ROWS * ranks, 1]);
        let values = data.array::<f32>(heat, &column)?;
        for step in 0..STEPS {
            let expected = 280.0 + step as f32;
            assert!(
                values
                    .outer_iter()
                    .nth(step as usize)
                    .is_some_and(|rows| { rows.iter().all(|&value| value == expected) })
            );
        }
        assert_eq!(data.shape(heat), [STEPS, ROWS * ranks, COLUMNS]);
        data.close()?;

        if rank == 0 {
            let shown = path.display();
            println!("verified: {STEPS} records of {ranks} ranks; look at it: ncdump -h {shown}");
        }
        Ok(())
    })
    .map(drop)
}
