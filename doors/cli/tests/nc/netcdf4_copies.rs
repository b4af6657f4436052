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
    let told = complaint(["copy", "-k", "cdf5", text(&strings), text(&copy)], 1);
    assert!(told.contains("'words' is of type string, which CDF-5 does not have"), "{told}");
    assert!(!copy.exists());
}

/// Strings and types of users are copied by ranks of any number, and compared.
#[test]
fn strings_and_types_of_users_are_copied() {
    const TYPES: &str = r#"netcdf types {
types:
  byte enum cloud {clear = 0, cumulus = 1, missing = -1} ;
  opaque(3) key ;
  compound part { int number ; string name ; } ;
  compound whole { part parts(2) ; cloud sky ; } ;
  int(*) list ;
dimensions: x = 3 ; t = UNLIMITED ;
variables:
  string words(x) ;
    words:_FillValue = "none" ;
  cloud skies(t, x) ;
    cloud skies:_FillValue = missing ;
  key keys(x) ;
  whole wholes(x) ;
  list lists(t) ;
  string :history = "made", "copied" ;
  list :lists = {1, 2}, {} ;
data:
  words = "a", "", "größer" ;
  skies = clear, cumulus, clear, missing, cumulus, clear ;
  keys = 0x010203, 0xFFFFFF, 0X000000 ;
  wholes = {{{1, "one"}, {2, "two"}}, clear}, {{{3, ""}, {4, "four"}}, cumulus},
    {{{5, "x"}, {6, "y"}}, clear} ;
  lists = {1, 2, 3}, {} ;
group: inner {
  types: key(*) chain ;
  variables: chain chains(x) ;
  data: chains = {0x010203}, {}, {0x0A0B0C, 0x0D0E0F} ;
}
}
"#;
    let place = TempDir::new().unwrap();
    let (cdl, source) = (place.path().join("types.cdl"), place.path().join("types.nc"));
    std::fs::write(&cdl, TYPES).unwrap();
    answer(striate(["generate", "-k", "netcdf4", text(&cdl), text(&source)]), "generate");
    for ranks in ["1", "3"] {
        let copy = place.path().join(format!("copy{ranks}.nc"));
        answer(striate(["copy", "--ranks", ranks, text(&source), text(&copy)]), "copy");
        assert_eq!(dump(&copy), dump(&source));
        answer(striate(["compare", "--ranks", ranks, text(&source), text(&copy)]), "compare");
    }
    // Compressed, and then not the same any more.
    let other = place.path().join("other.nc");
    answer(striate(["copy", "-d", "3", "-c", "x/2", text(&source), text(&other)]), "compress");
    assert_eq!(dump(&other), dump(&source));
    let changed =
        TYPES.replace("\"four\"", "\"vier\"").replace("clear, missing", "cumulus, missing");
    std::fs::write(&cdl, changed).unwrap();
    let changed = place.path().join("changed.nc");
    answer(striate(["generate", "-k", "netcdf4", text(&cdl), text(&changed)]), "generate");
    let output = striate(["compare", text(&source), text(&changed)]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    for due in ["variable 'skies': 1 of 6 values differ", "variable 'wholes': 1 of 3 values differ"]
    {
        assert!(told.contains(due), "{told}");
    }
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

const GROUPS: &str = "netcdf g {
dimensions: t = UNLIMITED ; x = 12 ; y = 10 ;
variables: short a(t, x, y) ; a:units = \"m\" ; int n ;
  :title = \"root\" ;
data: n = 4 ;
group: left { dimensions: z = 3 ; variables: float a(z, x) ; byte b(z) ; :is = \"left\" ;
  data: b = 1, 2, 3 ;
  group: deep { variables: double c(z, y) ; } }
group: right { variables: int a(y) ; data: a = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 ; }
}
";

/// The file with groups, filled by `ncgen` with numbers that all differ.
fn with_groups(place: &TempDir) -> PathBuf {
    let numbers: Vec<String> =
        (0..7 * 12 * 10).map(|number| (number * 7 % 30_011).to_string()).collect();
    let data = format!("data: a = {} ; n = 4 ;", numbers.join(", "));
    let cdl = GROUPS.replacen("data: n = 4 ;", &data, 1);
    let (text_file, file) = (place.path().join("g.cdl"), place.path().join("g.nc"));
    std::fs::write(&text_file, cdl).unwrap();
    let status =
        Command::new("ncgen").args(["-k", "nc4", "-o", text(&file), text(&text_file)]).status();
    assert!(status.unwrap().success());
    file
}

