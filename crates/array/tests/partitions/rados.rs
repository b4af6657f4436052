//! Datasets in pools of Ceph: whole, and in partitions on pools.

use striate_array::{Dataset, DatasetFiles, Format, OpenMode, Options, Slab, Type};
use striate_file::StorageTarget;
use striate_store::rados::{RadosNamespace, use_configuration};
use striate_testing::CephCluster;

use super::{open, ranks, temporary_dataset};

const N: u64 = 9;

/// Writes a table by two ranks, reads it by three, each a part.
fn write_and_read(path: &std::path::Path, format: Format, options: &Options, partitions: usize) {
    // The second dataset replaces the first.
    for factor in [1, 2] {
        ranks(2, |comm| {
            let mut define = Dataset::create(&comm, path, format, options)?;
            let y = define.dimension("y", N)?;
            let v = define.variable("v", Type::Int, &[y, y])?;
            let mut data = define.end()?;
            let rank = comm.rank() as u64;
            let (first, count) = if rank == 0 { (0, 4) } else { (4, 5) };
            let values: Vec<i32> =
                (first * N..(first + count) * N).map(|n| n as i32 * factor).collect();
            data.put_all(v, &Slab::new(&[first, 0], &[count, N]), &values)?;
            data.close()
        });
        ranks(3, |comm| {
            let mut data = open(&comm, path, OpenMode::ReadWrite);
            let files = data.partitions().map_or(0, <[_]>::len);
            assert_eq!(files, partitions);
            let v = data.variable("v")?;
            let mut row = [0; N as usize];
            let line = 2 * comm.rank() as u64 + 1;
            data.get_all(v, &Slab::new(&[line, 0], &[1, N]), &mut row)?;
            let expected: Vec<i32> =
                (line * N..(line + 1) * N).map(|n| n as i32 * factor).collect();
            assert_eq!(row[..], expected);
            data.close()
        });
    }
}

fn names(url: &str) -> Vec<String> {
    let namespace = RadosNamespace::open(&url.parse().unwrap()).unwrap();
    namespace.list("").unwrap().into_iter().map(|file| file.name).collect()
}

#[test]
fn datasets_in_a_pool() {
    use_configuration(Some(&CephCluster::shared().configuration()));
    for (format, name) in [(Format::Cdf5, "classic.nc"), (Format::Netcdf4, "netcdf4.nc")] {
        let path = format!("rados://data/whole/run/{name}");
        write_and_read(path.as_ref(), format, &Options::default(), 0);
    }
    assert_eq!(names("rados://data/whole/"), ["run/classic.nc", "run/netcdf4.nc"]);
}

#[test]
fn partitions_on_pools() {
    use_configuration(Some(&CephCluster::shared().configuration()));
    let (_directory, local) = temporary_dataset();
    let remote = "rados://data/divided/run/data.nc".into();
    for path in [local, remote] {
        // Both pools are probed, as fast as they are.
        let options = Options::default()
            .with("nc_partitioning_enabled", "enable")
            .and_then(|it| it.with("nc_num_partitions", "4"))
            .and_then(|it| {
                it.with("nc_partition_targets", "rados://data/parts,rados://other/parts")
            })
            .unwrap();
        write_and_read(&path, Format::Cdf5, &options, 4);
        let parts = [names("rados://data/parts/"), names("rados://other/parts/")].concat();
        assert_eq!(parts.len(), 4, "those of the first dataset are removed: {parts:?}");
        DatasetFiles::of(&path).unwrap().remove().unwrap();
        assert_eq!(names("rados://data/parts/"), [""; 0]);
        assert_eq!(names("rados://other/parts/"), [""; 0]);
    }
    let target: StorageTarget = "rados://data/parts".parse().unwrap();
    assert_eq!(target.path("a.nc").to_str(), Some("rados://data/parts/a.nc"));
}
