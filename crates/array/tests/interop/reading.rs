//! Files of other tools are read with any number of ranks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use striate_array::{Format, Owner, Slab, Type, Values};

use crate::tools::{PeerValue, ask, hex, run, text};
use crate::{FORMATS, open, ranks, read_collectively, types};

/// Asserts that each file contains exactly the listed variables and attributes.
fn assert_holds(listed: &[PeerValue], with: &[usize]) {
    let mut files: BTreeMap<&Path, Vec<&PeerValue>> = BTreeMap::new();
    for one in listed {
        files.entry(&one.file).or_default().push(one);
    }
    for (path, listed) in files {
        for &count in with {
            ranks(count, |comm| {
                let mut data = open(&comm, path);
                let header = data.header();
                let variables = header.variables.len();
                let of_variables = header.variables.iter().map(|v| v.attributes.len());
                let attributes = of_variables.sum::<usize>() + header.attributes.len();
                assert_eq!(listed.len(), variables + attributes, "{}", path.display());
                for one in &listed {
                    let found = match one.what.split_once(':') {
                        Some(("", name)) => data.attribute(Owner::Global, name)?.clone(),
                        Some((variable, name)) => {
                            data.attribute(data.variable(variable)?, name)?.clone()
                        }
                        None => {
                            assert_shared(&mut data, one, comm.rank() as u64, count as u64);
                            let variable = data.variable(&one.what)?;
                            assert_eq!(data.shape(variable), one.shape, "{one:?}");
                            data.values(variable, &Slab::all())?
                        }
                    };
                    assert_eq!(found.external(), one.external, "{one:?}");
                    assert_eq!(hex(&found.to_bytes()), one.data, "{one:?}");
                }
                data.close()
            });
        }
    }
}

/// Asserts what a rank reads of a variable if all ranks read their shares collectively.
fn assert_shared(data: &mut striate_array::Dataset, listed: &PeerValue, rank: u64, ranks: u64) {
    let variable = data.variable(&listed.what).unwrap();
    let Some((&first, inner)) = listed.shape.split_first() else { return };
    let (begin, end) = (first * rank / ranks, first * (rank + 1) / ranks);
    let row = inner.iter().product::<u64>();
    let mut start = vec![0; listed.shape.len()];
    start[0] = begin;
    let mut count = listed.shape.clone();
    count[0] = end - begin;
    let elements = ((end - begin) * row) as usize;
    let found = read_collectively(data, variable, &Slab::new(&start, &count), elements).unwrap();
    let digits = 2 * (row * listed.external.size()) as usize;
    let expected = &listed.data[begin as usize * digits..end as usize * digits];
    assert_eq!(hex(&found.to_bytes()), expected, "{listed:?}");
}

#[test]
fn files_of_python_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_path_buf();
    let listed = ask(&[("write", std::slice::from_ref(&place))]);
    let mut files: Vec<PathBuf> = listed.iter().map(|one| one.file.clone()).collect();
    files.dedup();
    // Three formats, three numbers of records, and each type alone.
    assert_eq!(files.len(), 9 + 6 + 6 + 11);
    assert_holds(&listed, &[1, 2, 3, 5]);
}

/// Values for a variable of each type, and how they are written in CDL.
fn example(external: Type) -> (Values, String) {
    let (values, text): (Values, &str) = match external {
        Type::Byte => (vec![-128_i8, 127, 0, 1, -1, 7].into(), "-128, 127, 0, 1, -1, 7"),
        Type::Char => ("abc+=z".into(), "\"abc+=z\""),
        Type::Short => (vec![-32768_i16, 32767, 0, 1, 2, 3].into(), "-32768, 32767, 0, 1, 2, 3"),
        Type::Int => (
            vec![-2_147_483_647_i32, 2_147_483_647, 0, 1, 2, 3].into(),
            "-2147483647, 2147483647, 0, 1, 2, 3",
        ),
        Type::Float => (
            vec![1.5_f32, -2.25, 1e30, 1e-30, 0.0, 3.0].into(),
            "1.5f, -2.25f, 1.e30f, 1.e-30f, 0.f, 3.f",
        ),
        Type::Double => (
            vec![0.1, -2.25, 1e300, 1e-300, 0.0, 3.0].into(),
            "0.1, -2.25, 1.e300, 1.e-300, 0., 3.",
        ),
        Type::UByte => (vec![255_u8, 1, 2, 3, 4, 5].into(), "255, 1, 2, 3, 4, 5"),
        Type::UShort => (vec![65535_u16, 1, 2, 3, 4, 5].into(), "65535, 1, 2, 3, 4, 5"),
        Type::UInt => (vec![4_000_000_000_u32, 1, 2, 3, 4, 5].into(), "4000000000, 1, 2, 3, 4, 5"),
        Type::Int64 => (
            vec![-9_000_000_000_000_000_000_i64, 1, 2, 3, 4, 5].into(),
            "-9000000000000000000, 1, 2, 3, 4, 5",
        ),
        Type::UInt64 => {
            (vec![4_000_000_001_u64, 1, 2, 3, 4, 5].into(), "4000000001, 1, 2, 3, 4, 5")
        }
        other => unreachable!("{other} is in no classic file"),
    };
    (values, text.into())
}

