//! Ghost cells: memory has a border that the file has not, filled with the neighbours' rows.
//!
//! A write takes the interior out of the memory, described by a datatype, without a copy. A read
//! through a view that is one row larger at each side fills the border with what the neighbours
//! wrote.
#![allow(clippy::float_cmp, reason = "numbers come back as they were written")]

use std::path::PathBuf;

use striate::prelude::*;

/// Rows and columns of a rank, without the border.
const ROWS: u64 = 16;
const COLUMNS: u64 = 100;

fn main() -> Result<(), FileError> {
    let directory = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join("striate-ghost-cells.dat");

    striate::run(4, |comm| {
        let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
        let float = Datatype::from(Element::F32);
        let array = [ROWS * ranks, COLUMNS];
        let memory = [ROWS + 2, COLUMNS + 2];

        // Rows of the array that lie within a rank's own part, and with a neighbour's row at each
        // side.
        let own = rank * ROWS..(rank + 1) * ROWS;
        let seen = own.start.saturating_sub(1)..(own.end + 1).min(array[0]);

        // The value of each cell of the interior is its row in the array; the border is unknown.
        let mut cells = vec![f32::NAN; (memory[0] * memory[1]) as usize];
        for row in 0..ROWS {
            let start = ((row + 1) * memory[1] + 1) as usize;
            cells[start..start + COLUMNS as usize].fill((own.start + row) as f32);
        }

        let mode = Mode::CREATE | Mode::READ | Mode::WRITE | Mode::DELETE_ON_CLOSE;
        let mut file = File::open(&comm, &path, mode, &Hints::from_environment()?)?;

        // Write the interior to the rank's own rows.
        let inside = [ROWS, COLUMNS];
        let interior = Datatype::subarray(&memory, &inside, &[1, 1], Order::C, &float)?;
        let rows = Datatype::subarray(&array, &inside, &[own.start, 0], Order::C, &float)?;
        file.set_view(View::new(0, &float, &rows)?)?;
        let bytes = bytemuck::cast_slice(&cells);
        file.write_at_all(0, Memory::new(bytes, 0, 1, &interior)?)?;
        // Other ranks' data may be read after a sync.
        file.sync()?;

        // Read it with the neighbours' rows. At the edge of the array there is none.
        let shape = [seen.end - seen.start, COLUMNS];
        let first = 1 - (own.start - seen.start);
        let wide = Datatype::subarray(&memory, &shape, &[first, 1], Order::C, &float)?;
        let rows = Datatype::subarray(&array, &shape, &[seen.start, 0], Order::C, &float)?;
        file.set_view(View::new(0, &float, &rows)?)?;
        let bytes = bytemuck::cast_slice_mut(&mut cells);
        file.read_at_all(0, MemoryMut::new(bytes, 0, 1, &wide)?)?;

        for (row, cells) in (own.start..).zip(cells.chunks(memory[1] as usize)) {
            // `row` counts the row above the rank's own as its first.
            let expected = row.checked_sub(1).filter(|row| seen.contains(row));
            let inner = &cells[1..=COLUMNS as usize];
            let right = match expected {
                Some(row) => inner.iter().all(|&cell| cell == row as f32),
                None => inner.iter().all(|cell| cell.is_nan()),
            };
            assert!(right, "row {row} of rank {rank}");
            assert!(cells[0].is_nan(), "the border at the left is not in the file");
        }
        if rank == 0 {
            println!("verified: {ranks} ranks have the rows of their neighbours in their borders");
        }
        file.close()
    })
    .map(drop)
}
