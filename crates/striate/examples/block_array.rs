//! Collective write of a block-distributed array: each rank holds a block, one file all.
//!
//! The view describes which bytes of the file belong to a rank. All ranks call `write_at_all`
//! together, so that many small rows in the file become a few large requests.
#![allow(clippy::float_cmp, reason = "numbers come back as they were written")]

use std::path::PathBuf;

use striate::prelude::*;

/// Elements along each of the three dimensions.
const EDGE: u64 = 48;

fn main() -> Result<(), FileError> {
    let directory = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join("striate-block-array.dat");

    striate::run(4, |comm| {
        // This rank's block, as MPI_Type_create_darray describes it.
        let double = Datatype::from(Element::F64);
        let grid = grid(comm.size() as u64);
        let distributions = [Distribution::Block(None); 3];
        let rank = comm.rank() as u64;
        let block = Datatype::darray(rank, &[EDGE; 3], &distributions, &grid, Order::C, &double)?;

        // Each element is its own index in the array. The runs of the description tell which
        // elements the block has, in the order in which they lie in this rank's memory.
        let mut mine: Vec<f64> = Vec::new();
        for (_, run) in block.window(1, 0..EDGE.pow(3) as i64 * 8)? {
            let first = run.offset as u64 / 8;
            mine.extend((first..first + run.len / 8).map(|index| index as f64));
        }

        let mode = Mode::CREATE | Mode::READ | Mode::WRITE;
        let mut file = File::open(&comm, &path, mode, &Hints::from_environment()?)?;
        file.set_view(View::new(0, &double, &block)?)?;
        file.write_at_all(0, bytemuck::cast_slice::<_, u8>(&mine))?;
        file.close()?;

        // Without Striate the file is plain numbers: 0, 1, 2, …
        if comm.rank() == 0 {
            let bytes = std::fs::read(&path).expect("the file was just written");
            let mut array = vec![0_f64; EDGE.pow(3) as usize];
            bytemuck::cast_slice_mut::<_, u8>(&mut array).copy_from_slice(&bytes);
            assert!(array.iter().enumerate().all(|(index, &element)| element == index as f64));
            println!("verified: {EDGE}³ doubles in {} blocks, a grid of {grid:?}", comm.size());
            File::delete(&path)?;
        }
        Ok(())
    })
    .map(drop)
}

/// The ranks as a grid whose dimensions are as equal as the factors of their number allow.
fn grid(mut ranks: u64) -> [u64; 3] {
    let mut grid = [1; 3];
    let mut factor = 2;
    while ranks > 1 {
        if ranks.is_multiple_of(factor) {
            grid.sort_unstable();
            grid[0] *= factor;
            ranks /= factor;
        } else {
            factor += 1;
        }
    }
    grid
}