/// CDL with a fixed and a record variable of each type, and what is to be found in its file.
fn cdl(path: &Path, types: &[Type]) -> (String, Vec<PeerValue>) {
    let (mut variables, mut data) = (Vec::new(), Vec::new());
    let mut listed = Vec::new();
    let mut tell = |what: String, values: &Values, shape: &[u64]| {
        let (file, data) = (path.to_path_buf(), hex(&values.to_bytes()));
        listed.push(PeerValue {
            file,
            what,
            external: values.external(),
            shape: shape.into(),
            data,
        });
    };
    for &external in types {
        let (values, list) = example(external);
        variables.push(format!("{external} fixed_{external}(y, x) ;"));
        variables.push(format!("{external} series_{external}(time, x) ;"));
        variables.push(format!("fixed_{external}:units = \"of {external}\" ;"));
        data.push(format!("fixed_{external} = {list} ;"));
        data.push(format!("series_{external} = {list} ;"));
        tell(format!("fixed_{external}"), &values, &[2, 3]);
        tell(format!("series_{external}"), &values, &[2, 3]);
        let units = Values::from(format!("of {external}"));
        tell(format!("fixed_{external}:units"), &units, &[units.len() as u64]);
    }
    tell(":title".into(), &"made of CDL".into(), &[11]);
    let text = format!(
        "netcdf made {{\ndimensions:\ntime = UNLIMITED ;\ny = 2 ;\nx = 3 ;\nvariables:\n{}\n\
         :title = \"made of CDL\" ;\ndata:\n{}\n}}\n",
        variables.join("\n"),
        data.join("\n")
    );
    (text, listed)
}

#[test]
fn files_of_ncgen_and_ncmpigen_are_read() {
    let directory = tempfile::tempdir().unwrap();
    for format in FORMATS {
        for tool in ["ncgen", "ncmpigen"] {
            let path = directory.path().join(format!("{tool}-{format}.nc"));
            // ncgen 4.9 makes int of int64.
            let types: Vec<Type> = types(format)
                .filter(|&external| tool == "ncmpigen" || external != Type::Int64)
                .collect();
            let (cdl, listed) = cdl(&path, &types);
            let source = path.with_extension("cdl");
            std::fs::write(&source, cdl).unwrap();
            let (version, kind) = (format.version().to_string(), format.kind());
            let flags = if tool == "ncgen" { ["-k", kind] } else { ["-v", &version] };
            run(tool, &[flags[0], flags[1], "-o", text(&path), text(&source)]);
            let found = ranks(1, |comm| Ok(open(&comm, &path).header().format));
            assert_eq!(found, [format]);
            assert_holds(&listed, &[1, 3, 4]);
        }
    }
}

/// The option of NCO for a format.
const fn nco_flag(format: Format) -> &'static str {
    match format {
        Format::Cdf1 => "-3",
        Format::Cdf2 => "-6",
        Format::Cdf5 => "-5",
        Format::Netcdf4 => "-4",
        Format::Netcdf4Classic => "-7",
    }
}

