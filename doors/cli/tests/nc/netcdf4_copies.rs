//! `striate nc copy`, `mv`, `rm`, `split`, `join` and `compare` on netCDF-4 files, beside the tools
//! of netCDF.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::tools::{answer, complaint, striate};

const CDL: &str = r#"netcdf ocean {
dimensions:
  time = UNLIMITED ;
  lat = 9 ;
  lon = 18 ;
variables:
  double time(time) ;
    time:units = "days since 2000-01-01" ;
  float temp(time, lat, lon) ;
    temp:_FillValue = -1.f ;
  short depth(lat, lon) ;
  char name(lon) ;
  int number ;
  :title = "an ocean" ;
data:
  time = 1, 2, 3 ;
  number = 7 ;
  name = "eighteen letters.." ;
}
"#;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A file that ncgen made.
fn made(place: &TempDir, kind: &str) -> PathBuf {
    let (cdl, file) = (place.path().join("ocean.cdl"), place.path().join(format!("{kind}.nc")));
    std::fs::write(&cdl, CDL).unwrap();
    let status = Command::new("ncgen").args(["-k", kind, "-o", text(&file), text(&cdl)]).status();
    assert!(status.unwrap().success());
    file
}

/// The text of a file without its first line, which has its name.
fn dump(path: &Path) -> String {
    let output = Command::new("ncdump").arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dumped = String::from_utf8(output.stdout).unwrap();
    dumped.split_once('\n').unwrap().1.to_owned()
}

