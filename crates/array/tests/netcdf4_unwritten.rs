//! A variable that nobody wrote has no place in a file of netCDF-C. Reading some of it takes memory
//! for that part alone, whatever its size.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use striate_array::{Dataset, OpenMode, Options, Slab};
use striate_comm::Threads;
use striate_testing::peak_memory::{PeakAllocator, peak_of};

#[global_allocator]
static MEMORY: PeakAllocator = PeakAllocator;

const CDL: &str = "netcdf large {
dimensions: x = 1000 ; y = 1000 ; z = 1000 ;
variables: float heat(x, y, z) ; double flat(z) ;
heat:_FillValue = 7.5f ; flat:_Storage = \"contiguous\" ; heat:_Storage = \"contiguous\" ;
}";

#[test]
fn a_part_of_what_nobody_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let (cdl, path) = (directory.path().join("large.cdl"), directory.path().join("large.nc"));
    std::fs::write(&cdl, CDL).unwrap();
    let made = Command::new("ncgen").args(["-k", "nc4", "-o"]).arg(&path).arg(&cdl).status();
    assert!(made.unwrap().success());
    assert!(std::fs::metadata(&path).unwrap().len() < 100_000, "the elements are not in the file");
    let read = || {
        Threads::new(2).try_run(|comm| {
            let mut data = Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default())?;
            let heat = data.variable("heat")?;
            let mut found = vec![0.0_f32; 3000];
            let slab = Slab::new(&[998, 500, 7], &[2, 3, 500]).stride(&[1, 100, 1]);
            data.get_all(heat, &slab, &mut found)?;
            assert!(found.iter().all(|&one| one.to_bits() == 7.5_f32.to_bits()));
            data.get(heat, &Slab::element(&[0, 999, 999]), &mut found[..1])?;
            let mut flat = vec![1.0_f64; 1000];
            let variable = data.variable("flat")?;
            data.get_all(variable, &Slab::all(), &mut flat)?;
            assert!(flat.iter().all(|&one| one.to_bits() == flat[0].to_bits()));
            data.close()
        })
    };
    let (done, peak) = peak_of(read);
    done.unwrap();
    assert!(peak < 48 << 20, "{peak} bytes");
}