#[test]
fn files_of_nccopy_and_nco_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let common: Vec<Type> = types(Format::Cdf1).collect();
    let source = at("source.nc");
    let (cdl, listed) = cdl(&source, &common);
    std::fs::write(at("source.cdl"), cdl).unwrap();
    run("ncgen", &["-k", "classic", "-o", text(&source), text(&at("source.cdl"))]);
    for format in FORMATS {
        let copy = at(&format!("copy-{format}.nc"));
        run("nccopy", &["-k", format.kind(), text(&source), text(&copy)]);
        let moved = listed.iter().map(|one| PeerValue { file: copy.clone(), ..one.clone() });
        assert_holds(&moved.collect::<Vec<_>>(), &[2]);

        // Every record twice; `-h` disables the history attribute.
        let twice = at(&format!("twice-{format}.nc"));
        let flags = ["-h", "-O", nco_flag(format)];
        let files = [text(&source), text(&copy), text(&twice)];
        run("ncrcat", &[&flags[..], &files].concat());
        let joined = listed.iter().map(|one| {
            let mut one = PeerValue { file: twice.clone(), ..one.clone() };
            if one.what.starts_with("series_") {
                one.shape[0] *= 2;
                one.data = one.data.repeat(2);
            }
            one
        });
        // The library's version is in an attribute.
        assert_holds_but_attributes(&joined.collect::<Vec<_>>());

        // The second column.
        let column = at(&format!("column-{format}.nc"));
        let files = ["-d", "x,1", text(&source), text(&column)];
        run("ncks", &[&flags[..], &files].concat());
        let columns = listed.iter().map(|one| {
            let mut one = PeerValue { file: column.clone(), ..one.clone() };
            if !one.what.contains(':') {
                let digits = 2 * one.external.size() as usize;
                one.shape[1] = 1;
                one.data = [1, 4].map(|i| &one.data[i * digits..(i + 1) * digits]).concat();
            }
            one
        });
        assert_holds_but_attributes(&columns.collect::<Vec<_>>());
    }
}

fn assert_holds_but_attributes(listed: &[PeerValue]) {
    ranks(3, |comm| {
        let mut data = open(&comm, &listed[0].file);
        for one in listed.iter().filter(|one| !one.what.contains(':')) {
            assert_shared(&mut data, one, comm.rank() as u64, 3);
            let variable = data.variable(&one.what)?;
            assert_eq!(data.shape(variable), one.shape, "{one:?}");
        }
        data.close()
    });
}

/// A file that netCDF-C has only defined: its variables get their places when they are written.
#[test]
fn files_that_were_only_defined_are_written() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("defined.nc");
    // In no-fill mode nothing has a place.
    let script = "import netCDF4, sys\n\
                  with netCDF4.Dataset(sys.argv[1], 'w') as data:\n\
                  \x20   data.set_fill_off()\n\
                  \x20   data.createDimension('x', 6)\n\
                  \x20   data.createDimension('t', None)\n\
                  \x20   for name, kind, of in (('a', 'i4', ('x',)), ('b', 'i2', ('x',)), ('c', 'f4', ('t', 'x'))):\n\
                  \x20       data.createVariable(name, kind, of)\n\
                  \x20   data.createVariable('words', str, ('x',))[0] = 'one'\n";
    let made = std::process::Command::new(crate::tools::python())
        .args(["-c", script, path.to_str().unwrap()])
        .status();
    assert!(made.unwrap().success());
    crate::ranks(3, |comm| {
        let (rank, options) = (comm.rank() as u64, striate_array::Options::default());
        let mode = striate_array::OpenMode::ReadWrite;
        let mut data = striate_array::Dataset::open(&comm, &path, mode, &options)?;
        assert_eq!(data.hidden(), []);
        assert_eq!(data.strings(data.variable("words")?, &Slab::element(&[0]))?, ["one"]);
        let slab = Slab::new(&[2 * rank], &[2]);
        for name in ["a", "b"] {
            let variable = data.variable(name)?;
            assert!(data.put(variable, &slab, &[1_i32, 2]).is_err() || comm.size() == 1);
            data.put_all(variable, &slab, &[rank as i32, 7])?;
        }
        let series = data.variable("c")?;
        let slab = Slab::new(&[0, 2 * rank], &[2, 2]);
        data.put_all(series, &slab, &[1.5_f32, 2.5, 3.5, rank as f32])?;
        data.close()
    });
    let script = "import netCDF4, sys\n\
                  with netCDF4.Dataset(sys.argv[1]) as data:\n\
                  \x20   assert list(data['a'][:]) == [0, 7, 1, 7, 2, 7], data['a'][:]\n\
                  \x20   assert list(data['b'][:]) == [0, 7, 1, 7, 2, 7]\n\
                  \x20   assert data['c'][:].tolist() == [[1.5, 2.5] * 3, [3.5, 0, 3.5, 1, 3.5, 2]]\n\
                  \x20   assert data['words'][0] == 'one'\n";
    let read = std::process::Command::new(crate::tools::python())
        .args(["-c", script, path.to_str().unwrap()])
        .status();
    assert!(read.unwrap().success());
}