fn nccopy(options: &[&str], source: &Path, copy: &Path) {
    let output = Command::new("nccopy").args(options).args([source, copy]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Any shape of chunks becomes any other, with memory for a few of them.
#[test]
fn chunks_get_other_shapes_as_nccopy_makes_them() {
    let place = TempDir::new().unwrap();
    let source = with_groups(&place);
    let expected = dump(&source);
    let [maps, theirs] = ["maps.nc", "theirs.nc"].map(|name| place.path().join(name));
    for (number, chunks) in
        ["t/1,x/12,y/10", "t/7,x/2,y/3", "t/3,x/5,y/10", "t/100,x/12,y/1"].into_iter().enumerate()
    {
        for (memory, filters) in [("64K", &["--deflate", "1", "--shuffle"][..]), ("1M", &[])] {
            let again = place.path().join(format!("{number}{memory}.nc"));
            let options = ["copy", "--chunks", chunks, "--memory", memory, "-n", "2"];
            let words = options.iter().chain(filters).copied();
            answer(striate(words.clone().chain([text(&source), text(&again)])), chunks);
            assert_eq!(dump(&again), expected, "{chunks}");
            // And from there to maps.
            let back = ["copy", "--force", "--chunks", "t/1,x/12,y/10", "--memory", memory];
            answer(striate(back.into_iter().chain([text(&again), text(&maps)])), chunks);
            assert_eq!(dump(&maps), expected, "{chunks}");
            let mut options = vec!["-c", chunks];
            if !filters.is_empty() {
                options.extend(["-d", "1", "-s"]);
            }
            nccopy(&options, &source, &theirs);
            answer(striate(["compare", text(&theirs), text(&again)]), chunks);
        }
    }
    let fault = complaint(["copy", "--memory", "5", text(&source), text(&maps)], 2);
    assert!(fault.contains("at least 64K"), "{fault}");
}

#[test]
fn variables_and_groups_are_chosen_as_nccopy_does() {
    let place = TempDir::new().unwrap();
    let source = with_groups(&place);
    let [ours, theirs] = ["ours.nc", "theirs.nc"].map(|name| place.path().join(name));
    for options in [["-V", "a"], ["-V", "/left/a,left/b"], ["-V", "b"]] {
        let words = ["copy", "--force"].into_iter().chain(options);
        answer(striate(words.chain([text(&source), text(&ours)])), format!("{options:?}"));
        nccopy(&options, &source, &theirs);
        assert_eq!(dump(&ours), dump(&theirs), "{options:?}");
    }
    // Groups; nccopy defines variables of other groups without their values.
    for (groups, has, lacks) in [
        ("/left", &["float a(z, x)", "byte b(z)", "double c(z, y)", ":title"][..], "short a("),
        ("left/deep", &["group: left", ":is =", "z = 3", "double c(z, y)"], "byte b("),
        ("right,deep", &["int a(y)", "double c(z, y)", "0, 1, 2, 3"], "float a("),
    ] {
        let words = ["copy", "--force", "-G", groups, text(&source), text(&ours)];
        answer(striate(words), groups);
        let found = dump(&ours);
        assert!(has.iter().all(|part| found.contains(part)), "{found}");
        assert!(!found.contains(lacks), "{found}");
    }
    answer(striate(["copy", "--force", "-x", "/a,b", text(&source), text(&ours)]), "-x");
    let left = dump(&ours);
    assert!(
        !left.contains("short a(") && !left.contains("byte b(") && left.contains("float a("),
        "{left}"
    );
    for options in [["-V", "none"], ["-x", "/b"], ["-G", "middle"]] {
        let words = ["copy", "--force"].into_iter().chain(options);
        let fault = complaint(words.chain([text(&source), text(&ours)]), 1);
        assert!(fault.contains(&format!("there is no '{}'", options[1])), "{fault}");
    }
    // Of classic files, too.
    let classic = made(&place, "nc3");
    answer(
        striate(["copy", "--force", "-V", "temp,depth", text(&classic), text(&ours)]),
        "classic",
    );
    nccopy(&["-V", "temp,depth"], &classic, &theirs);
    assert_eq!(dump(&ours), dump(&theirs));
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
    both = {7}, {8} ;
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
    assert!(
        info.contains("3 partitions, all there") && info.contains("heat, ocean/salt"),
        "{info}"
    );
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