fn special(path: &Path) -> String {
    let output = Command::new("ncdump").args(["-hs", text(path)]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn copies_between_all_formats_are_the_same_text() {
    let place = TempDir::new().unwrap();
    for kind in ["nc3", "nc4", "nc7"] {
        let source = made(&place, kind);
        let expected = dump(&source);
        for (number, options) in [
            &["--format", "netcdf4"][..],
            &["--format", "netcdf4-classic", "--deflate", "1"],
            &["--format", "netcdf4", "--deflate", "4", "--shuffle", "--chunks", "time/1,lat/4"],
            &["--format", "cdf2"],
        ]
        .into_iter()
        .enumerate()
        {
            let copy = place.path().join(format!("{kind}-{number}.nc"));
            let arguments = ["copy", "-n", "3"].iter().chain(options).copied();
            let arguments = arguments.chain([text(&source), text(&copy)]);
            answer(striate(arguments), format!("{kind} {options:?}"));
            assert_eq!(dump(&copy), expected, "{kind} {options:?}");
            answer(striate(["compare", text(&source), text(&copy)]), "compare");
            answer(striate(["validate", text(&copy)]), "validate");
        }
    }
}

#[test]
fn chunks_filters_and_unlimited_dimensions_are_as_asked_for() {
    let place = TempDir::new().unwrap();
    let (source, copy) = (made(&place, "nc3"), place.path().join("copy.nc"));
    let options = ["copy", "-k", "netcdf4", "-d", "5", "-s", "-c", "lat/4", "--unlimited", "lon"];
    answer(striate(options.into_iter().chain([text(&source), text(&copy)])), "copy");
    let shown = special(&copy);
    for expected in [
        "lon = UNLIMITED ; // (18 currently)",
        "temp:_ChunkSizes = 1, 4, 1 ;",
        "temp:_DeflateLevel = 5 ;",
        "temp:_Shuffle = \"true\" ;",
        "number:_Storage = \"contiguous\" ;",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    // And back to what the source was.
    let back = place.path().join("back.nc");
    let arguments = ["copy", "-k", "netcdf4", "-d", "0", text(&copy), text(&back)];
    answer(striate(arguments), "copy back");
    assert!(!special(&back).contains("_DeflateLevel"));
}

#[test]
fn mistakes_leave_nothing() {
    let place = TempDir::new().unwrap();
    let (source, copy) = (made(&place, "nc3"), place.path().join("copy.nc"));
    let ends = [text(&source), text(&copy)];
    for (options, said) in [
        (&["-k", "netcdf4", "-c", "depth/2"][..], "no dimension 'depth'"),
        (&["-d", "3"], "neither chunks nor filters"),
    ] {
        let arguments = ["copy"].iter().chain(options).copied().chain(ends);
        let told = complaint(arguments, 1);
        assert!(told.contains(said), "{told}");
        assert!(!copy.exists());
    }
    // What has no place in a copy is named.
    let (cdl, strings) = (place.path().join("s.cdl"), place.path().join("strings.nc"));
    std::fs::write(&cdl, "netcdf s {\ndimensions: x = 2 ;\nvariables: string words(x) ;\n}\n")
        .unwrap();
    let made = Command::new("ncgen").args(["-k", "nc4", "-o", text(&strings), text(&cdl)]).status();
    assert!(made.unwrap().success());
    let told = complaint(["copy", text(&strings), text(&copy)], 1);
    assert!(told.contains("'words' cannot be copied"), "{told}");
    assert!(!copy.exists());
}

#[test]
fn moved_removed_split_and_joined() {
    let place = TempDir::new().unwrap();
    let source = made(&place, "nc4");
    let expected = dump(&source);
    let (moved, parts) = (place.path().join("moved.nc"), place.path().join("parts.nc"));
    answer(striate(["mv", text(&source), text(&moved)]), "mv");
    assert!(!source.exists());
    answer(striate(["split", "--partitions", "2", text(&moved), text(&parts)]), "split");
    let joined = place.path().join("joined.nc");
    answer(striate(["join", text(&parts), text(&joined)]), "join");
    assert_eq!(dump(&joined), expected);
    answer(striate(["rm", text(&moved)]), "rm");
    assert!(!moved.exists());
}

/// Dimensions and variables in a group, with chunks and filters.
const GROUPS_CDL: &str = r#"netcdf parts {
dimensions:
  time = UNLIMITED ;
  x = 11 ;
variables:
  double x(x) ;
  float heat(time, x) ;
    heat:units = "K" ;
    heat:_ChunkSizes = 2, 4 ;
    heat:_DeflateLevel = 3 ;
    heat:_Shuffle = "true" ;
data:
  x = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ;
  heat = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 ;
group: ocean {
  dimensions:
    run = UNLIMITED ;
    z = 6 ;
  variables:
    short salt(run, z, x) ;
      salt:_FillValue = -1s ;
      salt:_Endianness = "big" ;
    int both(time, run) ;
  :note = "deep" ;
  data:
    salt = 1, 2, 3, 4, 5, 6, 7 ;
    both = {7, 8} ;
  }
}
"#;

/// What a command has printed.
fn answered(output: std::process::Output, what: &str) -> String {
    String::from_utf8(answer(output, what)).unwrap()
}

#[test]
fn partitions_of_netcdf4_files_are_netcdf4_files() {
    let place = TempDir::new().unwrap();
    let (cdl, source) = (place.path().join("a.cdl"), place.path().join("a.nc"));
    std::fs::write(&cdl, GROUPS_CDL).unwrap();
    let made = Command::new("ncgen").args(["-k", "nc4", "-o", text(&source), text(&cdl)]).status();
    assert!(made.unwrap().success());
    let parts = place.path().join("parts.nc");
    let split =
        ["split", "--partitions", "3", "--dim", "ocean/salt=x", text(&source), text(&parts)];
    let told = answered(striate(split), "split");
    assert!(told.contains("3 partitions") && told.contains("netCDF-4"), "{told}");

    // One dataset to the commands.
    let same = |of: &Path| answered(striate(["compare", text(&source), text(of)]), "compare");
    assert_eq!(same(&parts), "no differences\n");
    let named = |of: &Path| answered(striate(["dump", "-n", "a", text(of)]), "dump");
    assert_eq!(named(&parts), named(&source));
    let json = |of: &Path| {
        let dumped = answered(striate(["dump", "--json", "-n", "a", text(of)]), "dump");
        dumped.split_once("\"rows\":").unwrap().1.to_owned()
    };
    assert_eq!(json(&parts), json(&source));
    let info = answered(striate(["info", text(&parts)]), "info");
    assert!(info.contains("3 partitions, all there") && info.contains("of ocean/salt"), "{info}");
    answered(striate(["validate", text(&parts)]), "validate");

    // Each file is one to the tools of netCDF.
    let files: Vec<PathBuf> = std::fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| text(path).contains(".part0"))
        .collect();
    assert_eq!(files.len(), 3);
    for file in &files {
        let dumped = dump(file);
        for due in
            [":partition_index = ", "heat:range\\(x\\) = ", "salt(run, z, x)", "group: ocean"]
        {
            assert!(dumped.contains(due), "{due} in {dumped}");
        }
        assert!(special(file).contains("heat:_DeflateLevel = 3"), "{}", special(file));
        let told = complaint(["rm", text(file)], 1);
        assert!(told.contains("it is a part of 'parts.nc'"), "{told}");
    }

    // A file again, and another format.
    let joined = place.path().join("joined.nc");
    answered(striate(["join", text(&parts), text(&joined)]), "join");
    assert_eq!(same(&joined), "no differences\n");
    assert!(special(&joined).contains("heat:_ChunkSizes = 2, 4"), "{}", special(&joined));
    let told = complaint(["split", "-k", "cdf5", "--partitions", "2", text(&source), "x.nc"], 1);
    assert!(told.contains("has no groups"), "{told}");

    let moved = place.path().join("moved/parts.nc");
    std::fs::create_dir(place.path().join("moved")).unwrap();
    answered(striate(["mv", text(&parts), text(&moved)]), "mv");
    assert!(files.iter().all(|file| !file.exists()));
    assert_eq!(same(&moved), "no differences\n");
    let part = place.path().join("moved").join(files[0].file_name().unwrap());
    let kept = std::fs::read(&part).unwrap();
    std::fs::remove_file(&part).unwrap();
    let output = striate(["validate", text(&moved)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("not valid"));
    let info = answered(striate(["info", text(&moved)]), "info");
    assert!(info.contains("3 partitions, with problems"), "{info}");
    std::fs::write(&part, kept).unwrap();
    answered(striate(["rm", text(&moved)]), "rm");
    assert_eq!(std::fs::read_dir(place.path().join("moved")).unwrap().count(), 0);
}
